"""What a report on sealed decisions shows, from verified runs only.

Two results stand in two sections: the process score, which was signed before anything was revealed, and
calibration.  No function here takes both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import evalkit
from evalkit.decisions.packet import Packet
from evalkit.decisions.verification import VerificationReport, verify_run
from evalkit.errors import EvalkitError
from evalkit.reports.figures import (
    CaseProbabilities,
    DimensionScore,
    Estimate,
    dimension_dots,
    interval_plot,
    probability_bars,
    show,
)
from evalkit.reports.tables import Card, Column, Html, Table, badge, cards, notice

if TYPE_CHECKING:
    from evalkit.scoring import Score


@dataclass(frozen=True)
class _Case:
    """One case of one verified run."""

    case_id: str
    packet: Packet
    run: VerificationReport
    ex_ante: dict[str, Any]
    calibration: dict[str, Any] | None

    @property
    def name(self) -> str:
        """The company, without the legal form."""
        return re.sub(r"(,? (Inc|Corp|Ltd|Group|Co|plc|AG|SE|SA)\b\.?)+$", "", self.packet.company)

    @property
    def record(self) -> dict[str, Any] | None:
        value: dict[str, Any] | None = self.ex_ante["response"]["canonical"]
        return value if self.ex_ante["score"]["eligible"] else None

    @property
    def is_baseline(self) -> bool:
        return bool(_ex_ante(self.run)["configuration"]["adapter"] == "callable")

    @cached_property
    def floor(self) -> dict[str, Any]:
        """Process score of the deterministic baseline on the same prompt, for comparison."""
        from evalkit.decisions.baseline import analyse
        from evalkit.decisions.packet import dump
        from evalkit.decisions.rubric import score_response

        prompt = self.run.evidence.prompts[self.case_id]
        value: dict[str, Any] = dump(
            score_response(analyse(prompt), self.packet, self.run.evidence.opened.rubric)
        )
        return value

    @cached_property
    def floor_calibration(self) -> dict[str, Any]:
        """Calibration of the baseline on the same case."""
        from evalkit.decisions.baseline import scenario_probabilities
        from evalkit.decisions.calibration import calibrate

        assert self.calibration is not None
        return calibrate(scenario_probabilities(self.packet), self.calibration["realized_scenario_id"])

    def scenario(self, scenario_id: str) -> str:
        """Short label of a scenario: what stands before its first colon."""
        text = next(s.description for s in self.packet.scenarios if s.id == scenario_id)
        return shorten(text.partition(":")[0], width=38, placeholder=" …")

    def scenario_text(self, scenario_id: str) -> str:
        return next(s.description for s in self.packet.scenarios if s.id == scenario_id)

    def part_b(self) -> dict[str, Any]:
        assert self.run.calibration is not None
        n = self.run.evidence.opened.plan.pair.order.index(self.case_id)
        value: dict[str, Any] = self.run.calibration["openings"][f"part-b-{n}"]["payload"]["outcome"]
        return value


@dataclass(frozen=True)
class DecisionReport:
    """Verified runs, ready to be shown."""

    runs: tuple[VerificationReport, ...]
    paths: tuple[Path, ...]
    cases: tuple[_Case, ...]

    @classmethod
    def load(cls, runs: Sequence[str | Path], *, trust: str | Path | None = None) -> DecisionReport:
        """Verify every run and read it.  Raises as `verify_run`, and where a run is not evaluated."""
        if not runs:
            raise EvalkitError("no run to report on", expected="at least one run folder", do="name one")
        paths = tuple(Path(r) for r in runs)
        verified = tuple(verify_run(p, trust=Path(trust) if trust else None) for p in paths)
        cases: list[_Case] = []
        for path, run in zip(paths, verified, strict=True):
            if run.ex_ante is None:
                raise EvalkitError(
                    "the run is not evaluated yet",
                    where=str(path),
                    expected="a run with ex-ante/run.json",
                    do=f"evalkit decisions evaluate {path} --write-run",
                )
            revealed = {c["case_id"]: c for c in run.calibration["cases"]} if run.calibration else {}
            cases += [
                _Case(
                    case_id=c["case_id"],
                    packet=run.evidence.parts[c["case_id"]].packet,
                    run=run,
                    ex_ante=c,
                    calibration=revealed.get(c["case_id"]),
                )
                for c in run.ex_ante["cases"]
            ]
        return cls(verified, paths, tuple(cases))

    @property
    def revealed(self) -> bool:
        return all(c.calibration is not None for c in self.cases)

    @property
    def model(self) -> str:
        names = {f"{_ex_ante(r)['configuration']['model']}" for r in self.runs}
        return ", ".join(sorted(names))

    # Before the outcome

    def labels(self) -> Html:
        """What every reader must know before any number."""
        parts = [
            notice(
                "warn",
                "These cases are named. A model may remember what happened, so nothing here is free of"
                " contamination: the evidence is source-bounded, not the model's memory.",
                heading="Named cases",
            )
        ]
        if any(r.evidence.opened.plan.custody == "self" for r in self.runs):
            parts.append(
                notice(
                    "warn",
                    "The person who ran this evaluation also held the key to the outcomes (custody: self)."
                    " The files show that nothing was changed; they cannot show that nobody looked.",
                    heading="Not blind",
                )
            )
        if any(_ex_ante(r)["replayed"] for r in self.runs):
            parts.append(
                notice(
                    "warn", "The answers were replayed from a file, not asked of a model.", heading="Replayed"
                )
            )
        if any(_ex_ante(r)["configuration"]["adapter"] == "callable" for r in self.runs):
            parts.append(
                notice(
                    "info",
                    "The analyst is evalkit's deterministic baseline. It follows a fixed rule and"
                    " understands nothing. It is the floor to compare a model with, and its high process score"
                    " shows what a structural score cannot see.",
                    heading="Baseline",
                )
            )
        return Html("\n".join(p.markup for p in parts), "; ".join(str(p) for p in parts))

    def process_cards(self) -> Html:
        """Process score per case, with its blockers."""
        return cards(
            Card(
                label=c.name,
                value=c.ex_ante["score"]["total"],
                unit=f"of {c.ex_ante['score']['maximum']}",
                n="1 record",
                interval="" if c.is_baseline else f"the baseline has {c.floor['total']}",
                note=("no blocker" if c.ex_ante["score"]["eligible"] else "BLOCKED: no total outweighs this")
                + "; structure only, a person must review the substance",
                kind="ok" if c.ex_ante["score"]["eligible"] else "bad",
            )
            for c in self.cases
        )

    def process_table(self) -> Table:
        """Points by dimension; the weights are the sealed rubric's."""
        dimensions = self.cases[0].ex_ante["score"]["dimensions"]
        rows = [
            [
                d["title"],
                d["weight"],
                *[float(c.ex_ante["score"]["dimensions"][i]["points"]) for c in self.cases],
            ]
            for i, d in enumerate(dimensions)
        ]
        rows.append(
            [
                "Total",
                sum(d["weight"] for d in dimensions),
                *[float(c.ex_ante["score"]["total"]) for c in self.cases],
            ]
        )
        return Table(
            ["Dimension", Column("Weight"), *[Column(c.name, format=".2f") for c in self.cases]],
            rows,
            caption="Process score by dimension, signed before the outcome was opened",
            note="A score of one record by a deterministic rule: it has no sampling error, and no interval."
            " Whether the decision matched the outcome is no part of it.",
        )

    def process_figure(self) -> None:
        rows = [
            DimensionScore(c.name, d["title"], float(d["points"]), float(d["weight"]))
            for c in self.cases
            for d in c.ex_ante["score"]["dimensions"]
        ]
        lost = [f"{r.dimension} ({r.case})" for r in rows if r.points < r.weight]
        show(
            dimension_dots(rows),
            alt="Points by dimension against its weight. Points lost in: "
            + (", ".join(lost) or "none")
            + ".",
            caption="Points earned in each dimension. The tick is the dimension's weight.",
        )

    def reasons_table(self) -> Table:
        """Every check that failed, why, and in which cases."""
        found: dict[tuple[str, str, str], list[str]] = {}
        for c in self.cases:
            for d in c.ex_ante["score"]["dimensions"]:
                for check in d["checks"]:
                    if not check["passed"]:
                        key = (d["title"], check["id"].replace("-", " "), check["found"])
                        found.setdefault(key, []).append(c.name)
        rows = [[*key, ", ".join(names)] for key, names in found.items()]
        return Table(
            ["Dimension", "Check", "What was found", "Cases"],
            rows,
            caption="Where points were lost",
            stack=True,
        )

    def blockers_table(self) -> Table:
        rows = [
            [
                c.name,
                badge("eligible", "ok") if c.ex_ante["score"]["eligible"] else badge("blocked", "bad"),
                "; ".join(
                    f"{b['code']} at {b['where']}: {b['what']}" for b in c.ex_ante["score"]["blockers"][:5]
                )
                or "none of the twelve",
            ]
            for c in self.cases
        ]
        return Table(
            ["Case", "State", "Blockers"], rows, caption="Blockers: no total outweighs one", stack=True
        )

    def review_table(self) -> Table:
        """What a person still has to check: places by question and case."""
        asked: dict[str, dict[str, int]] = {}
        for c in self.cases:
            for item in c.ex_ante["score"]["review_queue"]:
                counts = asked.setdefault(item["asks"], {})
                counts[c.name] = counts.get(c.name, 0) + 1
        return Table(
            ["A person must answer", *[Column(c.name, numeric=True) for c in self.cases]],
            [[asks, *[counts.get(c.name, 0) for c in self.cases]] for asks, counts in asked.items()],
            caption="Review queue: places that no deterministic check can decide",
            stack=True,
            note="Each place, with the records it cites, is listed in ex-ante/run.json under review_queue.",
        )

    def decisions_table(self) -> Table:
        """What was decided, in the packet's words."""
        rows: list[list[Any]] = []
        for c in self.cases:
            if c.record is None:
                rows.append([c.name, None, None, None])
                continue
            texts = {a.id: a.description for a in c.packet.alternatives}
            rows.append(
                [
                    c.name,
                    texts[c.record["selected_alternative"]["alternative_id"]],
                    texts[c.record["strongest_rejected_alternative"]["alternative_id"]],
                    c.record["confidence"]["level"],
                ]
            )
        return Table(
            ["Case", "Selected", "Strongest rejected", "Confidence"],
            rows,
            caption="The decisions",
            stack=True,
        )

    def evidence_table(self) -> Table:
        """What the analyst had before it."""
        rows = []
        for c in self.cases:
            p, plan = c.packet, c.run.evidence.opened.plan
            rows.append(
                [
                    c.name,
                    p.decision.question,
                    p.decision.knowledge_cutoff,
                    f"{len(p.facts)} / {len(p.company_claims)} / {len(p.third_party_estimates)}",
                    len(p.sources),
                    ", ".join(plan.case(c.case_id).accepted_warnings).replace("_", " ").lower(),
                ]
            )
        return Table(
            ["Case", "Question", "Cutoff", "Facts / claims / estimates", "Sources", "Accepted warnings"],
            rows,
            caption="The frozen evidence",
            stack=True,
        )

    # After the reveal

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

    def probability_figure(self) -> None:
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
            p.append(row + [0.0] * (most - len(row)))
        return brier_score(y, p) if rule == "brier" else log_score(y, p)

    def calibration_cards(self) -> Html:
        """Mean scores with their interval, and the uniform forecast beside them."""
        brier, log = self.scores("brier"), self.scores("log")
        low, high = brier.interval()
        revealed = [c.calibration for c in self.cases if c.calibration is not None]
        uniform = sum(c["brier_uniform"] for c in revealed) / len(revealed)
        uniform_log = sum(c["log_uniform"] for c in revealed) / len(revealed)
        foreseen = sum(c["nontrivial"] for c in revealed)
        threshold = self.runs[0].evidence.opened.plan.nontrivial_probability
        return cards(
            [
                Card(
                    label="Mean Brier score",
                    value=f"{float(brier):.3f}",
                    interval=f"95% interval {low:.2f} to {high:.2f}",
                    n=brier.n,
                    note=f"uniform forecast {uniform:.3f}; multiclass, sum over scenarios, range 0-2, lower is"
                    " better; Gaffke interval, cases taken as independent",
                ),
                Card(
                    label="Mean log score",
                    value=f"{float(log):.3f}",
                    interval="no interval: the score has no upper bound",
                    n=log.n,
                    note=f"uniform forecast {uniform_log:.3f}; nats, lower is better",
                ),
                Card(
                    label="Nontrivial probability",
                    value=f"{foreseen}",
                    unit=f"of {len(revealed)} cases",
                    n=len(revealed),
                    note=f"realized scenarios given at least {threshold}, the threshold of the precommit",
                ),
            ]
        )

    def calibration_table(self) -> Table:
        """Scores by case; the baseline's beside them where another model answered."""
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

    def calibration_figure(self) -> None:
        """Mean Brier score with its interval against the uniform forecast."""
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

    def sensitivity_table(self) -> Table:
        """What the Brier score would have been under each other outcome."""
        rows = []
        for c in self.probabilities():
            square = sum(p * p for p in c.probabilities.values())
            # sum over k of (p_k - o_k)^2 = sum of p^2 - 2 p_realized + 1
            if_happened = {s: square - 2 * p + 1 for s, p in c.probabilities.items()}
            expected = sum(p * if_happened[s] for s, p in c.probabilities.items())
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

    # What the files show

    def proof_table(self) -> Table:
        """What verification found, claim by claim, over all runs."""
        kinds: dict[str, Any] = {"proven": "ok", "policy": "info", "not proven": "warn"}
        rows: list[list[Any]] = []
        for status, kind in kinds.items():
            count: dict[str, int] = {}
            for run in self.runs:
                for line in run.lines:
                    if line.status == status:
                        count[line.text] = count.get(line.text, 0) + 1
            rows += [
                [badge(status, kind), text, f"{n}\u00a0of\u00a0{len(self.runs)}"] for text, n in count.items()
            ]
        return Table(
            [Column("Status", heading=False), Column("Claim", heading=True), "Runs"],
            rows,
            caption="What these files prove, what was declared, and what they do not prove",
            note="The same lines with their particulars: evalkit verify RUN.",
            stack=True,
        )

    def digest_table(self) -> Table:
        """Identity, digests and times, one column a run."""
        columns = []
        for run in self.runs:
            e, plan = _ex_ante(run), run.evidence.opened.plan
            columns.append(
                {
                    "Run": _code(run.run_id),
                    "Model": e["configuration"]["model"],
                    "Precommit": _code(e["precommit_digest"]),
                    "Model configuration": _code(e["configuration_digest"]),
                    "Scorer": _code(e["scorer_digest"]),
                    "Signing key": _code(plan.signing_key_id),
                    "Trust file used here": _code(run.trust_digest),
                    "Attempt": f"{e['attempt']} of {e['attempts']}",
                    "Planned": _seconds(plan.created_at),
                    "Ex-ante run final": _seconds(e["finalized_at"]),
                    "Revealed": _seconds(run.calibration["revealed_at"]) if run.calibration else "no",
                }
            )
        return Table(
            ["", *[run.evidence.opened.plan.pair.pair_id for run in self.runs]],
            [[name, *[column[name] for column in columns]] for name in columns[0]],
            caption="Identity, digests and times (UTC, by the signer's own clock)",
        )

    def reproduce(self) -> Html:
        """Commands that verify these runs and make them again."""
        lines = [f"evalkit verify {p}" for p in self.paths]
        for run in self.runs:
            plan = run.evidence.opened.plan
            model = "" if plan.model["adapter"] == "callable" else " --model …"
            lines += [
                f"evalkit decisions precommit CASES --pair {plan.pair.pair_id}{model} --out NEW",
                "evalkit decisions evaluate NEW --write-run",
                "evalkit decisions reveal NEW --write-calibration",
            ]
        text = "\n".join(lines)
        return Html(
            f"<p>With evalkit {escape(evalkit.__version__)}, the folder of cases and your own trust file:</p>"
            f"<pre><code>{escape(text)}</code></pre>",
            text,
        )

    def results(self) -> dict[str, Any]:
        """Numbers for ``results.json``: process and calibration under separate keys, never together."""
        process = [
            {
                "case_id": c.case_id,
                "total": c.ex_ante["score"]["total"],
                "maximum": c.ex_ante["score"]["maximum"],
                "eligible": c.ex_ante["score"]["eligible"],
                "blockers": sorted({b["code"] for b in c.ex_ante["score"]["blockers"]}),
                "substantive_human_review_required": True,
            }
            for c in self.cases
        ]
        out: dict[str, Any] = {"runs": [r.run_id for r in self.runs], "process": process, "calibration": None}
        if self.revealed:
            brier, log = self.scores("brier"), self.scores("log")
            low, high = brier.interval()
            out["calibration"] = {
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
        return out


def _ex_ante(run: VerificationReport) -> dict[str, Any]:
    assert run.ex_ante is not None  # DecisionReport.load refuses a run without it
    return run.ex_ante


def _code(text: str) -> Html:
    """A digest that may break anywhere."""
    pieces = [escape(text[i : i + 8]) for i in range(0, len(text), 8)]
    return Html(f'<code class="digest">{"<wbr>".join(pieces)}</code>', text)


def _seconds(stamp: str) -> str:
    """A time to the second, for the eye."""
    return stamp[:19].replace("T", " ")
