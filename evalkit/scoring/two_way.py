"""Two-way fixed effects of forecasters and questions, with a covariance that clusters may share.

The model is b_ij = a_i + q_j + u_ij, fitted by (weighted) least squares over the answers that there are.
Given the forecaster effects a, each q_j is the mean of b_ij - a_i over those who answered j.  What is left are
normal equations of one row a forecaster, however many questions there are:

    S a = Σ_j w_j (b_j - mean b_j),    S = Σ_j w_j (diag(s_j) - s_j s_jᵀ / n_j)

with s_j marking the n_j forecasters who answered j.  S is singular in one direction (a constant may move from
a to q), and in that only, if the answers connect all forecasters.

A forecaster is placed by a_i + c with c the mean of all q_j.  Questions, or their clusters, are the units of
chance: the effect of one cluster g on a_i + c is to first order

    ψ_gi = [S⁺ r_g]_i - hᵀ S⁺ r_g + Σ_{j in g} w_j (q_j - c) / W,    r_g = Σ_{j in g} w_j r_j

with residuals r_j, h = Σ_j w_j s_j / (n_j W) and W = Σ_j w_j; the covariance is Σ_g ψ_g ψ_gᵀ (Liang & Zeger
1986).  Each ψ_gi is scaled as CR2 scales a cluster of the share that g has of i's answers, and the degrees of
freedom are Bell & McCaffrey's for these shares: with G - 1 of them, a dozen clusters of unequal size covered .88.
For one who answered everything this is `evalkit.uncertainty.cluster_se` of her mean score.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evalkit.exact_sums import Floats, order_free_sum
from evalkit.scoring.panel import Codes, Panel, by_name
from evalkit.scoring.wording import named_list
from evalkit.uncertainty.sandwich import bell_mccaffrey, cr2_scale

#: questions made dense at a time
_BLOCK = 2048


class NotConnected(ValueError):
    """Forecasters fall into groups that share no question."""


@dataclass(frozen=True, eq=False)
class TwoWayFit:
    """``placed`` (G,): a_i + mean of q.  ``covariance`` (G, G) of it, with degrees of freedom ``df`` (G,).

    Both are NaN for a forecaster who answered in a single cluster.

    ``difficulty`` (Q,): q_j - mean of q, above zero where a question costs more than the average one.
    """

    placed: Floats
    difficulty: Floats
    covariance: Floats
    df: Floats


def two_way_fit(panel: Panel) -> TwoWayFit:
    """Fit of a panel; `NotConnected` names the groups of forecasters that share no question, if there are any."""
    n_f, n_q = len(panel.forecasters), len(panel.questions)
    w = np.ones(n_q) if panel.weights is None else panel.weights / panel.weights.max()
    answers = np.bincount(panel.question, minlength=n_q).astype(np.float64)
    system = _normal_matrix(panel, w, answers)
    _connected(system, panel)
    size = float(np.trace(system)) / n_f or 1.0
    system += size / n_f  # fixes the free constant at Σ a = 0 and touches nothing else

    def question_effects(a: Floats) -> Floats:
        off = panel.score - a[panel.forecaster]
        return np.asarray(np.bincount(panel.question, off, minlength=n_q) / answers)

    def residuals(a: Floats, q: Floats) -> Floats:
        return np.asarray(panel.score - a[panel.forecaster] - q[panel.question])

    a = np.zeros(n_f)
    for _ in range(3):  # the second and third turn take away the rounding of the first
        r = residuals(a, question_effects(a))
        off = np.bincount(panel.forecaster, w[panel.question] * r, minlength=n_f)
        a = a + np.linalg.solve(system, off)
    q = question_effects(a)
    total = float(w.sum())
    centre = float((w * q).sum()) / total
    influence = _Influence(panel, w, answers, residuals(a, q), q - centre, system)
    covariance = np.zeros((n_f, n_f))
    for psi in influence.blocks():
        covariance += psi.T @ psi
    return TwoWayFit(a + centre, q - centre, covariance, _degrees_of_freedom(panel, w))


def _degrees_of_freedom(panel: Panel, w: Floats) -> Floats:
    df = np.full(len(panel.forecasters), np.nan)
    for i in range(len(df)):
        question = panel.question[panel.rows(i)]
        labels, cluster = np.unique(panel.cluster[question], return_inverse=True)
        if len(labels) > 1:
            weight, squared = (
                _table(cluster, v, 1, len(labels))[0] for v in (w[question], np.square(w[question]))
            )
            df[i] = bell_mccaffrey(weight / order_free_sum(weight), squared)[1]
    return df


def _blocks(panel: Panel) -> Iterator[tuple[slice, slice]]:
    """Runs of questions, and their rows."""
    n_q = len(panel.questions)
    edges = np.searchsorted(panel.question, np.arange(0, n_q + _BLOCK, _BLOCK))
    for block, start in enumerate(range(0, n_q, _BLOCK)):
        yield slice(start, min(start + _BLOCK, n_q)), slice(int(edges[block]), int(edges[block + 1]))


def _normal_matrix(panel: Panel, w: Floats, answers: Floats) -> Floats:
    n_f = len(panel.forecasters)
    matrix = np.zeros((n_f, n_f))
    for questions, rows in _blocks(panel):
        marks = np.zeros((questions.stop - questions.start, n_f))
        share = np.sqrt(w[questions] / answers[questions])
        at = panel.question[rows] - questions.start
        marks[at, panel.forecaster[rows]] = share[at]
        matrix -= marks.T @ marks
    # Rows sum to zero: the diagonal follows from the rest, without the rounding of a difference.
    np.fill_diagonal(matrix, 0.0)
    np.fill_diagonal(matrix, -matrix.sum(axis=1))
    return matrix


def _connected(system: Floats, panel: Panel) -> None:
    """Refuses a panel that falls into parts between which difficulty cannot be told from skill."""
    n_f = len(panel.forecasters)
    if n_f == 1:
        return
    part = np.full(n_f, -1)
    parts = 0
    for start in range(n_f):
        if part[start] >= 0:
            continue
        reached: NDArray[np.bool_] = np.zeros(n_f, dtype=bool)
        edge = np.array([start])
        while len(edge):
            reached[edge] = True
            edge = np.flatnonzero((system[edge] != 0).any(axis=0) & ~reached)
        part[reached] = parts
        parts += 1
    if parts > 1:
        groups = [
            sorted((panel.forecasters[i] for i in np.flatnonzero(part == k)), key=by_name)
            for k in range(parts)
        ]
        groups.sort(key=lambda names: (-len(names), by_name(names[0])))
        said = "; ".join(f"{{{named_list(names)}}}" for names in groups[:6])
        more = f" and {parts - 6} more" if parts > 6 else ""
        raise NotConnected(
            f"the forecasters fall into {parts} groups that share no question: {said}{more}.  Hard questions "
            "cannot be told from poor forecasts between them: adjust each group on its own, or add a forecaster "
            "who answered questions of several groups (a constant 0.5 that answers everything will do)"
        )


@dataclass(frozen=True, eq=False)
class _Influence:
    """First-order effect of each cluster of questions on each forecaster's place."""

    panel: Panel
    w: Floats
    answers: Floats
    residual: Floats
    difficulty: Floats
    system: Floats

    def blocks(self) -> Iterator[Floats]:
        """ψ (clusters, G), some clusters at a time; clusters are runs of adjacent questions."""
        panel, w = self.panel, self.w
        n_f, total = len(panel.forecasters), float(w.sum())
        h = np.bincount(panel.forecaster, (w / self.answers)[panel.question] / total, minlength=n_f)
        level = np.bincount(panel.cluster, w * self.difficulty / total, minlength=panel.n_clusters)
        cluster = panel.cluster[panel.question]
        weighted = w[panel.question] * self.residual
        weight, squared = w[panel.question], np.square(w[panel.question])
        weights, squares = (_table(panel.forecaster, v, 1, n_f)[0] for v in (weight, squared))
        inverse = np.linalg.inv(self.system)
        to_place = inverse - h @ inverse
        edges = np.searchsorted(cluster, np.arange(0, panel.n_clusters + _BLOCK, _BLOCK))
        for block, start in enumerate(range(0, panel.n_clusters, _BLOCK)):
            stop = min(start + _BLOCK, panel.n_clusters)
            rows = slice(int(edges[block]), int(edges[block + 1]))
            cells = (cluster[rows] - start) * n_f + panel.forecaster[rows]
            size = stop - start
            summed, mass, square = (_table(cells, v[rows], size, n_f) for v in (weighted, weight, squared))
            share = mass / weights
            # a single cluster, and clusters without an answer
            with np.errstate(divide="ignore", invalid="ignore"):
                scale = np.where(mass == 0, 1.0, cr2_scale(share, square, squares))
                scale[share == 1] = np.nan
            yield np.asarray((summed @ to_place.T + level[start:stop, None]) * np.sqrt(scale))


def _table(cells: Codes, values: Floats, rows: int, columns: int) -> Floats:
    """Sums of ``values`` by cell, numbered row by row."""
    sums: Floats = np.bincount(cells, values, minlength=rows * columns).astype(np.float64)
    return sums.reshape(rows, columns)
