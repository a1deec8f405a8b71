"""Other people's packages, in environments of their own, and inputs on which to compare."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .asking import Peers

ROOT = Path(__file__).resolve().parents[2]


def _open(folder: str, target: str, home: Path) -> Iterator[Peers]:
    python = ROOT / folder / "bin" / "python"
    if not (ROOT / target).is_file():
        pytest.skip(f"the other packages are not installed: make {target}")
    peers = Peers(python, home)
    yield peers
    peers.close()


@pytest.fixture(scope="session")
def peers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peers]:
    """scikit-learn, scoringrules, model-diagnostics, scores, uncertainty-calibration, relplot."""
    yield from _open(".venv-peers", ".venv-peers/.done", tmp_path_factory.mktemp("peers"))


@pytest.fixture(scope="session")
def torch_peers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peers]:
    """torchmetrics and netcal besides; an environment that is made by hand, since PyTorch is large."""
    yield from _open(".venv-bench", ".venv-bench/.done", tmp_path_factory.mktemp("peers"))
