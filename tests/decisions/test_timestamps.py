"""Timestamps of a run: what verify says of them, the commands, and an authority on the loopback interface."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from evalkit.cli.timestamps import _PHASES
from evalkit.decisions import evaluate, verify_run
from evalkit.decisions import timestamps as module
from evalkit.decisions.chain import load_trust
from evalkit.decisions.moments import instant
from evalkit.decisions.timestamps import ENVELOPES, Stamps
from evalkit.errors import Binding, BindingError
from evalkit.sealing import pin_authority
from evalkit.sealing.timestamp import read_request, request
from tests.models.server import Seen, Service, serving
from tests.sealing.timestamping import (
    Authority,
    OpenSSL,
    make_authority,
    needs_openssl,
    rejection,
    token,
)

from .support import PAIR, ROOT, World, cli

REPLY = {"content-type": "application/timestamp-reply"}


@pytest.fixture(scope="module")
def authority() -> Authority:
    return make_authority()


def pin(world: World, authority: Authority, name: str = "test") -> None:
    pin_authority(world.places.trust, authority.pinned(name))


def put(world: World, authority: Authority, phase: str, time: datetime | None = None, **shape: Any) -> None:
    """A token as somebody could put it into the folder by hand."""
    folder = world.run / "timestamps"
    folder.mkdir(exist_ok=True, mode=0o700)
    data = (world.run / ENVELOPES[phase]).read_bytes()
    shape = {"time": (time or datetime.now(UTC)).replace(microsecond=0)} | shape
    (folder / f"{phase}.tsr").write_bytes(token(authority, data, **shape))


def lines(world: World) -> list[tuple[str, str, str]]:
    return [(x.status, x.text, x.detail) for x in verify_run(world.run, places=world.places).lines]


def said(world: World, words: str) -> tuple[str, str, str]:
    """The one line with these words."""
    (line,) = [x for x in lines(world) if words in x[1]]
    return line


def fails(world: World, match: str | None, binding: Binding = Binding.TIMESTAMP) -> BindingError:
    with pytest.raises(BindingError, match=match) as caught:
        verify_run(world.run, places=world.places)
    assert caught.value.binding is binding
    return caught.value


def stated(world: World, phase: str) -> datetime:
    if phase == "precommit":
        return instant(world.plan["created_at"])
    file, field = {"ex-ante": ("run", "finalized_at"), "reveal": ("calibration", "revealed_at")}[phase]
    return instant(json.loads((world.run / phase / f"{file}.json").read_bytes())[field])


def started(world: World) -> datetime:
    return instant(json.loads((world.run / "ex-ante" / "run.json").read_bytes())["started_at"])


# --- verify --------------------------------------------------------------------------------------


def test_a_run_without_tokens_says_what_it_said_before(revealed: World, authority: Authority) -> None:
    assert said(revealed, "beyond the signer's own clock") == (
        "not proven", "when things happened, beyond the signer's own clock", ""
    )  # fmt: skip
    pin(revealed, authority)
    assert said(revealed, "beyond the signer's own clock")[1].startswith("when things happened")
    (revealed.run / "timestamps").mkdir()
    assert said(revealed, "beyond the signer's own clock")[1].startswith("when things happened")


@pytest.mark.parametrize("phase", list(ENVELOPES))
def test_a_token_proves_that_the_attestation_existed(
    revealed: World, authority: Authority, phase: str
) -> None:
    pin(revealed, authority)
    at = stated(revealed, phase).replace(microsecond=0) + timedelta(seconds=1)
    put(revealed, authority, phase, at)
    status, _, detail = said(revealed, "existed at a time that a pinned timestamp authority states")
    assert status == "proven"
    assert detail == f"{at.replace(tzinfo=None).isoformat()}Z ± 1 s, test"
    others = ", ".join(p for p in ENVELOPES if p != phase)
    assert said(revealed, "beyond the signer's own clock")[2] == f"no timestamp of {others}"
    assert "how long before its timestamp" in said(revealed, "beyond the signer's own clock")[1]


def test_all_three(revealed: World, authority: Authority) -> None:
    pin(revealed, authority)
    for phase in ENVELOPES:
        put(revealed, authority, phase)
    assert len([x for x in lines(revealed) if "pinned timestamp authority states" in x[1]]) == 3
    assert said(revealed, "beyond the signer's own clock")[2] == ""


def test_order_of_plan_and_evaluation(evaluated: World, authority: Authority) -> None:
    pin(evaluated, authority)
    start = started(evaluated)
    early = start.replace(microsecond=0) - timedelta(seconds=1)  # with its accuracy of 1 s: just not later
    put(evaluated, authority, "precommit", early)
    status, text, detail = said(evaluated, "before the evaluation began")
    assert (status, text) == (
        "proven",
        "the plan's attestation existed before the evaluation began, if that was not before the signer says",
    )
    assert "the signer states" in detail
    put(evaluated, authority, "precommit", early + timedelta(seconds=1))
    status, text, _ = said(evaluated, "before the evaluation began")
    assert status == "not proven"
    assert text.endswith("its timestamp is later and proves nothing about the order")
    put(evaluated, authority, "precommit", early + timedelta(days=100))
    assert said(evaluated, "before the evaluation began")[0] == "not proven"
    assert said(evaluated, "pinned timestamp authority states")[0] == "proven"


def test_order_of_run_and_reveal(revealed: World, authority: Authority) -> None:
    pin(revealed, authority)
    at = stated(revealed, "reveal").replace(microsecond=0) - timedelta(seconds=1)
    put(revealed, authority, "ex-ante", at)
    assert said(revealed, "existed before the reveal")[0] == "proven"
    put(revealed, authority, "ex-ante", at + timedelta(seconds=2))
    assert said(revealed, "existed before the reveal")[0] == "not proven"


@pytest.mark.parametrize("phase", list(ENVELOPES))
def test_a_token_before_the_signers_time_shows_a_wrong_clock(
    revealed: World, authority: Authority, phase: str
) -> None:
    pin(revealed, authority)
    at = stated(revealed, phase).replace(microsecond=0)
    put(revealed, authority, phase, at - timedelta(seconds=3601))
    status, _, detail = said(revealed, "clock was wrong")
    assert status == "not proven"
    assert "3600 s after the timestamp" in detail or "3601 s after the timestamp" in detail
    assert said(revealed, "pinned timestamp authority states")[0] == "proven"
    # within the tolerance of the journal it is no finding
    put(revealed, authority, phase, at - timedelta(seconds=5))
    assert not [x for x in lines(revealed) if "clock was wrong" in x[1]]


def test_a_wrong_clock_proves_no_order(evaluated: World, authority: Authority) -> None:
    pin(evaluated, authority)
    put(evaluated, authority, "precommit", stated(evaluated, "precommit") - timedelta(hours=1))
    status, text, _ = said(evaluated, "before the evaluation began")
    assert status == "not proven"
    assert "by a wrong clock" in text


def test_no_authority_pinned(revealed: World, authority: Authority) -> None:
    put(revealed, authority, "ex-ante")
    status, text, detail = said(revealed, "what the timestamps in the run say")
    assert status == "not proven"
    assert "pins no timestamp authority" in text
    assert detail.startswith("ex-ante; evalkit timestamps pin")
    assert said(revealed, "beyond the signer's own clock")[1].startswith("when things happened")
    assert attested_times(revealed) == {}


def test_the_extra_is_not_installed(
    revealed: World, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    pin(revealed, authority)
    put(revealed, authority, "ex-ante")
    monkeypatch.setattr(module, "available", lambda: False)
    status, text, detail = said(revealed, "what the timestamps in the run say")
    assert status == "not proven"
    assert "the extra timestamps is not installed" in text
    assert "pip install 'evalkit-sealed[timestamps]'" in detail
    assert attested_times(revealed) == {}


def test_a_token_that_does_not_verify_is_a_binding_error(revealed: World, authority: Authority) -> None:
    pin(revealed, authority)
    put(revealed, make_authority(), "reveal")
    error = fails(revealed, "no pinned timestamp authority")
    assert error.where == "timestamps/reveal.tsr"
    assert error.exit_code == 20
    assert str(error).count("timestamp: ") == 1
    (revealed.run / "timestamps" / "reveal.tsr").unlink()
    assert verify_run(revealed.run, places=revealed.places)  # it removed a proof, and nothing else


def test_a_token_for_other_bytes(revealed: World, authority: Authority) -> None:
    """The token of one phase does not stand for another, nor that of one run for another."""
    pin(revealed, authority)
    put(revealed, authority, "precommit")
    folder = revealed.run / "timestamps"
    (folder / "precommit.tsr").rename(folder / "ex-ante.tsr")
    fails(revealed, "other bytes")
    (folder / "ex-ante.tsr").write_bytes(b"garbage")
    fails(revealed, "not a timestamp answer")


def test_a_token_of_a_phase_that_is_not_there(planned: World, authority: Authority) -> None:
    for pinned in (False, True):
        if pinned:
            pin(planned, authority)
        folder = planned.run / "timestamps"
        folder.mkdir(exist_ok=True)
        (folder / "ex-ante.tsr").write_bytes(token(authority, b"x"))
        fails(planned, "a phase that is not there")


def test_nothing_else_in_the_folder(planned: World) -> None:
    (planned.run / "timestamps").mkdir()
    (planned.run / "timestamps" / "note").write_text("x")
    fails(planned, "note", Binding.RUN)
    (planned.run / "timestamps" / "note").unlink()
    (planned.run / "timestamps").rmdir()
    (planned.run / "timestamps").write_text("x")
    fails(planned, "not a directory", Binding.RUN)


def test_a_changed_attestation_is_an_attestation_error_first(revealed: World, authority: Authority) -> None:
    pin(revealed, authority)
    put(revealed, authority, "precommit")
    path = revealed.run / "plan.dsse.json"
    path.write_bytes(path.read_bytes().replace(b'"sig":"', b'"sig":"A'))
    fails(revealed, None, Binding.ATTESTATION)


def attested_times(world: World) -> dict[str, datetime]:
    """What the tokens of a run say of the envelopes that lie there."""
    stamps = Stamps(world.run, load_trust(world.run, None, world.places))
    found = {
        phase: stamps.attested_at(phase, (world.run / name).read_bytes()) for phase, name in ENVELOPES.items()
    }
    return {phase: at for phase, at in found.items() if at is not None}


def test_attested_times(revealed: World, authority: Authority) -> None:
    pin(revealed, authority)
    at = datetime(2026, 12, 24, 18, tzinfo=UTC)
    put(revealed, authority, "precommit", at)
    put(revealed, authority, "ex-ante", at + timedelta(hours=1), accuracy=None)
    put(revealed, make_authority(), "reveal", at)
    assert attested_times(revealed) == {
        "precommit": at + timedelta(seconds=1),
        "ex-ante": at + timedelta(hours=1, seconds=1),
    }


def test_the_run_goes_on_with_tokens_in_it(planned: World, authority: Authority) -> None:
    """Settling and the commits of later phases know the folder."""
    pin(planned, authority)
    put(planned, authority, "precommit")
    assert evaluate(planned.run, write_run=True, places=planned.places).written
    put(planned, authority, "ex-ante")
    done = cli("decisions", "reveal", planned.run, "--write-calibration")
    assert done.code == 0, done.err
    assert said(planned, "existed before the reveal")


def test_the_report_shows_the_lines(revealed: World, authority: Authority) -> None:
    pin(revealed, authority)
    put(revealed, authority, "precommit", started(revealed) - timedelta(seconds=2))
    done = cli("report", revealed.run)
    assert done.code == 0, done.err
    page = (revealed.run / "report.html").read_text()
    assert "existed at a time that a pinned timestamp authority states" in page
    assert "existed before the evaluation began, if that was not before the signer says" in page
    assert "how long before its timestamp an attestation was made" in page


# --- commands ------------------------------------------------------------------------------------


@contextmanager
def tsa(authority: Authority, folder: Path) -> Iterator[Service]:
    """An RFC 3161 service by openssl."""
    runner = OpenSSL(folder / "tsa", authority)
    with serving(lambda seen: (200, REPLY, runner.reply(seen.body))) as service:
        yield service


@contextmanager
def by_hand(answer: Callable[[Seen], bytes]) -> Iterator[Service]:
    with serving(lambda seen: (200, REPLY, answer(seen))) as service:
        yield service


def pem_files(authority: Authority, folder: Path) -> tuple[Path, Path]:
    folder.mkdir(exist_ok=True)
    root, leaf = folder / "root.pem", folder / "leaf.pem"
    root.write_bytes(authority.root.pem)
    leaf.write_bytes(authority.leaf.pem + b"".join(c.pem for c in (*authority.between, authority.root)))
    return root, leaf


def pin_by_command(authority: Authority, folder: Path, *more: str) -> Any:
    root, leaf = pem_files(authority, folder)
    return cli("timestamps", "pin", "--name", "dfn", "--root", root, "--leaf", leaf, *more)


def test_pin_and_list(planned: World, tmp_path: Path) -> None:
    made = make_authority(between=1)
    assert "no timestamp authority" in cli("timestamps", "list").out
    done = pin_by_command(made, tmp_path / "pem", "--policy", "1.2.3", "--comment", "ours")
    assert done.code == 0, done.err
    import hashlib

    fingerprint = hashlib.sha256(made.leaf.der).hexdigest()
    assert fingerprint in done.out
    listed = cli("timestamps", "list").out
    assert "dfn  CN=Test TSA" in listed
    assert fingerprint in listed
    assert "1.2.3" in listed
    assert load_trust(planned.run, None, planned.places).timestamp_authorities == (
        made.pinned("dfn", policies=("1.2.3",), comment="ours"),
    )
    (one,) = json.loads(cli("timestamps", "list", "--json").out)["timestamp_authorities"]
    assert one == {
        "name": "dfn", "subject": "CN=Test TSA", "leaf_sha256": fingerprint, "policies": ["1.2.3"], "comment": "ours",
        "valid_from": "2020-01-01T00:00:00Z", "valid_until": "2040-01-01T00:00:00Z",
    }  # fmt: skip
    # in DER as well
    (tmp_path / "root.der").write_bytes(made.root.der)
    der = cli("timestamps", "pin", "--name", "dfn", "--root", tmp_path / "root.der", "--leaf", tmp_path / "pem" / "leaf.pem",
              "--policy", "1.2.3", "--comment", "ours")  # fmt: skip
    assert der.code == 0, der.err
    assert "pinned already, nothing changed" in der.out


def test_pin_refuses(planned: World, tmp_path: Path, authority: Authority) -> None:
    root, leaf = pem_files(authority, tmp_path / "pem")
    before = planned.places.trust.read_bytes()
    (tmp_path / "no.pem").write_text("no certificate")
    other, _ = pem_files(make_authority(), tmp_path / "other")
    alone = tmp_path / "alone.pem"
    alone.write_bytes(authority.leaf.pem)
    for arguments, code, words in (
        (("--root", tmp_path / "no.pem", "--leaf", leaf), 2, "cannot read a certificate"),
        (("--root", tmp_path / "absent.pem", "--leaf", leaf), 2, "cannot read a certificate"),
        (("--root", root, "--leaf", root), 2, "not a certificate for timestamps\n  where: --leaf"),
        (("--root", other, "--leaf", alone), 2, "end in a pinned root\n  where: --root, --leaf"),
        (("--root", leaf, "--leaf", leaf), 2, "where: --root"),
        (("--root", root, "--leaf", leaf, "--policy", "x"), 2, "no policy\n  where: --policy"),
        (("--root", root, "--leaf", leaf, "--name", "My TSA"), 2, "names no authority\n  where: --name"),
    ):
        done = cli("timestamps", "pin", "--name", "dfn", *arguments)
        assert (done.code, words in done.err) == (code, True), done.err
        assert "Traceback" not in done.err
        assert "trust file" not in done.err
    assert planned.places.trust.read_bytes() == before


@needs_openssl
def test_from_plan_to_reveal_with_an_authority(planned: World, tmp_path: Path, authority: Authority) -> None:
    """`--tsa` on all three commands, by openssl on the loopback interface, and openssl agrees afterwards."""
    pin_by_command(authority, tmp_path / "pem")
    run = planned.run.parent / "stamped"
    with tsa(authority, tmp_path) as service:
        url = service.base_url
        done = cli("decisions", "precommit", "shipped", "--pair", PAIR, "--out", run, "--tsa", url, "--json")
        assert done.code == 0, done.err
        record = json.loads(done.out)["timestamp"]
        assert (record["phase"], record["authority"], record["accuracy_seconds"]) == ("precommit", "dfn", 1.0)
        import time

        time.sleep(1.2)  # the accuracy: only then is the plan certainly earlier
        done = cli("decisions", "evaluate", run, "--write-run", "--tsa", url)
        assert done.code == 0, done.err
        assert "timestamp: existed at" in done.out
        done = cli("decisions", "reveal", run, "--write-calibration", "--tsa", url, "--json")
        assert json.loads(done.out)["timestamp"]["phase"] == "reveal"
    assert len(service.seen) == 3
    oracle = OpenSSL(tmp_path / "oracle", authority)
    for seen, (phase, name) in zip(service.seen, ENVELOPES.items(), strict=True):
        response, data = (run / "timestamps" / f"{phase}.tsr").read_bytes(), (run / name).read_bytes()
        assert oracle.accepts(response, data)
        assert oracle.accepts(response, data, seen.body)
    shown = cli("verify", run)
    assert shown.code == 0, shown.err
    assert shown.out.count("existed at a time that a pinned timestamp authority states") == 3
    assert "proven  the plan's attestation existed before the evaluation began" in shown.out


@needs_openssl
def test_stamp_gives_each_phase_one_token(revealed: World, tmp_path: Path, authority: Authority) -> None:
    pin_by_command(authority, tmp_path / "pem")
    with tsa(authority, tmp_path) as service:
        one = cli("timestamps", "stamp", revealed.run, "--tsa", service.base_url, "--phase", "ex-ante")
        assert one.code == 0, one.err
        rest = cli("timestamps", "stamp", revealed.run, "--tsa", service.base_url)
        assert [x.split(":")[0] for x in rest.out.splitlines()] == ["precommit", "reveal"]
        assert "nothing to do" in cli("timestamps", "stamp", revealed.run, "--tsa", service.base_url).out
        again = cli("timestamps", "stamp", revealed.run, "--tsa", service.base_url, "--phase", "ex-ante")
        assert again.code == 2
        assert "has a token" in again.err
    assert len(service.seen) == 3
    assert cli("verify", revealed.run).code == 0


def test_no_authority_is_asked_whose_answer_could_not_be_verified(planned: World) -> None:
    with by_hand(lambda seen: b"") as service:
        for command in (
            ("timestamps", "stamp", planned.run),
            ("decisions", "evaluate", planned.run, "--write-run"),
            ("decisions", "precommit", "shipped", "--pair", PAIR, "--out", planned.run.parent / "new"),
        ):
            done = cli(*command, "--tsa", service.base_url)
            assert done.code == 2
            assert "pins no timestamp authority" in done.err
    assert service.seen == []
    assert planned.states() == []
    assert not (planned.run.parent / "new").exists()


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (lambda a, seen: rejection("overloaded"), 6, "rejected: overloaded"),
        (lambda a, seen: token(a, b"other"), 20, "other bytes"),
        (lambda a, seen: b"<html>", 20, "not a timestamp answer"),
        (lambda a, seen: _answer(make_authority(), seen), 20, "no pinned timestamp authority"),
        (lambda a, seen: _answer(a, seen, wrong_nonce=1), 20, "another nonce"),
        (lambda a, seen: _answer(a, seen, nonce=None), 20, "another nonce"),
    ],
)
def test_an_answer_that_does_not_hold_leaves_the_run_as_it_stands(
    planned: World, authority: Authority, answer: Any, code: int, words: str
) -> None:
    pin(planned, authority)
    with by_hand(lambda seen: answer(authority, seen)) as service:
        done = cli("decisions", "evaluate", planned.run, "--write-run", "--tsa", service.base_url)
    assert done.code == code
    assert words in done.err
    assert "Traceback" not in done.err
    assert f"evalkit timestamps stamp {planned.run} --tsa {service.base_url} --phase ex-ante" in done.err
    assert "written: " in done.out
    assert planned.states() == ["committed"]
    assert not (planned.run / "timestamps").exists()
    assert cli("verify", planned.run).code == 0


def _answer(authority: Authority, seen: Seen, *, wrong_nonce: int = 0, **shape: Any) -> bytes:
    asked = read_request(seen.body)
    return token(
        authority,
        b"",
        **(
            {
                "imprint_value": asked.message_imprint.message,
                "nonce": (asked.nonce or 0) + wrong_nonce,
                "time": datetime.now(UTC),
            }
            | shape
        ),
    )


def test_nobody_answers(planned: World, authority: Authority) -> None:
    pin(planned, authority)
    url = "http://127.0.0.1:9/"
    done = cli("decisions", "evaluate", planned.run, "--write-run", "--tsa", url, "--json")
    assert done.code == 6
    assert json.loads(done.out)["timestamp"] is None
    assert "gave no usable answer" in done.err
    assert "is committed and stands" in done.err
    assert planned.states() == ["committed"]
    with by_hand(lambda seen: _answer(authority, seen)) as service:
        assert (
            cli("timestamps", "stamp", planned.run, "--tsa", service.base_url, "--phase", "ex-ante").code == 0
        )


def test_a_blocked_record_outweighs_a_missing_timestamp(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    from .support import CASE_IDS, replay_world

    world = replay_world(tmp_path / "w", {CASE_IDS[0]: "no JSON"})
    monkeypatch.setenv("XDG_CONFIG_HOME", str(world.config))
    monkeypatch.setenv("XDG_STATE_HOME", str(world.state))
    pin(world, authority)
    done = cli("decisions", "evaluate", world.run, "--write-run", "--tsa", "http://127.0.0.1:9/")
    assert done.code == 5
    assert "gave no usable answer" in done.err


def test_tsa_without_write_is_refused_before_an_attempt(planned: World, authority: Authority) -> None:
    pin(planned, authority)
    done = cli("decisions", "evaluate", planned.run, "--tsa", "http://127.0.0.1:9/")
    assert (done.code, "--write-run" in done.err) == (2, True)
    done = cli("decisions", "reveal", planned.run, "--tsa", "http://127.0.0.1:9/")
    assert (done.code, "--write-calibration" in done.err) == (2, True)
    assert planned.states("reveal") == []
    done = cli("decisions", "evaluate", planned.run, "--write-run", "--tsa", "tsa.example")
    assert (done.code, "not the URL" in done.err) == (2, True)
    assert planned.states() == []


@needs_openssl
def test_request_here_attach_there(evaluated: World, tmp_path: Path, authority: Authority) -> None:
    """A machine without network: requests out, answers in."""
    pin_by_command(authority, tmp_path / "pem")
    out = tmp_path / "requests"
    done = cli("timestamps", "request", evaluated.run, "--out", out)
    assert done.code == 0, done.err
    assert sorted(p.name for p in out.iterdir()) == ["ex-ante.tsq", "precommit.tsq"]
    assert "--phase ex-ante --request" in done.out
    again = cli("timestamps", "request", evaluated.run, "--out", out)
    assert (again.code, "request already" in again.err) == (2, True)
    inside = cli("timestamps", "request", evaluated.run, "--out", evaluated.run / "requests")
    assert (inside.code, "do not belong into the run" in inside.err) == (2, True)
    assert not (evaluated.run / "requests").exists()

    runner = OpenSSL(tmp_path / "tsa", authority)
    answer = tmp_path / "a.tsr"
    answer.write_bytes(runner.reply((out / "ex-ante.tsq").read_bytes()))
    attach = ("timestamps", "attach", evaluated.run, answer, "--phase")
    wrong = cli(*attach, "precommit", "--request", out / "precommit.tsq")
    assert (wrong.code, "for the phase ex-ante of this run" in wrong.err) == (2, True)
    assert "--phase ex-ante" in wrong.err
    assert str(answer) in wrong.err
    wrong = cli(*attach, "ex-ante", "--request", out / "precommit.tsq")
    assert (wrong.code, "for the phase precommit of this run" in wrong.err) == (2, True)
    assert str(out / "precommit.tsq") in wrong.err
    (tmp_path / "strange.tsq").write_bytes(request(b"strange"))
    wrong = cli(*attach, "ex-ante", "--request", tmp_path / "strange.tsq")
    assert (wrong.code, "request is for other bytes" in wrong.err) == (20, True)
    (tmp_path / "strange.tsr").write_bytes(runner.reply(request(b"strange")))
    wrong = cli("timestamps", "attach", evaluated.run, tmp_path / "strange.tsr", "--phase", "ex-ante")
    assert (wrong.code, "it is for other bytes" in wrong.err) == (20, True)
    query = cli("timestamps", "attach", evaluated.run, out / "ex-ante.tsq", "--phase", "ex-ante")
    assert (query.code, "looks like a request" in query.err) == (2, True)
    (tmp_path / "newer.tsq").write_bytes(request((evaluated.run / ENVELOPES["ex-ante"]).read_bytes()))
    wrong = cli(*attach, "ex-ante", "--request", tmp_path / "newer.tsq")
    assert (wrong.code, "another nonce" in wrong.err) == (20, True)
    assert not (evaluated.run / "timestamps").exists()
    right = cli(*attach, "ex-ante", "--request", out / "ex-ante.tsq")
    assert right.code == 0, right.err
    before = evaluated.listing()
    twice = cli(*attach, "ex-ante")
    assert (twice.code, "there already, nothing changed" in twice.out) == (0, True)
    assert evaluated.listing() == before
    later = tmp_path / "later.tsr"
    later.write_bytes(runner.reply((out / "ex-ante.tsq").read_bytes()))
    twice = cli("timestamps", "attach", evaluated.run, later, "--phase", "ex-ante")
    assert (twice.code, "as early" in twice.err) == (2, True)
    kept = evaluated.run / "timestamps" / "ex-ante.tsr"
    data = bytearray(kept.read_bytes())
    data[-1] ^= 1
    for path in (kept, answer):  # a token that does not verify is no token, wherever it lies
        path.write_bytes(data)
    assert cli(*attach, "ex-ante").code == 20
    kept.write_bytes(later.read_bytes())
    assert cli("verify", evaluated.run).code == 0


def test_attach_refuses(planned: World, tmp_path: Path, authority: Authority) -> None:
    pin(planned, authority)
    (tmp_path / "t.tsr").write_bytes(b"x" * 70_000)
    for arguments, code, words in (
        ((tmp_path / "t.tsr", "--phase", "precommit"), 2, "70000 bytes"),
        ((tmp_path / "absent.tsr", "--phase", "precommit"), 2, "no such file"),
        ((tmp_path / "t.tsr", "--phase", "reveal"), 2, "not committed"),
        ((tmp_path / "t.tsr", "--phase", "other"), 2, "other"),
    ):
        done = cli("timestamps", "attach", planned.run, *arguments)
        assert (done.code, words in done.err) == (code, True), done.err
        assert "Traceback" not in done.err
    assert not (planned.run / "timestamps").exists()
    done = cli("timestamps", "stamp", tmp_path / "nowhere", "--tsa", "http://127.0.0.1:9/")
    assert (done.code, "no such run folder" in done.err) == (2, True)
    done = cli("timestamps", "stamp", tmp_path, "--tsa", "http://127.0.0.1:9/")
    assert done.code in (2, 11)
    assert "Traceback" not in done.err


def test_without_the_extra_every_command_says_so(
    planned: World, tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evalkit.sealing import timestamp

    pin(planned, authority)
    monkeypatch.setattr(timestamp, "available", lambda: False)
    url = "http://127.0.0.1:9/"
    for command in (
        ("timestamps", "stamp", planned.run, "--tsa", url),
        ("timestamps", "request", planned.run, "--out", tmp_path / "out"),
        ("timestamps", "attach", planned.run, tmp_path / "t.tsr", "--phase", "precommit"),
        ("decisions", "evaluate", planned.run, "--write-run", "--tsa", url),
        (
            "decisions",
            "precommit",
            "shipped",
            "--pair",
            PAIR,
            "--out",
            planned.run.parent / "new",
            "--tsa",
            url,
        ),
    ):
        done = cli(*command)
        assert done.code == 2
        assert "pip install 'evalkit-sealed[timestamps]'" in done.err
    assert planned.states() == []
    assert not (tmp_path / "out").exists()
    assert not (planned.run.parent / "new").exists()


def test_the_commands_know_the_phases() -> None:
    assert list(_PHASES.choices) == list(ENVELOPES)


def test_the_binding_and_its_exit_code_are_documented() -> None:
    from evalkit import errors
    from evalkit.cli import app

    assert [b.exit_code for b in Binding] == list(range(10, 10 + len(Binding)))
    assert Binding.TIMESTAMP.exit_code == 20
    assert "20    ``timestamp``" in (errors.__doc__ or "")
    assert "20 timestamp" in (app.epilog or "")
    assert "| 20 | `timestamp` |" in (Path(__file__).parents[2] / "docs" / "exit-codes.md").read_text()


@needs_openssl
def test_the_openssl_example_of_the_document_works_as_it_is_written(evaluated: World, tmp_path: Path) -> None:
    """The block of docs/formats/timestamps.md, in a folder with a run named RUN; evalkit and openssl in the path."""
    text = (ROOT / "docs" / "formats" / "timestamps.md").read_text()
    block = text[text.index("## With openssl") :].split("```sh\n")[1].split("\n```")[0]
    work, tools = tmp_path / "work", tmp_path / "tools"
    work.mkdir()
    tools.mkdir()
    shutil.copytree(evaluated.run, work / "RUN")
    (tools / "evalkit").write_text(f'#!/bin/sh\nexec {sys.executable} -m evalkit "$@"\n')
    (tools / "evalkit").chmod(0o755)
    path = f"{tools}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-euxc", block], cwd=work, env=os.environ | {"PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "Verification: OK" in done.stdout + done.stderr
    shown = cli("verify", work / "RUN")
    assert shown.code == 0, shown.err
    assert (
        "proven  the plan's attestation existed at a time that a pinned timestamp authority states"
        in shown.out
    )
