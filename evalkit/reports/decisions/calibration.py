"""Calibration in a report: the probability of what happened, after the reveal.  No process score enters here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from evalkit.errors import EvalkitError
from evalkit.interval_plot import Estimate
from evalkit.reports.decisions.cases import ReportCase
from evalkit.reports.figures import CaseProbabilities, interval_plot, probability_bars, show
from evalkit.reports.tables import Card, Column, Html, Table, cards, notice

if TYPE_CHECKING:
    from evalkit.scoring import Score


@dataclass(frozen=True)
class CalibrationView:
    """Probabilities of the scenarios and, once revealed, their scores."""

    cases: tuple[ReportCase, ...]

    @property
    def revealed(self) -> bool:
        return all(c.calibration is not None for c in self.cases)

    def probabilities(self) -> list[CaseProbabilities]:
        return [
            CaseProbabilities(
                c.name,
                {c.scenario(s["scenario_id"]): float(s["probability"]) for s in c.record["scenarios"]},
                c.scenario(c.calibration["realized_scenario_id"]) if c.calibration else None,
            )
            for c in self.cases
            if c.record is not None
        ]

    def figure(self) -> None:
        """Probabilities per scenario, the realized one marked once it is revealed."""
        cases = self.probabilities()
        if not cases:
            return
        told = "; ".join(
            f"{c.case}: " + (f"{c.realized} happened, given {c.probabilities[c.realized]:.2f}" if c.realized
                             else "not revealed")
            for c in cases
        )  # fmt: skip
        show(
            probability_bars(cases),
            alt=f"Probability of each scenario. {told}.",
            caption="What the analyst gave each scenario"
            + (", and which one happened." if self.revealed else " (not revealed)."),
        )

    def scores(self, rule: str) -> Score:
        """``brier`` or ``log`` over all revealed cases."""
        from evalkit.scoring import brier_score, log_score

        revealed = [c for c in self.cases if c.calibration is not None and c.record is not None]
        if not revealed:
            raise EvalkitError(
                "nothing is revealed yet", do="evalkit decisions reveal RUN --write-calibration"
            )
        # one multiclass score needs one number of classes: absent scenarios have probability zero
        most = max(len(c.packet.scenarios) for c in revealed)
        y, p = [], []
        for c in revealed:
            assert c.record is not None
            assert c.calibration is not None
            ids = [s["scenario_id"] for s in c.record["scenarios"]]
            y.append(ids.index(c.calibration["realized_scenario_id"]))
            row = [float(s["probability"]) for s in c.record["scenarios"]]
            # as the sealed record scores them: divided by their sum, which may miss one by the tolerance
            p.append([x / math.fsum(row) for x in row] + [0.0] * (most - len(row)))
        return brier_score(y, p) if rule == "brier" else log_score(y, p)

    def _not_revealed(self) -> Html:
        """What stands in the place of every number before the reveal."""
        blocked = [c.name for c in self.cases if c.is_blocked]
        if blocked:
            return notice(
                "bad",
                f"The record of {', '.join(blocked)} has defects that block it, so this run cannot be revealed and has no"
                " calibration. They are named where the process is shown.",
                heading="Blocked",
            )
        return notice(
            "info",
            "The outcome is still sealed: there is no calibration to show.",
            heading="Not revealed",
        )

    def cards(self) -> Html:
        """Mean scores with their interval, and the uniform forecast beside them."""
        if not self.revealed:
            return self._not_revealed()
        brier, log = self.scores("brier"), self.scores("log")
        low, high = brier.interval()
        revealed = [c.calibration for c in self.cases if c.calibration is not None]
        uniform = sum(c["brier_uniform"] for c in revealed) / len(revealed)
        uniform_log = sum(c["log_uniform"] for c in revealed) / len(revealed)
        foreseen = sum(c["nontrivial"] for c in revealed)
        thresholds = sorted({c.run.evidence.opened.plan.nontrivial_probability for c in self.cases})
        return cards(
            [
                Card(
                    label="Mean Brier score",
                    value=f"{float(brier):.3f}",
                    interval=f"95% interval {low:.2f} to {high:.2f}",
                    n=brier.n,
                    note=f"uniform forecast {uniform:.3f}; multiclass, sum over scenarios, range 0-2, lower is"
                    " better; Gaffke interval for independent cases, which a pair of rivals is not: the true"
                    " uncertainty is larger, and no proof covers every distribution",
                ),
                Card(
                    label="Mean log score",
                    value=f"{float(log):.3f}",
                    interval="no interval: the score has no upper bound",
                    n=log.n,
                    note=f"uniform forecast {uniform_log:.3f}; nats, lower is better",
                ),
                Card(
                    label="Not ruled out",
                    value=f"{foreseen}",
                    unit=f"of {len(revealed)} cases",
                    n=len(revealed),
                    note=f"realized scenarios given at least {' or '.join(thresholds)}, the threshold of their"
                    " precommit (a uniform forecast gives one over the number of scenarios)",
                ),
            ]
        )

    def table(self) -> Table | Html:
        """Scores by case; the baseline's beside them where another model answered."""
        if not self.revealed:
            return self._not_revealed()
        columns: list[Column | str] = ["Case", "What happened"]
        columns += [
            Column(name, format=".3f") for name in ("Given", "Brier", "Uniform Brier", "Log", "Uniform log")
        ]
        compared = not all(c.is_baseline for c in self.cases)
        if compared:
            columns.append(Column("Baseline Brier", format=".3f"))
        rows = []
        for c in self.cases:
            if c.calibration is None:
                continue
            k = c.calibration
            row: list[Any] = [
                c.name,
                c.scenario_text(k["realized_scenario_id"]),
                float(k["realized_probability"]),
                k["brier"],
                k["brier_uniform"],
                k["log"] if k["log"] is not None else "infinite",
                k["log_uniform"],
            ]
            rows.append([*row, c.floor_calibration["brier"]] if compared else row)
        return Table(
            columns,
            rows,
            caption="Calibration by case (each is one observation: n = 1)",
            stack=True,
            note="Brier: multiclass, sum over scenarios, range 0-2, 0 is best. Log: nats, 0 is best. Uniform: the"
            " same probability for every scenario. One case has no sampling interval.",
        )

    def mean_figure(self) -> None:
        """Mean Brier score with its interval against the uniform forecast; nothing before the reveal."""
        if not self.revealed:
            return
        brier = self.scores("brier")
        low, high = brier.interval()
        revealed = [c.calibration for c in self.cases if c.calibration is not None]
        uniform = sum(c["brier_uniform"] for c in revealed) / len(revealed)
        show(
            interval_plot(
                [Estimate("mean Brier", float(brier), low, high, brier.n)],
                reference=uniform,
                xlabel="Brier score, range 0-2, lower is better (dashed: uniform)",
            ),
            alt=f"Mean Brier score {float(brier):.3f}, 95% interval {low:.2f} to {high:.2f}, n = {brier.n};"
            f" the uniform forecast has {uniform:.3f}.",
            caption=f"With n = {brier.n} the interval is wide: it "
            + ("includes" if low <= uniform <= high else "excludes")
            + " the uniform forecast.",
        )

    def sensitivity(self) -> Table:
        """What the Brier score would have been under each other outcome."""
        rows = []
        for c in self.probabilities():
            mass = math.fsum(c.probabilities.values())  # as the record scores them: divided by their sum
            shares = {s: p / mass for s, p in c.probabilities.items()}
            square = math.fsum(p * p for p in shares.values())
            # sum over k of (p_k - o_k)^2 = sum of p^2 - 2 p_realized + 1
            if_happened = {s: square - 2 * p + 1 for s, p in shares.items()}
            expected = math.fsum(p * if_happened[s] for s, p in shares.items())
            got = if_happened[c.realized] if c.realized else None
            rows.append([c.case, min(if_happened.values()), expected, max(if_happened.values()), got])
        return Table(
            ["Case", Column("Best possible", format=".3f"), Column("Expected", format=".3f"),
             Column("Worst possible", format=".3f"), Column("What it got", format=".3f")],
            rows,
            caption="How much the score depends on which scenario happened",
            note="Brier score of the same probabilities under the kindest and the unkindest outcome; expected:"
            " weighted with the analyst's own probabilities.",
        )  # fmt: skip

    def outcomes(self) -> Html:
        """What happened, and what the teaching note says about the process."""
        if not self.revealed:
            return self._not_revealed()
        parts = []
        for c in self.cases:
            if c.calibration is None:
                continue
            b = c.part_b()
            items = "".join(f"<li>{escape(o['date'])}: {escape(o['statement'])}</li>" for o in b["outcomes"])
            parts.append(
                f"<h3>{escape(c.name)}</h3><ul>{items}</ul><p><em>Process, from the teaching note.</em>"
                f" {escape(b['process_quality'])}</p>"
            )
        return Html("\n".join(parts), "outcomes")

    def results(self) -> dict[str, Any] | None:
        """Numbers for ``results.json``; None before the reveal."""
        if not self.revealed:
            return None
        brier, log = self.scores("brier"), self.scores("log")
        low, high = brier.interval()
        return {
            "n": brier.n,
            "brier": {"mean": float(brier), "low": low, "high": high, "level": 0.95,
                      "interval": "gaffke", "convention": brier.convention},
            "log": {"mean": float(log) if float(log) != float("inf") else None,
                    "convention": log.convention},
            "cases": [
                {k: c.calibration[k] for k in ("case_id", "realized_probability", "brier", "log")}
                for c in self.cases
                if c.calibration is not None
            ],
            "combined_score_prohibited": True,
        }  # fmt: skip
