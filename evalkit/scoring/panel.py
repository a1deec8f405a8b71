"""Who answered what, and how well: the long table behind every comparison of forecasters, checked once.

One row is one score of one forecaster on one question.  Forecasters need not answer the same questions:
what is missing is simply not there, it is counted, and nothing is filled in.

Rules
- A forecaster has one row a question; a second one is an error that names both.
- Cluster, time and weight belong to the question: all its rows say the same.
- A missing score (NaN) is an error, or dropped and counted.
- The rows are kept in an order that depends on the scores alone, and on the names of forecasters only where
  two of them have the very same scores.  So nothing that follows depends on the order in which rows came,
  nor on how questions and clusters are called.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalkit.arrays import first_missing, floats, is_missing, same_index
from evalkit.exact_sums import Floats, order_free_sum
from evalkit.scoring.inputs import Missing, item_weights
from evalkit.scoring.wording import named_list

Codes = NDArray[np.intp]

#: largest finite score, so that squares and their sums stay finite
LARGEST = 1e140


@dataclass(frozen=True, eq=False)
class Panel:
    """Rows sorted by question, then forecaster, both numbered from 0 in the order of their contents.

    ``forecaster``, ``question``, ``score``: shape (n,).  ``cluster``, ``weights`` and ``time``: one a
    question; without clusters every question is one of its own.  ``forecasters`` and ``questions`` are the
    names.  ``dropped``: rows of each forecaster left out for a missing score, ``n_dropped`` those of all;
    ``without_scores`` names forecasters who have no score at all.
    """

    forecasters: tuple[Hashable, ...]
    questions: tuple[Hashable, ...]
    forecaster: Codes
    question: Codes
    score: Floats
    cluster: Codes
    n_clusters: int
    clustered: bool
    weights: Floats | None
    time: NDArray[Any] | None
    dropped: NDArray[np.intp]
    n_dropped: int
    without_scores: tuple[Hashable, ...]

    def __len__(self) -> int:
        return len(self.score)

    @cached_property
    def _by_forecaster(self) -> tuple[Codes, Codes]:
        order = np.argsort(self.forecaster, kind="stable")
        return order, np.searchsorted(self.forecaster[order], np.arange(len(self.forecasters) + 1))

    def rows(self, forecaster: int) -> Codes:
        """Rows of a forecaster, by question."""
        order, start = self._by_forecaster
        return order[start[forecaster] : start[forecaster + 1]]

    def overlap(self, first: int, second: int) -> tuple[Codes, Codes]:
        """Rows of two forecasters on the questions that both answered, in the order of the questions."""
        mine, theirs = self.rows(first), self.rows(second)
        _, here, there = np.intersect1d(
            self.question[mine], self.question[theirs], assume_unique=True, return_indices=True
        )
        return mine[here], theirs[there]

    def row_weights(self, rows: Codes) -> Floats | None:
        return None if self.weights is None else self.weights[self.question[rows]]

    def row_clusters(self, rows: Codes) -> Codes | None:
        """Cluster of each row; None where questions are independent."""
        return self.cluster[self.question[rows]] if self.clustered else None

    def mean(self, rows: Codes) -> float:
        """(Weighted) mean score of some rows, the same to the bit in any order."""
        scores, weights = self.score[rows], self.row_weights(rows)
        if weights is None:
            return order_free_sum(scores) / len(scores)
        return order_free_sum(weights * scores) / order_free_sum(weights)

    def index(self, name: Hashable, role: str = "forecaster") -> int:
        """Number of a forecaster; `ValueError` where there is none of that name."""
        if name not in self.forecasters:
            known = named_list(sorted(self.forecasters, key=by_name))
            raise ValueError(f"{role} {name!r} is not among the forecasters {known}")
        return self.forecasters.index(name)

    def check_finite(self, who_needs: str) -> None:
        """`ValueError` where a score is infinite."""
        wrong = ~np.isfinite(self.score)
        if wrong.any():
            raise ValueError(f"{self._named(wrong)} is infinite: {who_needs} finite scores")

    def check_bounds(self, bounds: tuple[float, float]) -> None:
        """`ValueError` where a score lies outside of the range (low, high) that was declared."""
        low, high = bounds
        if not (np.isfinite(low) and np.isfinite(high) and low < high):
            raise ValueError(f"bounds={bounds!r}: expected a finite range (low, high) of an item score")
        wrong = (self.score < low) | (self.score > high)
        if wrong.any():
            raise ValueError(f"{self._named(wrong)} lies outside of bounds={bounds!r}")

    def _named(self, wrong: NDArray[np.bool_]) -> str:
        row = int(np.argmax(wrong))
        return (
            f"the score {self.score[row]:g} of forecaster {self.forecasters[self.forecaster[row]]!r} on question "
            f"{self.questions[self.question[row]]!r}"
        )

    def seed(self, seed: int) -> int:
        """A seed that follows from the scores, who gave them, the clusters and the user's ``seed``."""
        content = hashlib.sha256(f"{seed} {self.n_clusters}".encode())
        for part in (self.forecaster, self.question, self.score, self.cluster):
            content.update(np.ascontiguousarray(part).data)
        return int.from_bytes(content.digest()[:8], "big")


