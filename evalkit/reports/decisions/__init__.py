"""What a report on sealed decisions shows, from verified runs only.

Two results stand in two views that know nothing of each other: `process.ProcessView`, signed before anything
was revealed, and `calibration.CalibrationView`.  No function takes both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalkit.decisions.shipped import shipped_among
from evalkit.decisions.verification import VerificationReport, verify_run
from evalkit.errors import EvalkitError
from evalkit.reports.decisions.calibration import CalibrationView
from evalkit.reports.decisions.cases import ReportCase, ex_ante_of
from evalkit.reports.decisions.process import ProcessView
from evalkit.reports.decisions.proof import ProofView
from evalkit.reports.tables import Html, Table, notice
from evalkit.sealing import canonical_json, digest

#: what a reader must know of each custody; only the second party keeps anything from the evaluating person
_CUSTODY = {
    "self": notice(
        "warn",
        "The person who ran this evaluation also held the key to the outcomes (custody: self)."
        " The files show that nothing was changed after it was signed; they cannot show that nobody"
        " looked, or that the same user did not make everything anew.",
        heading="Not blind",
    ),
    "process": notice(
        "warn",
        "Another account of the same person kept the key to the outcomes (custody: process). That keeps the"
        " evaluating programs from them; it hides nothing from the person.",
        heading="Not blind",
    ),
    "second_party": notice(
        "info",
        "Declared is that another person, the custodian, sealed the outcomes and kept their key (custody:"
        " second_party), so that the evaluator could not open the sealed files without her. The files show two keys,"
        " not whose they are, nor that their owners did not collude.",
        heading="Second party, as declared",
    ),
}
_SHIPPED = notice(
    "warn",
    "These cases come with evalkit: everybody has their outcomes, whoever kept a key.",
    heading="Not blind: public outcomes",
)


def _refuse_pooling(paths: Sequence[Path], runs: Sequence[VerificationReport]) -> None:
    """A mean is over different cases and one model: counting a case twice would fake a sample size."""
    seen: dict[str, Path] = {}
    for path, run in zip(paths, runs, strict=True):
        for case_id in run.evidence.opened.plan.pair.order:
            if case_id in seen:
                raise EvalkitError(
                    f"case {case_id} is in two of these runs",
                    where=f"{seen[case_id]} and {path}",
                    expected="each case once: n counts cases, not runs",
                    do="report the runs one by one",
                )
            seen[case_id] = path
    models = {digest(canonical_json(run.evidence.opened.plan.model)) for run in runs}
    if len(models) > 1:
        raise EvalkitError(
            "these runs are of different models",
            where=", ".join(map(str, paths)),
            expected="one sealed model configuration in a report: its scores are averaged",
            do="report each model's runs by themselves",
        )


@dataclass(frozen=True)
class DecisionReport:
    """Verified runs, ready to be shown."""

    runs: tuple[VerificationReport, ...]
    paths: tuple[Path, ...]
    cases: tuple[ReportCase, ...]

    @classmethod
    def load(cls, runs: Sequence[str | Path], *, trust: str | Path | None = None) -> DecisionReport:
        """Verify every run and read it.  Raises as `verify_run`, and where a run is not evaluated."""
        if not runs:
            raise EvalkitError("no run to report on", expected="at least one run folder", do="name one")
        paths = tuple(Path(r) for r in runs)
        verified = tuple(verify_run(p, trust=Path(trust) if trust else None) for p in paths)
        _refuse_pooling(paths, verified)
        cases: list[ReportCase] = []
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
                ReportCase(
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
    def process(self) -> ProcessView:
        return ProcessView(self.cases)

    @property
    def calibration(self) -> CalibrationView:
        return CalibrationView(self.cases)

    @property
    def proof(self) -> ProofView:
        return ProofView(self.runs, self.paths)

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
        custodies = {r.evidence.opened.plan.custody for r in self.runs}
        parts += [text for custody, text in _CUSTODY.items() if custody in custodies]
        if any(shipped_among(r.evidence.opened.plan.cases) for r in self.runs):
            parts.append(_SHIPPED)
        repeated = [r for r in self.runs if r.attempts > 1]
        if repeated:
            told = ", ".join(f"attempt {ex_ante_of(r)['attempt']} of {r.attempts}" for r in repeated)
            parts.append(
                notice(
                    "warn",
                    f"The model was asked more than once ({told}). Whoever ran it could see the earlier answers"
                    " and their process scores before this one was signed.",
                    heading="More than one attempt",
                )
            )
        if any(ex_ante_of(r)["replayed"] for r in self.runs):
            parts.append(
                notice(
                    "warn", "The answers were replayed from a file, not asked of a model.", heading="Replayed"
                )
            )
        if any(ex_ante_of(r)["configuration"]["adapter"] == "callable" for r in self.runs):
            parts.append(
                notice(
                    "info",
                    "The analyst is evalkit's deterministic baseline. It follows a fixed rule and"
                    " understands nothing. It is the floor to compare a model with, and its high process score"
                    " shows what a structural score cannot see.",
                    heading="Baseline",
                )
            )
        else:
            parts.append(notice("info", self._analyst(), heading="Analyst"))
        return Html("\n".join(p.markup for p in parts), "; ".join(str(p) for p in parts))

    def _analyst(self) -> str:
        """Who answered, as the plan names it and as the service said."""
        configuration = ex_ante_of(self.runs[0])["configuration"]
        served = sorted({c.ex_ante["trace"]["served_model"] or "not said" for c in self.cases})
        place = f" at {configuration['base_url']}" if "base_url" in configuration else ""
        return f"{configuration['adapter']}:{configuration['model']}{place}; served as {', '.join(served)}."

    def evidence(self) -> Table:
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

    def decisions(self) -> Table:
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

    def results(self) -> dict[str, Any]:
        """Numbers for ``results.json``: process and calibration under separate keys, never together."""
        return {
            "runs": [r.run_id for r in self.runs],
            "process": self.process.results(),
            "calibration": self.calibration.results(),
        }
