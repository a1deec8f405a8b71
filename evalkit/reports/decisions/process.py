"""The process score in a report: what was signed before anything was revealed.  No outcome enters here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evalkit.reports.decisions.cases import ReportCase
from evalkit.reports.figures import DimensionScore, dimension_dots, show
from evalkit.reports.tables import Card, Column, Html, Table, badge, cards


@dataclass(frozen=True)
class ProcessView:
    """Points by dimension, blockers, reasons, and what a person must still review."""

    cases: tuple[ReportCase, ...]

    def cards(self) -> Html:
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

    def table(self) -> Table:
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

    def figure(self) -> None:
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

    def reasons(self) -> Table:
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

    def blockers(self) -> Table:
        rows = [
            [
                c.name,
                badge("eligible", "ok") if c.ex_ante["score"]["eligible"] else badge("blocked", "bad"),
                _told(c.ex_ante["score"]["blockers"]),
            ]
            for c in self.cases
        ]
        return Table(
            ["Case", "State", "Blockers"], rows, caption="Blockers: no total outweighs one", stack=True
        )

    def review(self) -> Table:
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

    def results(self) -> list[dict[str, Any]]:
        """Numbers for ``results.json``."""
        return [
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


def _told(blockers: list[dict[str, Any]], limit: int = 8) -> str:
    """The findings of a case: every code with its count, then the first of them in full."""
    if not blockers:
        return "none of the twelve"
    counts: dict[str, int] = {}
    for blocker in blockers:
        counts[blocker["code"]] = counts.get(blocker["code"], 0) + 1
    codes = ", ".join(f"{code} × {n}" if n > 1 else code for code, n in counts.items())
    first = "; ".join(f"{b['where']}: {b['what']}" for b in blockers[:limit])
    more = f"; and {len(blockers) - limit} more in ex-ante/run.json" if len(blockers) > limit else ""
    return f"{codes}. {first}{more}"