def panel(
    forecaster: ArrayLike,
    question: ArrayLike,
    score: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    time: ArrayLike | None = None,
    missing: Missing = "raise",
) -> Panel:
    """The panel of rows (forecaster, question, score), each of shape (n,).

    ``weights``: not negative; a question of weight 0 is left out.  ``cluster``: labels of questions that
    share luck.  ``time``: anything that sorts.  Raises `ValueError` with the row and the names.
    """
    if missing not in ("raise", "drop"):
        raise ValueError(f"missing={missing!r}: expected 'raise' or 'drop'")
    same_index(
        forecaster=forecaster, question=question, score=score, weights=weights, cluster=cluster, time=time
    )
    scores = floats(score, "score")
    if scores.ndim != 1:
        raise ValueError(f"score has shape {scores.shape}: expected (n,)")
    n = len(scores)
    f, f_names = _coded(forecaster, n, "forecaster")
    q, q_names = _coded(question, n, "question")
    c = None if cluster is None else _coded(cluster, n, "cluster")[0]
    w = None if weights is None else item_weights(weights, n)
    t = None if time is None else _times(time, n)
    kept = _kept(scores, f, q, f_names, q_names, missing)
    dropped = np.bincount(f[~kept], minlength=len(f_names))
    if w is not None:
        kept &= w > 0
    too_large = np.isfinite(scores) & (np.abs(scores) > LARGEST)
    if too_large.any():
        row = int(np.argmax(too_large))
        raise ValueError(f"row {row} has score {scores[row]:g}, beyond ±{LARGEST:g}: rescale the scores")
    if not kept.any():
        raise ValueError("no score to compare" + (f": all {n} are missing or have no weight" if n else ""))
    _once(f, q, f_names, q_names)
    for values, what in ((c, "cluster"), (w, "weight"), (t, "time")):
        if values is not None:
            _of_the_question(values, q, q_names, what)
    return _canonical(
        scores[kept] + 0.0,  # -0.0 becomes 0.0
        f[kept],
        q[kept],
        f_names,
        q_names,
        None if c is None else c[kept],
        None if w is None else w[kept],
        None if t is None else t[kept],
        dropped,
    )


def by_name(name: Hashable) -> tuple[str, str]:
    """Sort key of names of any type."""
    return str(name), type(name).__name__


def _coded(values: ArrayLike, n: int, what: str) -> tuple[Codes, list[Hashable]]:
    """Numbers of the labels in order of first appearance, and the labels."""
    array = np.asarray(values)
    if array.shape != (n,):
        raise ValueError(f"{what} has shape {array.shape} and score has shape ({n},): expected the same")
    labels = array.tolist() if array.dtype.kind != "M" else list(array)
    numbers: dict[Hashable, int] = {}
    codes = np.empty(n, dtype=np.intp)
    for row, label in enumerate(labels):
        if is_missing(label):
            raise ValueError(f"row {row} has no {what}: every row needs one")
        codes[row] = numbers.setdefault(label, len(numbers))
    return codes, list(numbers)


def _times(time: ArrayLike, n: int) -> NDArray[Any]:
    array = np.asarray(time)
    if array.shape != (n,):
        raise ValueError(f"time has shape {array.shape} and score has shape ({n},): expected the same")
    if (row := first_missing(list(array))) is not None:
        raise ValueError(f"row {row} has no time: every row needs one")
    try:
        codes = np.unique(array, return_inverse=True)[1]
    except TypeError:
        raise ValueError("time holds values that cannot be sorted among each other: use one type") from None
    return codes.astype(np.intp)


def _kept(
    scores: Floats, f: Codes, q: Codes, f_names: list[Hashable], q_names: list[Hashable], missing: Missing
) -> NDArray[np.bool_]:
    lost = np.isnan(scores)
    if lost.any() and missing == "raise":
        row = int(np.argmax(lost))
        raise ValueError(
            f"row {row} (forecaster {f_names[f[row]]!r}, question {q_names[q[row]]!r}) has no score, and "
            f"{int(lost.sum())} of {len(scores)} rows have none: correct them, or pass missing='drop' to count "
            "and drop them"
        )
    return ~lost


