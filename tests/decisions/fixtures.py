"""Fixtures of decision worlds: made once a session, copied for each test that may change them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from evalkit.decisions import evaluate, evaluation, import_cases, reveal
from evalkit.sealing.keys import key_id, load_signing_key

from .support import FROZEN_AT, World, evaluate_world, make_world, write_sheets


@pytest.fixture(scope="session")
def planned_once(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("planned") / "w")


@pytest.fixture(scope="session")
def document(planned_once: World, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The ex-ante document of the first attempt at ``planned_once``, not written."""
    world = planned_once.copy(tmp_path_factory.mktemp("document") / "w")
    value: dict[str, Any] = evaluate(world.run, places=world.places).document
    return value


@pytest.fixture(scope="session")
def evaluated_once(planned_once: World, tmp_path_factory: pytest.TempPathFactory) -> World:
    world = planned_once.copy(tmp_path_factory.mktemp("evaluated") / "w")
    evaluate_world(world)
    return world


@pytest.fixture(scope="session")
def revealed_once(evaluated_once: World, tmp_path_factory: pytest.TempPathFactory) -> World:
    world = evaluated_once.copy(tmp_path_factory.mktemp("revealed") / "w")
    reveal(world.run, write_calibration=True, places=world.places)
    return world


def _here(original: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    world = original.copy(tmp_path / "world")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(world.config))
    monkeypatch.setenv("XDG_STATE_HOME", str(world.state))
    return world


@pytest.fixture
def planned(planned_once: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A precommitted run; the environment points at its keys and trust."""
    return _here(planned_once, tmp_path, monkeypatch)


@pytest.fixture
def evaluated(evaluated_once: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A run with its signed ex-ante phase."""
    return _here(evaluated_once, tmp_path, monkeypatch)


@pytest.fixture
def revealed(revealed_once: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A run with both phases."""
    return _here(revealed_once, tmp_path, monkeypatch)


@pytest.fixture(scope="session")
def ferries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Imported cases of another industry."""
    folder = tmp_path_factory.mktemp("ferries")
    sheets, pairs = write_sheets(folder / "sheets")
    import_cases(sheets, pairs, folder / "cases", frozen_at=FROZEN_AT)
    return folder / "cases"


class QuickSigner(AbstractContextManager["QuickSigner"]):
    """The key of a run, opened in this process: for tests that sign often (the product never does it)."""

    def __init__(self, path: Path) -> None:
        self._key = load_signing_key(path, None)
        self.public_key = self._key.public_key().public_bytes_raw()
        self.key_id = key_id(self.public_key)

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def quick_signer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluate and reveal without starting a signing process."""
    monkeypatch.setattr(
        evaluation,
        "resolve_signer",
        lambda places, *, key_path=None, workspace=(): QuickSigner(key_path or places.signing_key),
    )
