"""One executed sample for all tests that only look at it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from evalkit.reports import Execution, execute

from .sample import sample


@pytest.fixture(scope="session", autouse=True)
def font_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Matplotlib keeps its fonts' list below HOME, which every test has anew: one for all instead."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MPLCONFIGDIR", str(tmp_path_factory.mktemp("matplotlib")))
        yield


@pytest.fixture(scope="session")
def executed(tmp_path_factory: pytest.TempPathFactory, font_cache: None) -> Execution:
    folder = tmp_path_factory.mktemp("sample")
    return execute(sample(folder / "sample.ipynb"), {"samples": 50}, out=folder / "runs", progress=False)
