"""`evalkit ledger verify` and what `evalkit verify` says to programs."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from decisions.support import World, cli

from evalkit.errors import Binding, EvalkitError
from evalkit.offline import no_network
from evalkit.sealing import Ledger, Places


def test_ones_own_ledgers(revealed: World) -> None:
    done = cli("ledger", "verify")
    assert done.code == 0
    assert str(revealed.ledger.path) in done.out
    assert f"run {revealed.run_id}, ex-ante: 1 attempt: 1 committed" in done.out
    (one,) = json.loads(cli("ledger", "verify", "--json").out)["ledgers"]
    assert one["head"] == revealed.ledger.head.record()
    assert {(a["phase"], a["state"]) for a in one["attempts"]} == {
        ("ex-ante", "committed"),
        ("reveal", "committed"),
    }


def test_no_ledger_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    done = cli("ledger", "verify")
    assert done.code == 2
    assert "there is no ledger of yours" in done.err


def test_heads_that_a_run_has_signed_must_be_in_it(revealed: World) -> None:
    assert cli("ledger", "verify", "--run", revealed.run).code == 0
    assert cli("ledger", "verify", revealed.run / "journal.jsonl", "--run", revealed.run).code == 0
    lines = revealed.ledger.path.read_bytes().splitlines(keepends=True)
    signed = json.loads((revealed.run / "journal.jsonl").read_bytes().splitlines()[-1])
    revealed.ledger.path.write_bytes(b"".join(lines[:-2]))
    assert cli("ledger", "verify").code == 0, "a chain cut at the end of a line is whole"
    done = cli("ledger", "verify", "--run", revealed.run)
    assert done.code == Binding.RUN.exit_code
    assert f"seq {signed['seq'] - 1}" in done.err


def test_an_edited_line_is_named(revealed: World) -> None:
    data = revealed.ledger.path.read_bytes()
    revealed.ledger.path.write_bytes(data.replace(b'"attempt":1', b'"attempt":2', 1))
    done = cli("ledger", "verify")
    assert done.code == Binding.RUN.exit_code
    assert "seq 2" in done.err
    assert "Traceback" not in done.err


def test_every_ledger_is_checked_whatever_is_found_in_another(revealed: World) -> None:
    good = Ledger(revealed.places.ledgers / f"{'0' * 64}.jsonl")
    good.append("note")
    bad = Ledger(revealed.places.ledgers / f"{'1' * 64}.jsonl")
    bad.append("note")
    bad.append("note")
    bad.path.write_bytes(bad.path.read_bytes().replace(b'"note"', b'"nose"', 1))
    torn = revealed.places.ledgers / f"{'2' * 64}.jsonl"
    torn.write_bytes(b"[]\n")
    done = cli("ledger", "verify")
    assert done.code == Binding.RUN.exit_code
    assert f"{bad.path}: seq 1" in done.err
    assert f"{torn}: the first line" in done.err
    for path in (good.path, revealed.ledger.path):
        assert f"{path}\n  whole: " in done.out
    assert "  whole: 1 entry, " in done.out
    found = json.loads(cli("ledger", "verify", "--json").out)
    assert found["verified"] is False
    assert {one["ledger"] for one in found["ledgers"]} == {str(good.path), str(revealed.ledger.path)}
    assert found["failure"] in found["failures"]
    assert found["failure"]["binding"] == "run"
    assert sorted(f["where"].split(":")[0] for f in found["failures"]) == sorted(map(str, (bad.path, torn)))


def test_an_own_ledger_begins_at_its_beginning(revealed: World, tmp_path: Path) -> None:
    path = revealed.ledger.path
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[1:]))
    done = cli("ledger", "verify")
    assert done.code == Binding.RUN.exit_code
    assert f"{path}: seq 0" in done.err
    assert "what came before it is gone" in done.err
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(path.read_bytes())
    assert cli("ledger", "verify", copy).code == Binding.RUN.exit_code
    told = cli("ledger", "verify", copy, "--segment")
    assert (told.code, "a segment: what came before entry 1 is not in it" in told.out) == (0, True)
    assert cli("ledger", "verify", "--segment").code == 2


def test_a_run_says_how_many_heads_it_signed_and_which_it_misses(revealed: World, tmp_path: Path) -> None:
    said = cli("ledger", "verify", "--run", revealed.run).out
    assert f"signed heads of run {revealed.run_id}: 3, all in this ledger" in said
    assert "signed heads" not in cli("ledger", "verify").out
    found = json.loads(cli("ledger", "verify", "--run", revealed.run, "--json").out)
    assert found["ledgers"][0]["signed_heads"] == {revealed.run_id: 3}
    lines = revealed.ledger.path.read_bytes().splitlines(keepends=True)
    revealed.ledger.path.write_bytes(b"".join(lines[:-2]))
    done = cli("ledger", "verify", "--run", revealed.run)
    assert f"run {revealed.run_id} vouches for" in done.err
    assert str(revealed.ledger.path) in done.err
    # a ledger that was taken away as a whole
    other = Ledger(revealed.places.ledgers / f"{'0' * 64}.jsonl")
    other.append("note")
    revealed.ledger.path.rename(tmp_path / "away")
    done = cli("ledger", "verify", "--run", revealed.run)
    assert done.code == Binding.RUN.exit_code
    assert f"run {revealed.run_id} was planned is not here" in done.err
    assert json.loads(cli("ledger", "verify", "--run", revealed.run, "--json").out)["verified"] is False
    nowhere = cli("ledger", "verify", "--run", tmp_path / "nowhere", "--json")
    assert nowhere.code == 2
    assert str(tmp_path / "nowhere") in json.loads(nowhere.out)["failure"]["where"]


@pytest.fixture
def rotated() -> tuple[Ledger, Ledger]:
    """The ledgers of a key and of its successor."""
    keys = []
    for command in (["init"], ["rotate"]):
        assert cli("keys", *command, "--no-passphrase").code == 0
        keys.append(json.loads(cli("keys", "show", "--json").out)["signing"]["key_id"])
    places = Places.from_environment()
    Ledger(places.ledger(keys[1])).append("note")
    assert cli("ledger", "verify").code == 0
    return Ledger(places.ledger(keys[0])), Ledger(places.ledger(keys[1]))


@pytest.mark.parametrize("spoil", ["old cut", "old gone", "old begun anew", "new gone", "new begun anew"])
def test_a_rotation_holds_both_ledgers(rotated: tuple[Ledger, Ledger], spoil: str) -> None:
    ledger = rotated[spoil.startswith("new")]
    name = ledger.path.name
    if "cut" in spoil:
        ledger.append("note")
        assert cli("ledger", "verify").code == 0, "an old key may finish what it began"
        ledger.path.write_bytes(b"".join(ledger.path.read_bytes().splitlines(keepends=True)[:-2]))
    else:
        ledger.path.unlink()
    if "anew" in spoil:
        Ledger(ledger.path).append("note")
    done = cli("ledger", "verify")
    assert done.code == Binding.RUN.exit_code
    assert name in done.err
    assert "Traceback" not in done.err


def test_a_broken_ledger_is_not_said_to_be_gone_as_well(rotated: tuple[Ledger, Ledger]) -> None:
    rotated[0].path.write_bytes(b"[]\n")
    done = cli("ledger", "verify")
    assert done.code == Binding.RUN.exit_code
    assert "is gone" not in done.err


def test_an_entry_is_no_ledger(tmp_path: Path) -> None:
    assert cli("keys", "init", "--no-passphrase").code == 0
    path = tmp_path / "entry.json"
    path.write_text(cli("keys", "export").out)
    done = cli("ledger", "verify", path)
    assert done.code == Binding.RUN.exit_code
    assert "this is no ledger" in done.err
    assert str(path) in done.err


@pytest.mark.parametrize("content", [b"", b"x", b"{}\n", b"[]\n", b"\xff\n", b'{"seq":0}\n', b"\n\n"])
def test_what_is_no_ledger(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(content)
    done = cli("ledger", "verify", path)
    assert done.code == (0 if content in (b"", b"x") else Binding.RUN.exit_code)
    assert "Traceback" not in done.err
    assert cli("ledger", "verify", tmp_path).code == 2
    assert cli("ledger", "verify", tmp_path / "nowhere").code == 2


def test_verify_says_so_to_programs(revealed: World) -> None:
    done = cli("verify", revealed.run, "--json")
    found = json.loads(done.out)
    assert found["verified"] is True
    assert found["run_id"] == revealed.run_id
    assert {line["status"] for line in found["lines"]} == {"proven", "policy", "not proven"}


@pytest.mark.parametrize(
    ("file", "binding"),
    [
        ("plan.json", Binding.PRECOMMIT),
        ("ex-ante/run.dsse.json", Binding.ATTESTATION),
        ("journal.jsonl", Binding.RUN),
        ("sealed/mapping.sealed", Binding.SEALED_PACKET),
        ("instructions/prompt.md", Binding.PROMPT),
    ],
)
def test_a_failure_is_an_object_too(revealed: World, file: str, binding: Binding) -> None:
    path = revealed.run / file
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    done = cli("verify", revealed.run, "--json")
    assert done.code == binding.exit_code
    found = json.loads(done.out)
    assert found["verified"] is False
    assert found["failure"]["binding"] == binding.value
    assert found["failure"]["exit_code"] == binding.exit_code
    assert all(found["failure"][name] for name in ("what", "where", "expected", "do"))
    assert found["failure"]["what"] in done.err


def test_a_missing_run_is_an_object_too(tmp_path: Path) -> None:
    done = cli("verify", tmp_path / "nowhere", "--json")
    assert done.code == 2
    assert json.loads(done.out)["failure"]["binding"] is None


def test_offline_verifies_the_same(revealed: World) -> None:
    assert cli("verify", revealed.run, "--offline").out == cli("verify", revealed.run).out


def test_offline_refuses_the_network(revealed: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that can fail: verify is made to phone home."""

    def phone(*_: object, **__: object) -> None:
        with socket.create_connection(("127.0.0.1", 9), timeout=1):
            pass

    monkeypatch.setattr("evalkit.decisions.verify_run", phone)
    done = cli("verify", revealed.run, "--offline")
    assert done.code == 2
    assert "tried to use the network" in done.err


