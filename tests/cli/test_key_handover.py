"""A third party gets a key, pins it and verifies, with nothing else of the signer's."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from decisions.support import World, cli

from evalkit.errors import Binding


def test_export_pin_verify(revealed: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = tmp_path / "entry.json"
    exported = cli("keys", "export", revealed.run_id)
    assert exported.code == 0
    entry.write_text(exported.out)
    assert set(json.loads(exported.out)["runs"]) == {revealed.run_id}
    copy = tmp_path / "copy"
    shutil.copytree(revealed.run, copy)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "hers"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "hers-state"))

    before = cli("verify", copy)
    assert before.code == Binding.AUTHORITY.exit_code
    assert "there is no trust file" in before.err
    assert "keys pin" in before.err
    pinned = cli("keys", "pin", entry)
    assert pinned.code == 0
    assert json.loads(exported.out)["key_id"] in pinned.out
    after = cli("verify", copy)
    assert after.code == 0, after.err
    assert str(tmp_path / "hers") in after.out


@pytest.mark.parametrize(
    "text", ["", "{}", "[1]", "3", "null", '"x"', '{"rotations": []}', '{"key_id": 1}', "not json"]
)
def test_a_bad_entry_pins_nothing(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "hers"))
    entry = tmp_path / "entry.json"
    entry.write_text(text)
    done = cli("keys", "pin", entry)
    assert done.code in (2, 11)
    assert "Traceback" not in done.err
    assert not (tmp_path / "hers").exists()


def test_export_of_an_unknown_key_says_so(revealed: World) -> None:
    done = cli("keys", "export", "nobody")
    assert done.code == 2
    assert "keys list" in done.err
