"""Part A as a page for people: the same records as the packet, each with its id.

The report is derived and adds nothing: quality control reads the ids back out of it and compares them
with the packet.
"""

from __future__ import annotations

import re

from evalkit.decisions.packet import KINDS, Fact, Packet

TITLES = {
    "alternatives": "Alternatives",
    "sources": "Sources",
    "facts": "Reported facts",
    "company_claims": "Company claims",
    "third_party_estimates": "Third-party estimates",
    "assumptions": "Assumptions",
    "judgments": "Judgments",
    "conflicts": "Conflicts",
    "unknowns": "Unknowns",
    "missing_evidence": "Missing evidence",
    "liquidity": "Liquidity items",
    "tables": "Tables",
    "scenarios": "Scenarios",
}
_REFERENCE = re.compile(r"`([^`\s]+)`")


def render(packet: Packet) -> str:
    """Markdown of a packet: one bullet a record, every id and reference in backticks."""
    d = packet.decision
    lines = [
        f"# Part A: {packet.case_id}",
        "",
        f"{packet.company}. Label: {packet.contamination}.",
        "",
        f"**Question.** {_flat(d.question)}",
        "",
        f"Decided by {_flat(d.owner)} on {d.decision_time}; nothing known after {d.knowledge_cutoff} is used.",
    ]
    for name in KINDS:
        records = getattr(packet, name)
        if records:
            lines += ["", f"## {TITLES[name]}", ""]
            lines += [f"- `{record.id}` {_line(record)}" for record in records]
    return "\n".join(lines) + "\n"


def references(markdown: str) -> list[str]:
    """Every id that a rendered report names, in order, repeats included."""
    return _REFERENCE.findall(markdown)


def _flat(text: str) -> str:
    """One line, and no backtick: only ids may stand in backticks."""
    return " ".join(text.replace("`", "'").split())


def _refs(ids: list[str]) -> str:
    return ", ".join(f"`{i}`" for i in ids) or "none"


def _line(record: object) -> str:
    if isinstance(record, Fact):
        unit = f" {record.unit}" if record.unit and record.is_numeric else ""
        extra = "".join(
            f" {label}: {_flat(text)}"
            for label, text in (("Note", record.note), ("Doubt", record.doubt))
            if text
        )
        forward = "; forward-looking" if record.forward_looking else ""
        return (
            f"{_flat(record.definition)}: **{_flat(record.value)}{unit}**, {_flat(record.period.label)}"
            f" ({record.period.start} to {record.period.end}), {_flat(record.entity)}, {_flat(record.scope)};"
            f" {_flat(record.vintage)}, known {record.known_at}{forward}."
            f" Sources {_refs(record.source_ids)}.{extra}"
        )
    parts = []
    for name in type(record).model_fields:  # type: ignore[attr-defined]
        value = getattr(record, name)
        if name == "id" or value is None:
            continue
        label = name.replace("_", " ")
        if isinstance(value, list):
            parts.append(f"{label}: {_refs(value)}")
        else:
            parts.append(f"{label}: {_flat(str(value))}")
    return "; ".join(parts)