def test_the_promise_ends_with_the_block() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        where = listener.getsockname()
        with pytest.raises(EvalkitError, match="network"), no_network():
            socket.create_connection(where, timeout=1)
        with no_network(False):
            socket.create_connection(where, timeout=1).close()
        socket.create_connection(where, timeout=1).close()


def test_verify_groups_its_lines_and_counts_them(revealed: World) -> None:
    lines = cli("verify", revealed.run).out.splitlines()[2:]
    words = [line[:10].strip() for line in lines[:-1]]
    assert words == sorted(words, key=["proven", "policy", "not proven"].index)
    assert lines[-1].startswith("verified: nothing failed; ")
    assert f"{words.count('not proven')} not proven" in lines[-1]


@pytest.mark.parametrize(
    ("file", "binding"),
    [
        ("plan.dsse.json", Binding.ATTESTATION),
        ("ex-ante/run.dsse.json", Binding.ATTESTATION),
        ("reveal/calibration.dsse.json", Binding.ATTESTATION),
        ("reveal/calibration.json", Binding.ATTESTATION),
        ("journal.jsonl", Binding.RUN),
        ("sealed/mapping.sealed", Binding.SEALED_PACKET),
        ("sealed/part-b-1.sealed", Binding.SEALED_PACKET),
    ],
)
def test_the_message_names_the_file(revealed: World, file: str, binding: Binding) -> None:
    path = revealed.run / file
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    done = cli("verify", revealed.run)
    assert done.code == binding.exit_code
    (where,) = [line for line in done.err.splitlines() if line.strip().startswith("where:")]
    assert file in where


@pytest.mark.parametrize("file", ["plan.dsse.json", "ex-ante/run.dsse.json", "reveal/calibration.dsse.json"])
def test_a_changed_keyid_is_said_to_be_in_the_attestation(revealed: World, file: str) -> None:
    """No signature covers it; the journal, which has the digest of the file, is not to blame."""
    path = revealed.run / file
    path.write_bytes(path.read_bytes().replace(b'"keyid":"sha256:', b'"keyid":"sha256:0', 1))
    done = cli("verify", revealed.run)
    assert done.code in (Binding.ATTESTATION.exit_code, Binding.AUTHORITY.exit_code)
    assert file in done.err
