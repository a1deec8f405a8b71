"""A run that was copied, unpacked or cut: what still verifies, and what does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalkit.decisions import verify_run
from evalkit.errors import Binding, BindingError

from .support import World


def test_modes_of_a_copy_do_not_matter_to_a_verifier(revealed: World) -> None:
    """git, zip and tar unpack as 0755 and 0644; every byte is bound by a signature all the same."""
    for path in (revealed.run, *revealed.run.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    assert verify_run(revealed.run, places=revealed.places).phase == "post_reveal_calibration"


@pytest.mark.parametrize("kept", [1, 2, 3, 4, 5])
def test_journal_cut_at_a_line_end_is_noticed(revealed: World, kept: int) -> None:
    """Ledger tail cut: the head that the newest attestation signed must be in the journal."""
    journal = revealed.run / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    assert len(lines) == 7  # precommit; attempt, intent, committed of each phase
    journal.write_bytes(b"".join(lines[:kept]))
    with pytest.raises(BindingError) as error:
        verify_run(revealed.run, places=revealed.places)
    assert error.value.binding is Binding.RUN


def test_a_run_may_be_made_in_a_shared_sticky_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """/tmp is root's and everybody's; with the sticky bit nobody else can move what is ours."""
    import os

    from evalkit.errors import EvalkitError
    from evalkit.sealing import commit_directory

    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    real = os.fstat

    class Foreign:
        """The parent as another user sees it: it belongs to root, we are somebody else."""

        def __init__(self, found: os.stat_result) -> None:
            self.found = found

        def __getattr__(self, name: str) -> object:
            return 0 if name == "st_uid" else getattr(self.found, name)

    def seen(fd: int) -> object:
        found = real(fd)
        return Foreign(found) if found.st_ino == shared.stat().st_ino else found

    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() or 12345)
    monkeypatch.setattr("evalkit.sealing.files.os.fstat", seen)
    shared.chmod(0o777)
    with pytest.raises(EvalkitError, match="belongs to user"):
        commit_directory(shared / "run", lambda root: None)
    shared.chmod(0o1777)
    assert commit_directory(shared / "run", lambda root: None).is_dir()