def _once(f: Codes, q: Codes, f_names: list[Hashable], q_names: list[Hashable]) -> None:
    """Every forecaster answers a question once."""
    order = np.lexsort((q, f))
    again = (f[order][1:] == f[order][:-1]) & (q[order][1:] == q[order][:-1])
    if again.any():
        rows = order[:-1][again], order[1:][again]
        at = int(np.argmin(np.maximum(*rows)))
        one, two = sorted((int(rows[0][at]), int(rows[1][at])))
        raise ValueError(
            f"forecaster {f_names[f[one]]!r} has two rows for question {q_names[q[one]]!r} (rows {one} and "
            f"{two}; {int(again.sum())} such rows in all): keep one forecast a question, or make the horizon or "
            "date part of the question's name"
        )


def _of_the_question(values: NDArray[Any], q: Codes, q_names: list[Hashable], what: str) -> None:
    """Rows of one question agree in ``values``."""
    first = np.empty(len(q_names), dtype=values.dtype)
    first[q[::-1]] = values[::-1]
    differs = values != first[q]
    if differs.any():
        row = int(np.argmax(differs))
        raise ValueError(
            f"question {q_names[q[row]]!r} has rows of different {what} (row {row} differs from its first): "
            f"the {what} belongs to the question and is the same in all its rows"
        )


def _canonical(
    s: Floats,
    f: Codes,
    q: Codes,
    f_names: list[Hashable],
    q_names: list[Hashable],
    c: Codes | None,
    w: Floats | None,
    t: NDArray[Any] | None,
    dropped: NDArray[np.intp],
) -> Panel:
    """Forecasters, then clusters, then questions sorted by a digest of their contents."""
    order = np.lexsort((s, f))
    f_digest = _digests(s[order].astype("<f8"), f[order])
    forecasters = sorted(f_digest, key=lambda i: (f_digest[i], by_name(f_names[i])))
    rank = np.full(len(f_names), -1, dtype=np.intp)
    rank[forecasters] = np.arange(len(forecasters))
    f = rank[f]

    order = np.lexsort((f, q))
    content = np.zeros(len(s), dtype=[("f", "<i8"), ("s", "<f8"), ("w", "<f8"), ("t", "<i8")])
    content["f"], content["s"] = f, s
    content["w"] = 0.0 if w is None else w
    content["t"] = 0 if t is None else t
    q_digest = _digests(content[order], q[order])
    cluster_of: dict[int, int] = dict(zip(q.tolist(), (q if c is None else c).tolist(), strict=True))
    members: dict[int, list[bytes]] = {}
    for number, digest in q_digest.items():
        members.setdefault(cluster_of[number], []).append(digest)
    c_digest = {number: b"".join(sorted(digests)) for number, digests in members.items()}
    c_rank = {number: r for r, number in enumerate(sorted(c_digest, key=c_digest.__getitem__))}
    questions = sorted(q_digest, key=lambda j: (c_rank[cluster_of[j]], q_digest[j]))
    rank = np.full(len(q_names), -1, dtype=np.intp)
    rank[questions] = np.arange(len(questions))
    q = rank[q]

    order = np.lexsort((f, q))
    first = np.searchsorted(q[order], np.arange(len(questions)))
    per_question = order[first]
    return Panel(
        forecasters=tuple(f_names[i] for i in forecasters),
        questions=tuple(q_names[j] for j in questions),
        forecaster=f[order],
        question=q[order],
        score=s[order],
        cluster=np.array([c_rank[cluster_of[j]] for j in questions], dtype=np.intp),
        n_clusters=len(c_rank),
        clustered=c is not None,
        weights=None if w is None else w[per_question],
        time=None if t is None else t[per_question],
        dropped=dropped[forecasters],
        n_dropped=int(dropped.sum()),
        without_scores=tuple(
            sorted((name for i, name in enumerate(f_names) if i not in f_digest), key=by_name)
        ),
    )


def _digests(content: NDArray[Any], codes: Codes) -> dict[int, bytes]:
    """SHA-256 of the contents of each code, whose rows are adjacent."""
    starts = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]]).tolist()
    raw, size = memoryview(content.tobytes()), content.dtype.itemsize
    ends = [*starts[1:], len(codes)]
    return {
        int(codes[start]): hashlib.sha256(raw[start * size : end * size]).digest()
        for start, end in zip(starts, ends, strict=True)
    }
