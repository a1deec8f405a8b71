"""What a dishonest custodian or evaluator can sign, and requests that no evalkit packed."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from decisions.fixtures import QuickSigner
from evalkit.decisions.custody.request import Request, names_in_request
from evalkit.sealing import PREDICATES, canonical_json, sign

from .people import Two

Json = dict[str, Any]


def pack(two: Two, run: Path | None = None) -> None:
    """A request made by hand, of whatever the run holds: the evaluator's own evalkit is not asked."""
    run = run or two.run
    plan = json.loads((run / "plan.json").read_bytes())
    replay = (run / "model").exists()
    files = {n: (run / n).read_bytes() for n in names_in_request(plan["pair"]["order"], replay=replay)}
    lines = files["journal.jsonl"].splitlines(keepends=True)
    while json.loads(lines[-1])["event"] != "intent":
        lines.pop()
    files["journal.jsonl"] = b"".join(lines)
    two.request.write_bytes(Request(plan["run_id"], files).to_json())


def reseal(two: Two, edit: Callable[[dict[str, Any]], Any], phase: str = "custody/seal") -> None:
    """A bundle.json with something else in it, signed again by the custodian's own key."""
    path = two.bundle / "bundle.json"
    value = json.loads(path.read_bytes())
    edit(value)
    data = canonical_json(value)
    path.write_bytes(data)
    (two.bundle / "bundle.dsse.json").write_bytes(
        sign(
            "bundle.json",
            data,
            predicate_type=PREDICATES[phase],
            predicate={"run_id": value["run_id"]},
            signer=QuickSigner(two.custodian.places.signing_key),
        )
    )


def resigned(
    two: Two,
    edit: Callable[[Json, Json], Any],
    signer: Any = None,
    phase: str = "custody/opening",
    subject: bytes | None = None,
    later: timedelta = timedelta(0),
) -> None:
    """The opening with openings and predicate edited, and signed anew, by the custodian or somebody else.

    ``subject``: what is signed instead of the openings.  ``later``: than the release was signed.
    """
    value = json.loads(two.opening.read_bytes())
    predicate = json.loads(base64.b64decode(value["release"]["payload"]))["predicate"]
    at = datetime.fromisoformat(predicate.pop("signed_at"))
    edit(value["openings"], predicate)
    envelope = sign(
        "openings.json",
        canonical_json(value["openings"]) if subject is None else subject,
        predicate_type=PREDICATES[phase],
        predicate=predicate,
        signer=signer or QuickSigner(two.custodian.places.signing_key),
        at=at + later,
    )
    value["release"] = json.loads(envelope)
    two.opening.write_bytes(canonical_json(value))
