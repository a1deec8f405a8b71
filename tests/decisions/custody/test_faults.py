"""Crashes and races of a release: recorded first, given once, and given again to whoever it was given to."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import pytest

from evalkit.errors import EvalkitError
from evalkit.sealing import exchange

from .people import Two


def in_a_process(act: object) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        with contextlib.suppress(EvalkitError):
            act()
            code = 0
        os._exit(code)
    return pid


def code_of(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def killed_at(two: Two, step: str) -> None:
    def observe(at: str) -> None:
        if at == step:
            os.kill(os.getpid(), signal.SIGKILL)

    assert code_of(in_a_process(lambda: two.answer(observe=observe))) == -signal.SIGKILL


def test_the_ledger_is_written_before_the_opening(asked: Two) -> None:
    seen: list[tuple[str, int, bool]] = []
    asked.answer(
        observe=lambda step: seen.append((step, len(asked.events("released")), asked.opening.exists()))
    )
    assert seen == [("ledger", 0, False), ("sign", 1, False), ("write", 1, False)]


@pytest.mark.parametrize(("step", "recorded"), [("ledger", 0), ("sign", 1), ("write", 1)])
def test_killed_at_any_step_asking_again_works(asked: Two, step: str, recorded: int) -> None:
    killed_at(asked, step)
    assert not asked.opening.exists()
    before = asked.events("released")
    assert len(before) == recorded
    asked.answer()
    assert asked.events("released")[:recorded] == before
    assert len(asked.events("released")) == 1
    asked.reveal()
    assert asked.verify().phase == "post_reveal_calibration"


def test_killed_while_the_opening_is_written(asked: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it had written so far holds outcomes: the next one takes it away."""

    def die(*args: object, **rest: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with monkeypatch.context() as patch:
        patch.setattr(exchange, "rename_new", die)
        assert code_of(in_a_process(asked.answer)) == -signal.SIGKILL
    assert [p for p in asked.root.iterdir() if p.name.startswith(".stage.opening.")]
    assert not asked.opening.exists()
    asked.answer()
    assert not [p for p in asked.root.iterdir() if p.name.startswith(".stage.")]
    asked.reveal()


def test_killed_between_ledger_and_file_another_attestation_gets_nothing(
    planned: Two, stages: dict[str, Two], tmp_path: Path
) -> None:
    twin = stages["planned"].copy(tmp_path / "twin")
    for two in (planned, twin):
        two.evaluate()
        two.ask()
    killed_at(planned, "sign")
    with pytest.raises(EvalkitError, match="released for another attestation"):
        planned.answer(twin.request)
    planned.answer()


def test_a_disk_without_room_leaves_nothing_half_written(asked: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **rest: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(exchange, "write_new_at", full)
        with pytest.raises(OSError, match="No space"):
            asked.answer()
    assert not asked.opening.exists()
    assert {p.name for p in asked.root.iterdir()} == {"bundle", "custodian", "evaluator", "request"}
    asked.answer()
    assert len(asked.events("released")) == 1


def test_many_processes_answer_one_request_with_one_opening(asked: Two) -> None:
    outs = [asked.root / f"o{n}" for n in range(4)]
    pids = [in_a_process(lambda out=out: asked.answer(out=out)) for out in outs]
    assert [code_of(pid) for pid in pids] == [0] * 4
    assert len(asked.events("released")) == 1
    assert len({out.read_bytes() for out in outs}) == 1


def test_two_attestations_that_race_get_one_release(
    planned: Two, stages: dict[str, Two], tmp_path: Path
) -> None:
    requests = []
    for n in range(4):
        twin = stages["planned"].copy(tmp_path / f"twin{n}")
        twin.evaluate()
        twin.ask()
        requests.append(twin.request)
    pids = [
        in_a_process(lambda q=q, n=n: planned.answer(q, planned.root / f"o{n}"))
        for n, q in enumerate(requests)
    ]
    codes = [code_of(pid) for pid in pids]
    assert sorted(codes) == [0, 1, 1, 1]
    assert len(planned.events("released")) == 1
    assert [(planned.root / f"o{n}").exists() for n in range(4)] == [code == 0 for code in codes]


def test_the_unpacked_request_is_private_and_gone_afterwards(
    asked: Two, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tempfile

    from evalkit.decisions.custody import release as module

    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    real = module.verify_run
    seen: list[int] = []

    def look(run_dir: Path, **options: object) -> object:
        seen.append(run_dir.parent.stat().st_mode & 0o777)
        return real(run_dir, **options)

    monkeypatch.setattr(module, "verify_run", look)
    asked.answer()
    assert seen == [0o700]
    assert list(place.iterdir()) == []


def test_what_is_handed_over_is_private(answered: Two) -> None:
    for path in (answered.request, answered.opening):
        assert path.stat().st_mode & 0o777 == 0o600
    assert answered.bundle.stat().st_mode & 0o777 == 0o700
