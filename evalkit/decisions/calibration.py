"""Reveal: after everything is verified, open what was sealed and score the probabilities.

The order is the point.  `open_ex_ante` has verified the attestation and replayed every binding of both
cases, and no record is blocked, before the unsealing key is even loaded; only then are mapping, catalog
and Part B opened, and each must be what the plan committed to.  Process quality (the ex-ante score) and
calibration (this record) are two results.  Nothing here or elsewhere adds, averages or plots them as one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import evalkit
from evalkit.decisions.catalog import CatalogExtract, Mapping, PartB
from evalkit.decisions.chain import (
    OpenExAnte,
    load_trust,
    open_evidence,
    open_ex_ante,
    open_plan,
    read_attested,
    run_directory,
)
from evalkit.decisions.evaluation import has_signer, signer_of
from evalkit.decisions.layout import EX_ANTE, JOURNAL, REVEAL, REVEAL_FILE, read_bound, sealed_file
from evalkit.decisions.moments import instant, stamp
from evalkit.decisions.packet import parse
from evalkit.decisions.plan import Precommit
from evalkit.decisions.record import DecisionRecord
from evalkit.decisions.settling import settle
from evalkit.errors import Binding, BindingError, Blocked, EvalkitError
from evalkit.sealing import (
    PREDICATES,
    Ledger,
    Opening,
    Places,
    SealedPacket,
    canonical_json,
    commit_phase,
    digest,
    load_canonical,
    load_unsealing_key,
)

if TYPE_CHECKING:
    import pandas as pd

CONVENTIONS = {
    "brier": "multiclass Brier score: sum over the scenarios of squared error, range 0-2, 0 is best",
    "log": "negative natural log of the probability of the realized scenario, nats, 0 is best",
    "uniform": "the same scores of a forecast that gives every scenario the same probability",
}


@dataclass(frozen=True)
class Calibration:
    """The post-reveal record, and where it was written, if it was."""

    document: dict[str, Any]
    written: Path | None

    def summary(self) -> dict[str, Any]:
        """Phase, identity, realized probabilities and scores per case; nothing of the process score."""
        d = self.document
        return {
            "phase": d["phase"],
            "run_id": d["run_id"],
            "label": d["label"],
            "replayed": d["replayed"],
            "revealed_at": d["revealed_at"],
            "conventions": d["conventions"],
            "cases": [
                {
                    k: c[k]
                    for k in (
                        "case_id",
                        "realized_scenario_id",
                        "realized_probability",
                        "nontrivial",
                        "brier",
                        "brier_uniform",
                        "log",
                        "log_uniform",
                        "n_scenarios",
                    )
                }
                for c in d["cases"]
            ],
            "bindings": d["bindings"],
            "written": str(self.written) if self.written else None,
        }

    def to_frame(self) -> pd.DataFrame:
        """One row per case: probability of the realized scenario and its scores."""
        import pandas as pd

        return pd.DataFrame(self.summary()["cases"]).astype({"realized_probability": float})

    def _repr_html_(self) -> str:
        html: str = self.to_frame().to_html(index=False)
        return html


def reveal(
    run_dir: Path | str,
    *,
    write_calibration: bool = False,
    revealed_at: str | None = None,
    trust: Path | None = None,
    places: Places | None = None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    observe: Callable[[str], None] = lambda step: None,
) -> Calibration:
    """Verify a run and reveal it.

    ``revealed_at``: offset-aware time, not before the ex-ante run was final and not in the future.
    Raises `BindingError` (which binding failed; nothing sealed was opened unless it is
    ``sealed-packet``), `Blocked` (a blocker, or revealed already) or `EvalkitError`.
    """
    places = places or Places.from_environment()
    run_dir = run_directory(Path(run_dir))
    opened = open_plan(run_dir, load_trust(run_dir, trust, places))
    plan = opened.plan
    if (run_dir / REVEAL).is_dir() and not has_signer(plan, places):
        raise Blocked(
            "this run is revealed already, elsewhere",
            where=f"{run_dir}/{REVEAL}",
            expected="one reveal a run, where its keys are",
            do="read its calibration.json; `evalkit verify` checks it",
        )
    with signer_of(plan, places, run_dir) as signer:
        ledger = Ledger(places.ledger(signer.key_id), clock=clock)
        evidence = open_evidence(opened)
        if (run_dir / EX_ANTE).exists():
            read_attested(opened)  # says which section differs, where settling could say only that one does
        settle(run_dir, opened, ledger)
        run = open_ex_ante(evidence)
        _check_journal(run, ledger)
        refuse_blocked(run)
        at = _revealed_at(revealed_at, run, clock())
        if any(a.state == "committed" for a in ledger.attempts(plan.run_id, REVEAL)):
            raise Blocked(
                "this run is revealed already",
                where=f"RUN/{REVEAL}",
                expected="one reveal a run",
                do="read its calibration.json; `evalkit verify` checks it",
            )
        attempt = ledger.begin_attempt(plan.run_id, REVEAL, write_calibration=write_calibration)
        document = document_of(run, _open_sealed(run, places), at)
        if not write_calibration:
            ledger.append(
                "abandoned",
                run_id=plan.run_id,
                phase=REVEAL,
                attempt=attempt,
                document=digest(canonical_json(document)),
                reason="nothing was to be written",
            )
            return Calibration(document, None)
        commit_phase(
            run_dir,
            REVEAL,
            REVEAL_FILE,
            canonical_json(document),
            predicate_type=PREDICATES["decisions/reveal"],
            predicate=lambda head, number: predicate_of(document),
            signer=signer,
            trust=opened.trust,
            ledger=ledger,
            run_id=plan.run_id,
            attempt=attempt,
            segment_from=plan.ledger_head.size,
            observe=observe,
        )
    return Calibration(document, run_dir / REVEAL)


def _check_journal(run: OpenExAnte, ledger: Ledger) -> None:
    """The run's copy of the ledger must be the ledger's, to its last line."""
    opened = run.evidence.opened
    copy = read_bound(opened.run_dir, JOURNAL, Binding.RUN)
    if not ledger.segment(opened.plan.ledger_head.size).startswith(copy):
        raise BindingError(
            Binding.RUN,
            "the journal is not a copy of the signer's ledger",
            where=JOURNAL,
            expected="the ledger's lines from the plan on",
            do="restore the journal",
        )


def refuse_blocked(run: OpenExAnte) -> None:
    """Any blocker in either case stops the reveal of both."""
    blocked = {case: codes for case, codes in run.blockers.items() if codes}
    if blocked:
        named = "; ".join(f"{case}: {', '.join(sorted(set(codes)))}" for case, codes in blocked.items())
        raise Blocked(
            f"the decision record is blocked ({named})",
            where="ex-ante/run.json",
            expected="no blocker in either case",
            do="make another precommit; no total outweighs a blocker, and nothing sealed was opened",
        )


def predicate_of(document: dict[str, Any]) -> dict[str, Any]:
    """The predicate that attests a post-reveal record."""
    return {
        "phase": document["phase"],
        "run_id": document["run_id"],
        "revealed_at": document["revealed_at"],
        **document["bindings"],
    }


def _revealed_at(given: str | None, run: OpenExAnte, now: datetime) -> str:
    try:
        at = now if given is None else instant(given)
    except ValueError as error:
        raise EvalkitError(
            f"--revealed-at {given!r} is no time with an offset ({error})",
            where="--revealed-at",
            expected="for example 2026-11-30T12:00:00+00:00",
            do="correct it, or leave it out",
        ) from None
    finalized = run.document["finalized_at"]
    if now < instant(finalized):
        raise EvalkitError(
            f"this machine's clock ({stamp(now)}) is behind the time at which the run was final",
            where="clock",
            expected=f"a time from {finalized} on",
            do="set the clock, or wait",
        )
    if at < instant(finalized) or at > now:
        raise EvalkitError(
            f"the reveal cannot be dated {stamp(at)}",
            where="--revealed-at",
            expected=f"not before the ex-ante run was final ({finalized}), and not after now ({stamp(now)})",
            do="correct it, or leave it out",
        )
    return stamp(at)


@dataclass(frozen=True)
class Opened:
    """What the sealed packets hold, each checked against its commitment."""

    catalog: CatalogExtract
    mapping: Mapping
    part_b: dict[str, PartB]
    openings: dict[str, Opening]


def _open_sealed(run: OpenExAnte, places: Places) -> Opened:
    """Load the unsealing key and open the packets: the first step that touches ``RUN/sealed``."""
    plan = run.evidence.opened.plan
    path = places.ephemeral(plan.run_id) / "unsealing.pem" if plan.ephemeral_keys else places.unsealing_key
    private = load_unsealing_key(path, workspace=[run.evidence.opened.run_dir])
    openings = {
        kind: packet.reveal(private)
        for kind, packet in sealed_packets(run.evidence.opened.run_dir, plan).items()
    }
    return interpret(plan, openings)


def sealed_packets(run_dir: Path, plan: Precommit) -> dict[str, SealedPacket]:
    """The four ciphertexts of a run, each the one that the plan names."""
    records = {"mapping": plan.mapping, "catalog": plan.catalog} | {
        f"part-b-{n}": case.part_b for n, case in enumerate(plan.cases)
    }
    packets = {}
    for kind, record in records.items():
        packet = SealedPacket.from_record(
            record, read_bound(run_dir, sealed_file(kind), Binding.SEALED_PACKET), plan.run_id
        )
        _require(packet.kind == kind, f"the plan has a packet {packet.kind} where {kind} belongs", kind)
        packets[kind] = packet
    return packets


def interpret(plan: Precommit, openings: dict[str, Opening]) -> Opened:
    """Check what was opened against the plan and against each other (W1, W4, W37)."""
    mapping = parse(Mapping, load_canonical(openings["mapping"].payload), where="the sealed mapping")
    catalog = parse(CatalogExtract, load_canonical(openings["catalog"].payload), where="the sealed catalog")
    _require(set(mapping.cases) == set(plan.pair.order), "the mapping is of other cases", "mapping")
    pair = catalog.pair
    entries = {c.case_id: c for c in catalog.cases}
    roles = {c.role: c.case_id for c in catalog.cases}
    _require(
        (pair.pair_id, pair.pairing_basis) == (plan.pair.pair_id, plan.pair.pairing_basis)
        and len(catalog.cases) == 2
        and all(c.pair_id == pair.pair_id for c in catalog.cases)
        and set(entries) == set(plan.pair.order)
        and roles == {"favorable": pair.favorable_case_id, "unfavorable": pair.unfavorable_case_id},
        "the catalog's pair is not the plan's",
        "catalog",
    )
    part_b: dict[str, PartB] = {}
    for n, case in enumerate(plan.cases):
        kind = f"part-b-{n}"
        payload = load_canonical(openings[kind].payload)
        value = parse(PartB, payload["outcome"], where="a sealed Part B")
        realized, entry = mapping.cases[case.case_id], entries[case.case_id]
        _require(value.case_id == case.case_id, "Part B is of another case", kind)
        _require(
            value.packet_digest == realized.packet_digest == entry.packet_digest == case.packet_digest,
            "mapping, catalog and Part B do not bind the plan's packet",
            kind,
        )
        _require(
            digest(canonical_json(payload["outcome"])) == realized.part_b_digest == entry.part_b_digest,
            "Part B is not the one that mapping and catalog bind",
            kind,
        )
        _require(
            digest(payload["teaching_note"].encode()) == value.teaching_note_digest,
            "the teaching note is not the one that Part B binds",
            kind,
        )
        for name in ("episode", "freeze", "qc", "report"):
            _require(
                getattr(entry, f"{name}_digest") == getattr(case, f"{name}_digest"),
                f"the catalog lists another {name} than the plan",
                "catalog",
            )
        part_b[case.case_id] = value
    return Opened(catalog, mapping, part_b, openings)


def _require(holds: bool, what: str, where: str) -> None:
    if not holds:
        raise BindingError(
            Binding.SEALED_PACKET,
            what,
            where=f"sealed/{where}",
            expected="what was sealed by the precommit",
            do="do not use this run",
        )


def calibrate(probabilities: dict[str, Decimal], realized: str) -> dict[str, Any]:
    """Scores of one forecast over named scenarios against the realized one.

    The sum may differ from one by the tolerance of the record; it is divided out before scoring.
    """
    from evalkit.scoring import brier_score, log_score

    scenarios = sorted(probabilities)
    _require(realized in probabilities, f"the mapping names {realized}, which has no probability", "mapping")
    y = [scenarios.index(realized)]
    total = sum(map(Fraction, probabilities.values()))
    p = [[float(Fraction(probabilities[s]) / total) for s in scenarios]]
    uniform = [[1 / len(scenarios)] * len(scenarios)]
    log = float(log_score(y, p))
    return {
        "n_scenarios": len(scenarios),
        "realized_probability": format(probabilities[realized], "f"),
        "brier": float(brier_score(y, p)),
        "brier_uniform": float(brier_score(y, uniform)),
        # JSON has no infinity: a realized scenario with probability zero has no finite log score
        "log": log if log != float("inf") else None,
        "log_uniform": float(log_score(y, uniform)),
    }


def document_of(run: OpenExAnte, sealed: Opened, revealed_at: str) -> dict[str, Any]:
    """The post-reveal record (``evalkit/decisions-reveal/1``) as a JSON value."""
    plan = run.evidence.opened.plan
    threshold = Decimal(plan.nontrivial_probability)
    pair = sealed.catalog.pair
    cases = []
    for case in run.document["cases"]:
        case_id = case["case_id"]
        record = DecisionRecord.from_response(canonical_json(case["response"]["canonical"]))
        realized = sealed.mapping.cases[case_id].realized_scenario_id
        scores = calibrate(record.probabilities(), realized)
        part_b = sealed.part_b[case_id]
        cases.append(
            {
                "case_id": case_id,
                "role": "favorable" if case_id == pair.favorable_case_id else "unfavorable",
                "realized_scenario_id": realized,
                **scores,
                "nontrivial": Decimal(scores["realized_probability"]) >= threshold,
                "outcome_ids": [o.id for o in part_b.outcomes],
                "observable_signal_ids": [s.id for s in part_b.observable_signals],
                "process_quality": part_b.process_quality,
                "realized_return": part_b.realized_return.model_dump(mode="json")
                if part_b.realized_return
                else None,
            }
        )
    return {
        "schema": "evalkit/decisions-reveal/1",
        "phase": "post_reveal_calibration",
        "run_id": plan.run_id,
        "label": plan.contamination,
        "replayed": run.document["replayed"],
        "revealed_at": revealed_at,
        "evalkit_version": evalkit.__version__,
        "conventions": CONVENTIONS,
        "nontrivial_probability": plan.nontrivial_probability,
        "calibration_included_in_ex_ante_total": False,
        "combined_score_prohibited": True,
        "attempts": run.attempts,
        "cases": cases,
        "bindings": _bindings(run, sealed),
        "openings": {
            kind: {"salt": o.salt.hex(), "payload": load_canonical(o.payload)}
            for kind, o in sealed.openings.items()
        },
    }


def _bindings(run: OpenExAnte, sealed: Opened) -> dict[str, Any]:
    plan = run.evidence.opened.plan
    return {
        "precommit_digest": run.document["precommit_digest"],
        "ex_ante_run_digest": digest(run.document_bytes),
        "ex_ante_attestation_digest": digest(run.attestation_bytes),
        "ex_ante_score_digests": {c["case_id"]: c["score_digest"] for c in run.document["cases"]},
        "mapping_digest": digest(sealed.openings["mapping"].payload),
        "catalog_extract_digest": digest(sealed.openings["catalog"].payload),
        "part_b_digests": {c.case_id: sealed.mapping.cases[c.case_id].part_b_digest for c in plan.cases},
    }
