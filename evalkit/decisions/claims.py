"""One claim about a run, and how far its files carry it: what `evalkit.decisions.verification` reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evalkit.visible import visible

Status = Literal["proven", "policy", "not proven"]
Topic = Literal["run", "custody"]


@dataclass(frozen=True)
class Line:
    """One claim; ``detail`` holds what is particular to this run, in part in its signer's words, and ``topic``
    what the claim belongs to.

    Printed, it is one line: a signer's words cannot add lines of their own, nor hide any.
    """

    status: Status
    text: str
    detail: str = ""
    topic: Topic = "run"

    def __str__(self) -> str:
        detail = f" ({self.detail})" if self.detail else ""
        return visible(f"{self.status:>10}  {self.text}{detail}")


def counted(n: int, one: str) -> str:
    """``1 attempt``, ``2 attempts``; of words whose plural is -s, and of ``entry``."""
    if n == 1:
        return f"1 {one}"
    return f"{n} {one.removesuffix('y')}ies" if one.endswith("y") else f"{n} {one}s"
