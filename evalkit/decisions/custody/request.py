"""The request (``evalkit/custody-request/1``): an attested run in one file, for the custodian to verify.

Canonical JSON with each file as base64 under its path, rather than an archive: nothing to decompress, no second
spelling, no duplicate or hidden entry, and a path is never taken from the file: the names that a request must
have are made from two case ids, and it must have exactly those.

Every byte of it is under a signature of the evaluator.  The journal is therefore cut at the head that the run's
attestation signed: what stands behind it anybody could write.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from evalkit.decisions.case import PART_A_FILES
from evalkit.decisions.chain import run_directory
from evalkit.decisions.configuration import REPLAY_FILE
from evalkit.decisions.layout import (
    EX_ANTE,
    EX_ANTE_FILE,
    INSTRUCTIONS,
    JOURNAL,
    check_parent,
    read_bound,
    sealed_file,
)
from evalkit.decisions.plan import PLAN, PLAN_ATTESTATION
from evalkit.decisions.releasable import require_releasable
from evalkit.decisions.sealed_pair import PACKETS
from evalkit.decisions.verification import verify_run
from evalkit.errors import Binding, EvalkitError
from evalkit.sealing import CanonicalError, Places, canonical_json, load_canonical
from evalkit.sealing.canonical import MAX_BYTES
from evalkit.sealing.exchange import read_exchange, refuse_taken, write_exchange
from evalkit.sealing.places import check_run_id

SCHEMA = "evalkit/custody-request/1"
_CASE = re.compile(r"part-a/([A-Za-z0-9][A-Za-z0-9._-]{0,79})/packet\.json")


@dataclass(frozen=True)
class Request:
    """The files of one attested run, by their paths in the run folder."""

    run_id: str
    files: dict[str, bytes]

    def to_json(self) -> bytes:
        try:
            return canonical_json(
                {
                    "schema": SCHEMA,
                    "run_id": self.run_id,
                    "files": {name: base64.b64encode(data).decode() for name, data in self.files.items()},
                }
            )
        except CanonicalError:
            raise EvalkitError(
                "the run does not fit into one request",
                where=self.run_id,
                expected=f"at most {MAX_BYTES} bytes, three quarters of them files",
                do="seal smaller cases, or replay fewer answers",
            ) from None

    @classmethod
    def from_json(cls, data: bytes, *, where: str) -> Request:
        """Read strictly.  Raises `EvalkitError`; nothing in the files is looked at yet."""
        try:
            value = load_canonical(data)
        except CanonicalError as error:
            _refuse(f"it does not parse: {error.what}", f"{where} {error.where}")
        if type(value) is not dict or set(value) != {"schema", "run_id", "files"}:
            _refuse("missing or unknown fields", where)
        if value["schema"] != SCHEMA or type(value["files"]) is not dict:
            _refuse("another format, or files that are no object", where)
        names = set(value["files"])
        cases = sorted(found[1] for name in names if (found := _CASE.fullmatch(name)))
        if len(cases) != 2 or names != names_in_request(cases, replay=REPLAY_FILE in names):
            _refuse("it does not hold exactly the files of one run", where)
        return cls(
            check_run_id(value["run_id"]),
            {n: _decoded(b, f"{where}: {n}") for n, b in value["files"].items()},
        )

    def unpack(self, folder: Path) -> Path:
        """Write the run into a new folder below ``folder``, which must be private; its path."""
        run_dir = folder / "run"
        run_dir.mkdir(mode=0o700)
        for name, data in self.files.items():
            target = run_dir / name
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with target.open("xb") as stream:
                stream.write(data)
        return run_dir


def names_in_request(case_ids: list[str], *, replay: bool) -> set[str]:
    """The paths that a request of a run of these two cases has: these and no others."""
    names = {PLAN, PLAN_ATTESTATION, JOURNAL, f"{EX_ANTE}/{EX_ANTE_FILE}", f"{EX_ANTE}/run.dsse.json"}
    names |= {f"part-a/{case_id}/{name}" for case_id in case_ids for name in PART_A_FILES}
    names |= {f"instructions/{name}" for name in INSTRUCTIONS}
    names |= {sealed_file(kind) for kind in PACKETS}
    return names | ({REPLAY_FILE} if replay else set())


def write_request(
    run_dir: Path | str, *, out: Path | str, trust: Path | None = None, places: Places | None = None
) -> Request:
    """Verify an evaluated run and pack what its custodian needs into the file ``out``.

    Opens no packet: the sealed files are copied as they are.  Raises `BindingError` where the run does not
    verify, `Blocked` where it has a blocker or is revealed, and `EvalkitError` where it has no custodian.
    """
    run_dir, out = run_directory(Path(run_dir)), Path(out)
    check_parent(out)
    refuse_taken(out)
    report = verify_run(run_dir, trust=trust, places=places)
    run = require_releasable(report.run, report.phase, str(run_dir))
    plan = run.evidence.opened.plan
    names = names_in_request(plan.pair.order, replay=run.evidence.opened.model.replay is not None)
    files = {name: read_bound(run_dir, name, Binding.RUN) for name in sorted(names)}
    lines = files[JOURNAL].splitlines(keepends=True)
    files[JOURNAL] = b"".join(lines[: run.signed_head.size - plan.ledger_head.size])
    request = Request(plan.run_id, files)
    write_exchange(out, request.to_json())
    return request


def read_request(path: Path) -> Request:
    return Request.from_json(read_exchange(path), where=str(path))


def _decoded(text: Any, where: str) -> bytes:
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True) if type(text) is str else None
    except (binascii.Error, UnicodeEncodeError):
        data = None
    if data is None or base64.b64encode(data).decode() != text:
        _refuse("a file is not canonical base64", where)
    return data


def _refuse(what: str, where: str) -> NoReturn:
    raise EvalkitError(
        f"this is no request: {what}",
        where=where,
        expected="one file as `evalkit custodian request` writes it",
        do="ask the evaluator for it again, whole and unchanged",
    )
