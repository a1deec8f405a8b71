"""What the system refuses is one message with an exit code, not a traceback; nothing half written stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from decisions.support import CASES, PAIR, World, cli


def refused(*arguments: str | Path) -> str:
    done = cli(*arguments)
    assert done.code == 2, (done.code, done.err)
    assert "Traceback" not in done.err
    assert "do:" in done.err
    return done.err


def test_a_name_that_is_too_long(tmp_path: Path) -> None:
    refused("decisions", "precommit", CASES, "--pair", PAIR, "--out", tmp_path / ("x" * 300))
    refused("verify", tmp_path / ("x" * 300))


def test_a_full_disk(planned: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """ENOSPC in the middle of a commit: the run is as it was, and evaluates afterwards."""
    import errno
    import os

    from evalkit.sealing import files

    before = sorted(p.name for p in planned.run.iterdir())
    real = files.write_all

    def full(fd: int, data: bytes) -> None:
        if len(data) > 100_000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "run.json")
        real(fd, data)

    monkeypatch.setattr(files, "write_all", full)
    error = refused("decisions", "evaluate", planned.run, "--write-run")
    assert "No space left" in error
    monkeypatch.setattr(files, "write_all", real)
    assert cli("decisions", "evaluate", planned.run, "--write-run").code == 0
    assert sorted(p.name for p in planned.run.iterdir()) == sorted([*before, "ex-ante"])


def test_report_out_must_be_a_file(revealed: World, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    refused("report", revealed.run, "--out", folder)
    refused("report", revealed.run, "--out", tmp_path / "nowhere" / "x.html")
    assert list(folder.iterdir()) == []
    assert [p.name for p in revealed.run.parent.iterdir()] == [revealed.run.name]


def test_a_pdf_beside_the_report_is_no_tampering(revealed: World) -> None:
    (revealed.run / "report.pdf").write_bytes(b"%PDF")
    assert cli("verify", revealed.run).code == 0
