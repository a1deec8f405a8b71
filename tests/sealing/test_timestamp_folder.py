"""The tokens of a run on disk: whole or not there, and never replaced by a weaker one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from evalkit.errors import Binding, BindingError, EvalkitError
from evalkit.sealing import files, read_tokens, write_token
from evalkit.sealing.timestamp import MAX_TOKEN
from evalkit.sealing.timestamp_folder import token_name

from .conftest import names
from .timestamping import SEQUENCE, Authority, encode, integer, later, make_authority, token

DATA = b"an attestation"
PHASES = ("precommit", "ex-ante")


@pytest.fixture(scope="module")
def authority() -> Authority:
    return make_authority()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    return folder


def test_written_and_read(run: Path, authority: Authority) -> None:
    assert read_tokens(run, PHASES) == {}
    response = token(authority, DATA)
    found = write_token(run, "ex-ante", response, DATA, [authority.pinned()])
    assert found.authority == "test"
    assert read_tokens(run, PHASES) == {"ex-ante": response}
    assert names(run / "timestamps") == ["ex-ante.tsr"]
    assert (run / "timestamps").stat().st_mode & 0o777 == 0o700
    assert (run / "timestamps" / "ex-ante.tsr").stat().st_mode & 0o777 == 0o600


def test_what_does_not_verify_leaves_no_trace(run: Path, authority: Authority) -> None:
    with pytest.raises(BindingError, match="other bytes"):
        write_token(run, "ex-ante", token(authority, b"other"), DATA, [authority.pinned()])
    assert names(run) == []


def test_the_earlier_token_stays(run: Path, authority: Authority) -> None:
    pinned = [authority.pinned()]
    first, second = token(authority, DATA), token(authority, DATA, time=later(60))
    write_token(run, "ex-ante", second, DATA, pinned)
    for weaker in (second, token(authority, DATA, time=later(61))):
        with pytest.raises(EvalkitError, match="as early"):
            write_token(run, "ex-ante", weaker, DATA, pinned)
        assert read_tokens(run, PHASES) == {"ex-ante": second}
    write_token(run, "ex-ante", first, DATA, pinned)
    assert read_tokens(run, PHASES) == {"ex-ante": first}
    # what counts is the latest moment that is meant, not the one that is named
    vague = token(authority, DATA, time=later(-60), accuracy=encode(SEQUENCE, integer(3600)))
    with pytest.raises(EvalkitError, match="as early"):
        write_token(run, "ex-ante", vague, DATA, pinned)


def test_a_token_that_cannot_be_compared_is_not_replaced(run: Path, authority: Authority) -> None:
    stranger = make_authority()
    write_token(run, "ex-ante", token(stranger, DATA), DATA, [stranger.pinned()])
    before = read_tokens(run, PHASES)
    with pytest.raises(EvalkitError, match="does not verify it"):
        write_token(run, "ex-ante", token(authority, DATA, time=later(-60)), DATA, [authority.pinned()])
    assert read_tokens(run, PHASES) == before


@pytest.mark.parametrize("step", ["replace-write", "replace-fsync", "replace-rename"])
def test_killed_while_writing_leaves_a_whole_token_or_none(
    run: Path, authority: Authority, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process dies in a child, at a step of the write; the next write clears what it left."""
    pinned, response = [authority.pinned()], token(authority, DATA)
    pid = os.fork()
    if pid == 0:
        import evalkit.sealing.timestamp_folder as module

        def dies(*arguments: object, **other: object) -> None:
            files.replace_at(
                *arguments,
                **other,
                observe=lambda at: os._exit(9) if at == step else None,
            )

        module.replace_at = dies
        write_token(run, "ex-ante", response, DATA, pinned)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    assert not (run / "timestamps" / "ex-ante.tsr").exists()
    assert any(n.startswith(".stage.") for n in names(run / "timestamps"))
    with pytest.raises(BindingError, match=r"\.stage\.") as caught:
        read_tokens(run, PHASES)
    assert caught.value.binding is Binding.RUN
    write_token(run, "ex-ante", response, DATA, pinned)
    assert names(run / "timestamps") == ["ex-ante.tsr"]


def test_nothing_else_may_lie_there(run: Path, authority: Authority) -> None:
    write_token(run, "ex-ante", token(authority, DATA), DATA, [authority.pinned()])
    (run / "timestamps" / "notes.txt").write_text("x")
    with pytest.raises(BindingError, match=r"notes\.txt") as caught:
        read_tokens(run, PHASES)
    assert caught.value.binding is Binding.RUN
    with pytest.raises(BindingError, match=r"ex-ante\.tsr"):
        read_tokens(run, ("precommit",))


def test_links_pipes_and_large_files_are_refused(run: Path, authority: Authority) -> None:
    folder = run / "timestamps"
    write_token(run, "ex-ante", token(authority, DATA), DATA, [authority.pinned()])
    path = folder / "ex-ante.tsr"
    other = run.parent / "other.tsr"
    path.rename(other)

    def spoilt(binding: Binding) -> None:
        with pytest.raises(BindingError) as caught:
            read_tokens(run, PHASES)
        assert caught.value.binding is binding

    path.symlink_to(other)
    spoilt(Binding.TIMESTAMP)
    path.unlink()
    os.link(other, path)
    spoilt(Binding.TIMESTAMP)
    path.unlink()
    os.mkfifo(path)
    spoilt(Binding.TIMESTAMP)
    path.unlink()
    path.write_bytes(b"0" * (MAX_TOKEN + 1))
    spoilt(Binding.TIMESTAMP)
    path.unlink()
    folder.rename(run.parent / "elsewhere")
    folder.symlink_to(run.parent / "elsewhere")
    spoilt(Binding.RUN)
    folder.unlink()
    folder.write_text("a file")
    spoilt(Binding.RUN)


def test_a_run_that_others_may_write_is_not_written_to(run: Path, authority: Authority) -> None:
    run.chmod(0o770)
    with pytest.raises(BindingError, match="others have access"):
        write_token(run, "ex-ante", token(authority, DATA), DATA, [authority.pinned()])
    assert names(run) == []


def test_names_of_phases() -> None:
    assert token_name("ex-ante") == "ex-ante.tsr"
    for bad in ("", "../x", "Plan", ".x", "a/b"):
        with pytest.raises(EvalkitError, match="not a phase"):
            token_name(bad)
