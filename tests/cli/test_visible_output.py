"""Names and texts from files come to the terminal with their control characters shown, not sent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from decisions.support import Outcome, World, cli

from evalkit.errors import Binding, BindingError, EvalkitError
from evalkit.sealing import Ledger, TrustedKey, canonical_json, pin

EVIL = "a\x1b[2J\nevalkit: verified\x9b31m\u202e"
SHOWN = r"a\x1b[2J\x0aevalkit: verified\x9b31m\u202e"


def clean(outcome: Outcome) -> str:
    said = outcome.out + outcome.err
    assert said.replace("\n", "").isprintable(), ascii(said)
    assert not any(line.startswith("evalkit: verified") for line in said.splitlines()), said
    assert "Traceback" not in said
    return said


def test_every_field_of_an_error_is_shown() -> None:
    for error in (
        EvalkitError(EVIL, where=EVIL, expected=EVIL, do=EVIL, details=(EVIL,)),
        BindingError(Binding.RUN, EVIL, where=EVIL, expected=EVIL, do=EVIL),
    ):
        assert str(error).replace("\n", "").isprintable()
        assert error.message().count(SHOWN) == (5 if error.details else 4)
        assert error.where == EVIL  # programs get it as it is
        error.within(EVIL + "x")
        assert str(error).replace("\n", "").isprintable()


def test_a_file_name_in_a_run(evaluated: World) -> None:
    (evaluated.run / EVIL).write_bytes(b"")
    done = cli("verify", evaluated.run)
    assert done.code == Binding.RUN.exit_code
    assert SHOWN in clean(done)
    as_json = cli("verify", evaluated.run, "--json")
    clean(as_json)
    failure = json.loads(as_json.out)["failure"]
    assert (
        EVIL in failure["what"] + failure["where"] or ascii(EVIL)[1:-1] in failure["what"] + failure["where"]
    )


def test_a_run_that_is_named_with_controls(tmp_path: Path) -> None:
    assert r"\x1b[2J" in clean(cli("verify", tmp_path / EVIL))
    assert r"\x1b[2J" in clean(cli("ledger", "verify", tmp_path / EVIL))


def test_fields_of_a_ledger(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "state" / "l.jsonl")
    ledger.append("attempt", run_id=EVIL, phase=EVIL, attempt=1)
    done = cli("ledger", "verify", ledger.path)
    assert done.code == 0
    assert f"run {SHOWN}, {SHOWN}" in clean(done)
    as_json = cli("ledger", "verify", ledger.path, "--json")
    clean(as_json)
    assert json.loads(as_json.out)["ledgers"][0]["attempts"][0]["run_id"] == EVIL


def test_comments_of_a_trust_file(tmp_path: Path, make_public: bytes) -> None:
    path = tmp_path / "config" / "trust.json"
    pin(path, TrustedKey.of(make_public, comment=EVIL))
    done = cli("keys", "list", "--trust", path)
    assert done.code == 0
    assert SHOWN in clean(done)
    clean(cli("keys", "list", "--trust", path, "--json"))


@pytest.fixture
def make_public() -> bytes:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.generate().public_key().public_bytes_raw()


@pytest.mark.parametrize(
    "kind", [f"https://{EVIL}", "https://a b", "https://é", 'https://"', "https://", "x"]
)
def test_predicate_types_are_addresses(kind: str, make_public: bytes, tmp_path: Path) -> None:
    with pytest.raises(BindingError, match="is not a predicate type") as caught:
        TrustedKey.of(make_public, predicate_types=(kind,))
    assert caught.value.binding is Binding.AUTHORITY
    TrustedKey.of(make_public, predicate_types=("https://a.example/~b/%C3%A9?x=1#[v]",))
    entry = TrustedKey.of(make_public).record() | {"predicate_types": [kind]}
    (tmp_path / "entry.json").write_bytes(canonical_json(entry))
    assert "is not a predicate type" in clean(cli("keys", "pin", tmp_path / "entry.json"))


def test_a_run_id_of_a_trust_file_is_a_matter_of_trust(make_public: bytes, tmp_path: Path) -> None:
    entry = TrustedKey.of(make_public).record() | {"runs": ["no run id"]}
    (tmp_path / "entry.json").write_bytes(canonical_json(entry))
    done = cli("keys", "pin", tmp_path / "entry.json")
    assert done.code == Binding.AUTHORITY.exit_code
    assert "runs" in done.err


def test_a_path_that_is_not_utf8_is_no_traceback(tmp_path: Path) -> None:
    """Neither in an error nor in what is said of a success: such text cannot be encoded."""
    home = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "\udcff"), "PYTHONIOENCODING": "utf-8:strict"}
    home |= {"XDG_STATE_HOME": str(tmp_path / "s")}
    for command in (
        ["keys", "init", "--no-passphrase"],
        ["keys", "show"],
        ["verify", str(tmp_path / "\udcfe")],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "evalkit", *command], env=home, capture_output=True, check=False
        )
        assert b"Traceback" not in done.stderr, done.stderr
        assert done.returncode == (0 if command[0] == "keys" else 2)
        assert rb"\udcf" in done.stdout + done.stderr
