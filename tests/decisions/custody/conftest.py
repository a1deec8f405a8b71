"""Custody worlds: made once a session, copied for each test that may change them."""

from __future__ import annotations

from pathlib import Path

import pytest

from decisions.fixtures import QuickSigner
from decisions.forging import quick_everywhere
from evalkit.decisions import evaluation
from evalkit.decisions.custody import release, sealing

from .people import Two, make_two


def quickly(patch: pytest.MonkeyPatch) -> None:
    """Everybody signs in this process: the product never does."""
    quick_everywhere(patch)
    for module in (evaluation, sealing, release):
        patch.setattr(
            module,
            "resolve_signer",
            lambda places, *, key_path=None, workspace=(): QuickSigner(key_path or places.signing_key),
        )


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    quickly(monkeypatch)


@pytest.fixture(scope="session")
def stages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Two]:
    """The exchange, kept after each of its steps."""
    kept: dict[str, Two] = {}
    two = make_two(tmp_path_factory.mktemp("two") / "w")
    with pytest.MonkeyPatch.context() as patch:
        quickly(patch)
        for name, act in (
            ("strangers", lambda: None),
            ("sealed", two.seal),
            ("planned", two.plan),
            ("evaluated", two.evaluate),
            ("asked", two.ask),
            ("answered", two.answer),
            ("revealed", two.reveal),
        ):
            act()
            kept[name] = two.copy(tmp_path_factory.mktemp(name) / "w")
    return kept


def at_stage(name: str, stages: dict[str, Two], tmp_path: Path) -> Two:
    return stages[name].copy(tmp_path / name)


@pytest.fixture
def strangers(stages: dict[str, Two], tmp_path: Path) -> Two:
    """Both have keys and trust; nothing is sealed."""
    return at_stage("strangers", stages, tmp_path)


@pytest.fixture
def sealed(stages: dict[str, Two], tmp_path: Path) -> Two:
    return at_stage("sealed", stages, tmp_path)


@pytest.fixture
def planned(stages: dict[str, Two], tmp_path: Path) -> Two:
    return at_stage("planned", stages, tmp_path)


@pytest.fixture
def evaluated(stages: dict[str, Two], tmp_path: Path) -> Two:
    return at_stage("evaluated", stages, tmp_path)


@pytest.fixture
def asked(stages: dict[str, Two], tmp_path: Path) -> Two:
    return at_stage("asked", stages, tmp_path)


@pytest.fixture
def answered(stages: dict[str, Two], tmp_path: Path) -> Two:
    return at_stage("answered", stages, tmp_path)


@pytest.fixture
def revealed(stages: dict[str, Two], tmp_path: Path) -> Two:
    return at_stage("revealed", stages, tmp_path)
