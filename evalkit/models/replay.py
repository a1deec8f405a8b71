"""A provider that answers from a file of recorded responses (``evalkit/replay/1``).

A record is found by the digest of the prompt that it answered; a prompt without a record is an error,
never a guess.  What comes out is labelled ``replayed`` wherever it goes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evalkit.errors import EvalkitError
from evalkit.models.provider import ProviderError, Request, Response
from evalkit.sealing import canonical_json, digest, load_canonical

SCHEMA = "evalkit/replay/1"


@dataclass(frozen=True)
class Recorded:
    """One recorded answer."""

    prompt_digest: str
    text: str
    model: str


def replay_file(records: list[Recorded]) -> bytes:
    """Canonical bytes of a replay file."""
    return canonical_json(
        {
            "schema": SCHEMA,
            "records": [
                {"prompt_digest": r.prompt_digest, "text": r.text, "model": r.model} for r in records
            ],
        }
    )


def read_replay(value: Any, *, where: str) -> list[Recorded]:
    """Validate the JSON value of a replay file.  Raises `EvalkitError`."""
    try:
        if value["schema"] != SCHEMA or set(value) != {"schema", "records"}:
            raise ValueError(f"schema is {value.get('schema')!r}")
        records = []
        for record in value["records"]:
            if set(record) != {"prompt_digest", "text", "model"}:
                raise ValueError(f"a record has the fields {sorted(record)}")
            if not all(type(v) is str for v in record.values()):
                raise ValueError("a record has a field that is no string")
            records.append(Recorded(**record))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise EvalkitError(
            f"this is no replay file ({error})",
            where=where,
            expected=f"{SCHEMA}: records of prompt_digest, text, model",
            do="record one, or pass the run.json of an evaluated run",
        ) from None
    digests = [r.prompt_digest for r in records]
    if len(set(digests)) != len(digests):
        raise EvalkitError(
            "the replay file answers one prompt twice",
            where=where,
            expected="one record a prompt",
            do="keep the record that is meant",
        )
    return records


class ReplayProvider:
    """Answers from the canonical bytes of a replay file."""

    def __init__(self, data: bytes) -> None:
        self._digest = digest(data)
        self._records = {r.prompt_digest: r for r in read_replay(load_canonical(data), where="replay")}

    def configuration(self) -> dict[str, Any]:
        return {
            "adapter": "replay",
            "model": ", ".join(sorted({r.model for r in self._records.values()})) or "none",
            "replay_digest": self._digest,
        }

    def complete(self, request: Request) -> Response:
        prompt = digest(request.prompt)
        record = self._records.get(prompt)
        if record is None:
            raise ProviderError(
                "not-recorded",
                f"the replay has no answer to prompt {prompt}",
                where="replay file",
                expected="a record with the digest of this very prompt",
                do="`evalkit decisions export` writes the prompt; record an answer to it",
            )
        text = record.text.encode()
        return Response(
            text=text,
            requested_model=record.model,
            served_model=record.model,
            transmitted_prompt_digest=prompt,
            request_digest=digest(canonical_json({"prompt": prompt, "replay": self._digest})),
            body_digest=digest(text),
            replayed=True,
        )
