"""Outcomes and forecasts on which implementations differ when one of them is wrong; the same in each run."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def _drawn(rng: np.random.Generator, p: Array) -> Array:
    return (rng.random(p.shape) < p).astype(np.float64)


def _binary() -> dict[str, tuple[Array, Array]]:
    rng = np.random.default_rng(20240721)
    cases: dict[str, tuple[Array, Array]] = {}
    for n in (2, 3, 10, 101, 5000):
        p = rng.random(n)
        cases[f"uniform, n = {n}"] = _drawn(rng, p), p
    p = rng.beta(0.3, 0.3, 2000)
    cases["mostly near 0 and 1"] = _drawn(rng, p), p
    cases["overconfident"] = _drawn(rng, 0.25 + p / 2), p
    cases["the wrong way round"] = _drawn(rng, 1 - p), p
    for digits in (1, 2):
        p = rng.random(1000).round(digits)
        cases[f"rounded to {digits} digits"] = _drawn(rng, p), p
    cases["one value only"] = _drawn(rng, np.full(50, 0.3)), np.full(50, 0.3)
    # a tie in which the outcome of the first row decides what an unpooled PAV makes of it
    cases["a tie, one before zero"] = np.array([1.0, 0.0, 1.0]), np.array([0.4, 0.4, 0.8])
    cases["a tie, zero before one"] = np.array([0.0, 1.0, 1.0]), np.array([0.4, 0.4, 0.8])
    cases["no event"] = np.zeros(30), rng.random(30)
    cases["only events"] = np.ones(30), rng.random(30)
    cases["n = 1, event"] = np.ones(1), np.array([0.7])
    cases["n = 1, no event"] = np.zeros(1), np.array([0.7])
    cases["certain and right"] = np.array([0.0, 1.0, 1.0]), np.array([0.0, 1.0, 1.0])
    p = rng.choice(np.array([0.0, 1e-3, 0.5, 1 - 1e-3, 1.0]), 400)
    cases["0, 1 and in between, right when certain"] = _drawn(rng, p), p
    edges = np.concatenate([np.arange(11) / 10, np.nextafter(np.arange(1, 10) / 10, 0)])
    p = np.tile(edges, 20)
    cases["on the edges of ten bins and just below"] = _drawn(rng, p), p
    p = 1 / (1 + np.exp(-rng.normal(0, 4, 3000)))
    cases["logistic"] = _drawn(rng, p), p
    p = p.astype(np.float32).astype(np.float64)
    cases["of single precision"] = _drawn(rng, p), p
    return cases


def _extreme() -> dict[str, tuple[Array, Array]]:
    rng = np.random.default_rng(20240722)
    tiny = 10.0 ** rng.uniform(-300, -10, 200)
    return {
        "tiny, and they happen": (np.ones(200), tiny),
        "tiny, and they do not": (np.zeros(200), tiny),
        "smaller than any normal number": (np.array([1.0, 0.0]), np.array([5e-324, 5e-324])),
        "certain and wrong": (np.array([1.0, 0.0, 1.0]), np.array([0.0, 1.0, 0.5])),
        "just below one": (np.array([1.0, 0.0]), np.full(2, np.nextafter(1.0, 0.0))),
    }


def _multiclass() -> dict[str, tuple[NDArray[np.int64], Array]]:
    rng = np.random.default_rng(20240723)
    cases: dict[str, tuple[NDArray[np.int64], Array]] = {}
    for n, classes in ((1, 3), (7, 2), (500, 3), (2000, 5), (300, 40)):
        p = rng.dirichlet(np.full(classes, 0.5), n)
        y = (rng.random((n, 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1)
        cases[f"n = {n}, {classes} classes"] = y, p
    sure = np.eye(4)[rng.integers(0, 4, 50)]
    cases["certain, right and wrong"] = rng.integers(0, 4, 50), sure
    cases["one class never happens"] = rng.integers(0, 2, 60), rng.dirichlet(np.ones(3), 60)
    return cases


BINARY = _binary()
#: where a logarithm shows whether a probability was clipped or lost
EXTREME = _extreme()
MULTICLASS = _multiclass()


def named(cases: dict[str, Any]) -> dict[str, Any]:
    """Arguments of `pytest.mark.parametrize` after the argument names."""
    return {"argvalues": list(cases.values()), "ids": list(cases)}


def _ensembles() -> dict[str, tuple[Array, Array]]:
    """Real outcomes (n,) and members (n, M)."""
    rng = np.random.default_rng(20240724)
    cases: dict[str, tuple[Array, Array]] = {}
    for n, members in ((1, 2), (50, 3), (200, 20), (20, 101)):
        cases[f"{members} members"] = rng.normal(size=n), rng.normal(size=(n, members))
    y, p = rng.normal(size=100).round(), rng.normal(size=(100, 9)).round()
    cases["rounded: ties, and the outcome among them"] = y, p
    cases["all members equal"] = rng.normal(size=10), np.repeat(rng.normal(size=(10, 1)), 5, axis=1)
    cases["outside the ensemble"] = np.array([-50.0, 50.0]), rng.normal(size=(2, 10))
    cases["far from zero"] = 1e9 + rng.normal(size=20), 1e9 + rng.normal(size=(20, 8))
    cases["heavy tails"] = rng.standard_cauchy(50), rng.standard_cauchy((50, 12))
    return cases


ENSEMBLES = _ensembles()
