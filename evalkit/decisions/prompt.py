"""The prompt: one byte string made of sealed instructions and Part A, and nothing else (W3, W8).

The template names three slots, each once.  They are filled by splitting, not by replacing, so that text
inside Part A can never be taken for a slot.  The canonical Part A is one line (canonical JSON has no raw
line break), which is how a reader finds it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evalkit.decisions.packet import Packet
from evalkit.errors import EvalkitError
from evalkit.sealing import canonical_json, digest, load_strict

SLOTS = ("{{response_schema}}", "{{rubric}}", "{{part_a}}")


@dataclass(frozen=True)
class Instructions:
    """What a precommit seals besides the evidence: template, response schema and rubric, as bytes."""

    template: bytes
    response_schema: bytes
    rubric: bytes

    @classmethod
    def shipped(cls) -> Instructions:
        """The instructions that come with this version of evalkit."""
        from evalkit.decisions.record import response_schema
        from evalkit.resources import resource

        rubric = load_strict(resource("templates", "decisions", "rubric.json").read_bytes())
        return cls(
            template=resource("templates", "decisions", "prompt.md").read_bytes(),
            response_schema=canonical_json(response_schema()),
            rubric=canonical_json(rubric),
        )

    def files(self) -> dict[str, bytes]:
        return {
            "prompt.md": self.template,
            "response.schema.json": self.response_schema,
            "rubric.json": self.rubric,
        }

    def digests(self) -> dict[str, str]:
        return {
            "prompt_template": digest(self.template),
            "response_schema": digest(self.response_schema),
            "rubric": digest(self.rubric),
        }


def build_prompt(instructions: Instructions, packet: bytes) -> bytes:
    """Fill the template.  ``packet`` is canonical Part A; the result is what is sent, byte for byte."""
    parts: list[bytes] = []
    rest = instructions.template
    for slot, value in zip(SLOTS, (instructions.response_schema, instructions.rubric, packet), strict=True):
        before, marker, rest = rest.partition(slot.encode())
        if not marker or slot.encode() in rest:
            raise EvalkitError(
                f"the prompt template must name {slot} exactly once, after the slots before it",
                where="templates/decisions/prompt.md",
                expected=" then ".join(SLOTS),
                do="correct the template",
            )
        parts += [before, value]
    return b"".join([*parts, rest])


def part_a_of(prompt: bytes) -> Packet:
    """Read Part A back out of a prompt (the baseline analyst has nothing else)."""
    return Packet.from_json(_block(prompt, b"part_a"), where="prompt")


def rubric_of(prompt: bytes) -> dict[str, Any]:
    value = load_strict(_block(prompt, b"rubric"))
    assert isinstance(value, dict)
    return value


def _block(prompt: bytes, name: bytes) -> bytes:
    lines = prompt.split(b"\n")
    try:
        return lines[lines.index(b"<" + name + b">") + 1]
    except (ValueError, IndexError):
        raise EvalkitError(
            f"the prompt has no <{name.decode()}> block",
            where="prompt",
            expected="a prompt made by evalkit",
            do="pass the prompt bytes unchanged",
        ) from None
