"""One claim about a run, and how far its files carry it: what `evalkit.decisions.verification` reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["proven", "policy", "not proven"]


@dataclass(frozen=True)
class Line:
    """One claim; ``detail`` holds what is particular to this run."""

    status: Status
    text: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.status:>10}  {self.text}" + (f" ({self.detail})" if self.detail else "")
