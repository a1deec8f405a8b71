"""One case of a verified run, as the views of a report read it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from textwrap import shorten
from typing import Any

from evalkit.decisions.packet import Packet
from evalkit.decisions.verification import VerificationReport


@dataclass(frozen=True)
class ReportCase:
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
    def is_blocked(self) -> bool:
        return not self.ex_ante["score"]["eligible"]

    @property
    def record(self) -> dict[str, Any] | None:
        value: dict[str, Any] | None = self.ex_ante["response"]["canonical"]
        return None if self.is_blocked else value

    @property
    def is_baseline(self) -> bool:
        return bool(ex_ante_of(self.run)["configuration"]["adapter"] == "callable")

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
        from evalkit.decisions.reveal_document import calibrate

        assert self.calibration is not None
        return calibrate(scenario_probabilities(self.packet), self.calibration["realized_scenario_id"])

    @cached_property
    def labels(self) -> dict[str, str]:
        """Scenario id -> short label, each different: what stands before the first colon."""
        labels: dict[str, str] = {}
        for scenario in self.packet.scenarios:
            label = shorten(scenario.description.partition(":")[0], width=38, placeholder=" …") or scenario.id
            candidate, n = label, 1
            while candidate in labels.values():
                n += 1
                candidate = f"{label} ({n})"
            labels[scenario.id] = candidate
        return labels

    def scenario(self, scenario_id: str) -> str:
        return self.labels[scenario_id]

    def scenario_text(self, scenario_id: str) -> str:
        return next(s.description for s in self.packet.scenarios if s.id == scenario_id)

    def part_b(self) -> dict[str, Any]:
        assert self.run.calibration is not None
        n = self.run.evidence.opened.plan.pair.order.index(self.case_id)
        value: dict[str, Any] = self.run.calibration["openings"][f"part-b-{n}"]["payload"]["outcome"]
        return value


def ex_ante_of(run: VerificationReport) -> dict[str, Any]:
    """The ex-ante document of a run that has one (a report refuses to load others)."""
    assert run.ex_ante is not None
    return run.ex_ante
