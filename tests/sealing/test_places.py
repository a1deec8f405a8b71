"""Where things lie: every name spelt out, for a name that changes loses a user's keys or ledger."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalkit.errors import EvalkitError
from evalkit.sealing import Places, check_run_id

KEY = "sha256:" + "0a" * 32


def test_every_place() -> None:
    places = Places.from_environment({"HOME": "/h", "XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s"})
    assert {
        "trust": places.trust,
        "signing": places.signing_key,
        "next": places.next_signing_key,
        "retired": places.retired_signing_key(KEY),
        "unsealing": places.unsealing_key,
        "ledgers": places.ledgers,
        "ledger": places.ledger(KEY),
        "ephemeral": places.ephemeral("r-1"),
    } == {
        "trust": Path("/c/evalkit/trust.json"),
        "signing": Path("/c/evalkit/keys/signing"),
        "next": Path("/c/evalkit/keys/signing.next"),
        "retired": Path("/c/evalkit/keys/signing-" + "0a" * 32),
        "unsealing": Path("/c/evalkit/keys/unsealing.pem"),
        "ledgers": Path("/s/evalkit/ledgers"),
        "ledger": Path("/s/evalkit/ledgers/" + "0a" * 32 + ".jsonl"),
        "ephemeral": Path("/s/evalkit/ephemeral/r-1"),
    }


def test_the_usual_folders_where_the_environment_names_none() -> None:
    for values in ({}, {"XDG_CONFIG_HOME": "", "XDG_STATE_HOME": ""}, {"XDG_CONFIG_HOME": "here"}):
        places = Places.from_environment({"HOME": "/h"} | values)
        assert places == Places(Path("/h/.config/evalkit"), Path("/h/.local/state/evalkit"))
    for values in ({}, {"HOME": ""}):
        assert Places.from_environment(values).config == Path.home() / ".config" / "evalkit"


def test_create_makes_both_folders_private(tmp_path: Path) -> None:
    places = Places(tmp_path / "c", tmp_path / "s")
    places.create()
    for folder in (tmp_path / "c" / "keys", tmp_path / "s" / "ledgers"):
        assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("bad", ["", "sha256:", KEY[:-1], KEY + "0", KEY.upper(), "sha256:../../x", KEY[7:]])
def test_what_is_no_key_id_is_no_part_of_a_path(bad: str) -> None:
    places = Places(Path("/c"), Path("/s"))
    for place in (places.ledger, places.retired_signing_key):
        with pytest.raises(EvalkitError, match="not a key id"):
            place(bad)


@pytest.mark.parametrize("bad", ["", ".", "..", ".a", "-a", "a/b", "a\n", "é", "a" * 129, None, 7, Path("a")])
def test_what_is_no_run_id_is_no_part_of_a_path(bad: str) -> None:
    for use in (check_run_id, Places(Path("/c"), Path("/s")).ephemeral):
        with pytest.raises(EvalkitError, match="not a run id"):
            use(bad)
    assert check_run_id("a" * 128) == "a" * 128
