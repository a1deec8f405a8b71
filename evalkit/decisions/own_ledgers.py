"""What all ledgers of one account tell: a key that was rotated left one, and every ephemeral key has its own.

A question about what a person did before is put to all of them, not to the ledger of the key that she uses now.
"""

from __future__ import annotations

from collections.abc import Iterator

from evalkit.decisions.layout import EX_ANTE
from evalkit.errors import Blocked
from evalkit.sealing import Entry, Ledger, Places


def own_entries(places: Places) -> Iterator[tuple[str, Entry]]:
    """(path of the ledger, entry), ledger by ledger, each chain verified."""
    for path in sorted(places.ledgers.glob("*.jsonl")):
        for entry in Ledger(path).entries():
            yield str(path), entry


def refuse_second_plan(run_id: str, places: Places) -> None:
    """Raise `Blocked` where this account has planned the run of a custodian's bundle before.

    The outcomes are released for one plan only, and two plans of one run would count each other's attempts.
    """
    planned, evaluated = "", False
    for path, entry in own_entries(places):
        record = entry.record
        if record.get("run_id") != run_id:
            continue
        if record["event"] == "precommit":
            planned = planned or f"{path}: seq {entry.seq}"
        evaluated |= (record["event"], record.get("phase")) == ("committed", EX_ANTE)
    if planned:
        raise second_plan(run_id, "evaluated" if evaluated else "planned", planned)


def second_plan(run_id: str, was: str, where: str) -> Blocked:
    return Blocked(
        f"this bundle's run {run_id} was {was} already, in another folder",
        where=where,
        expected="one plan of a bundle: it serves one run",
        do="go on with that run; for another one, ask the custodian for another bundle",
    )
