"""What the tests of sealed decisions share: worlds (run, keys, trust, ledger), records and fact sheets."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from evalkit.cli import main
from evalkit.decisions import evaluate, precommit
from evalkit.decisions.baseline import analyse
from evalkit.decisions.case import PartA, read_part_a
from evalkit.decisions.chain import load_trust, open_plan
from evalkit.decisions.configuration import Model
from evalkit.decisions.evaluation import signer_of
from evalkit.decisions.layout import EX_ANTE, EX_ANTE_FILE
from evalkit.decisions.prompt import Instructions, build_prompt
from evalkit.decisions.rubric import score_response
from evalkit.decisions.run_document import predicate_of
from evalkit.models.replay import Recorded, replay_file
from evalkit.sealing import PREDICATES, Ledger, Places, canonical_json, commit_phase, digest, load_strict

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "data" / "cases"
FROZEN_AT = "2026-11-30T12:00:00+00:00"
CASE_IDS = ("case-nflx-2007-07", "case-bbi-2007-07", "case-amzn-2001-04", "case-wbvn-2001-04")
PAIR = "pair-1-video-rental-2007"
PAIRS = (PAIR, "pair-3-online-retail-2001")
SHEETS = ("netflix-2007-07.json", "blockbuster-2007-07.json", "amazon-2001-04.json", "webvan-2001-04.json")


@dataclass(frozen=True)
class World:
    """One user's folders and one run."""

    root: Path

    @property
    def run(self) -> Path:
        return self.root / "runs" / "r"

    @property
    def config(self) -> Path:
        return self.root / "config"

    @property
    def state(self) -> Path:
        return self.root / "state"

    @property
    def places(self) -> Places:
        return Places(config=self.config / "evalkit", state=self.state / "evalkit")

    @property
    def plan(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads((self.run / "plan.json").read_bytes())
        return value

    @property
    def run_id(self) -> str:
        return str(self.plan["run_id"])

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.places.ledger(self.plan["signing_key_id"]))

    def states(self, phase: str = EX_ANTE) -> list[str]:
        return [a.state for a in self.ledger.attempts(self.run_id, phase)]

    def copy(self, root: Path) -> World:
        shutil.copytree(self.root, root, symlinks=True)
        return World(root)

    def listing(self) -> dict[str, bytes | None]:
        return {
            str(p.relative_to(self.run)): p.read_bytes() if p.is_file() else None
            for p in sorted(self.run.rglob("*"))
        }


def make_world(root: Path, *, cases: Path = CASES, pair: str = PAIR, **options: Any) -> World:
    """A precommitted run with keys of its own."""
    world = World(root)
    for folder in (world.config, world.state, world.run.parent):
        folder.mkdir(parents=True, mode=0o700)
    precommit(cases, pair=pair, out=world.run, places=world.places, **options)
    return world


def forge(world: World, document: dict[str, Any], alter: Callable[[dict[str, Any]], None]) -> None:
    """Sign and commit an altered run with the run's own key and ledger: what a dishonest owner can do."""
    document = copy.deepcopy(document)
    opened = open_plan(world.run, load_trust(world.run, None, world.places))
    plan = opened.plan
    with signer_of(plan, world.places, world.run) as signer:
        ledger = world.ledger
        attempt = ledger.begin_attempt(plan.run_id, EX_ANTE, write_run=True, prompts={})
        document["attempt"] = document["attempts"] = attempt
        alter(document)
        commit_phase(
            world.run,
            EX_ANTE,
            EX_ANTE_FILE,
            canonical_json(document),
            predicate_type=PREDICATES["decisions/ex-ante"],
            predicate=lambda head, number: predicate_of(document),
            signer=signer,
            trust=opened.trust,
            ledger=ledger,
            run_id=plan.run_id,
            attempt=attempt,
            segment_from=plan.ledger_head.size,
        )


def part_a(case_id: str, cases: Path = CASES) -> PartA:
    return read_part_a(cases / case_id / "part-a")


@cache
def shipped() -> Instructions:
    return Instructions.shipped()


def prompt_of(part: PartA) -> bytes:
    return build_prompt(shipped(), part.packet_bytes)


def baseline_record(part: PartA) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(analyse(prompt_of(part)))
    return value


def rubric() -> dict[str, Any]:
    value: dict[str, Any] = load_strict(shipped().rubric)
    return value


def codes(record: dict[str, Any] | bytes, part: PartA) -> set[str]:
    """The blocker codes of a record (or of raw response bytes)."""
    raw = record if isinstance(record, bytes) else json.dumps(record).encode()
    return {f.code.value for f in score_response(raw, part.packet, rubric()).blockers}


def replay_model(answers: dict[str, str], cases: Path = CASES) -> Model:
    """A replay that gives these texts, by case id."""
    from evalkit.models.replay import ReplayProvider

    data = replay_file(
        [Recorded(digest(prompt_of(part_a(c, cases))), text, "stub") for c, text in answers.items()]
    )
    return Model(ReplayProvider(data).configuration(), data)


def replay_world(root: Path, answers: dict[str, str]) -> World:
    """A plan for the first pair whose model replays these answers (baseline where none is given)."""
    texts = {c: json.dumps(baseline_record(part_a(c))) for c in CASE_IDS[:2]} | answers
    return make_world(root, model=replay_model(texts))


def evaluate_world(world: World, **options: Any) -> Any:
    return evaluate(world.run, write_run=True, places=world.places, **options)


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


def cli(*arguments: str | Path) -> Outcome:
    """Run the command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([str(a) for a in arguments])
        except SystemExit as stop:
            code = int(stop.code or 0)
    return Outcome(code, out.getvalue(), err.getvalue())


# --- a pair of another industry, made from nothing


def source(n: int, known: str = "2019-03-01") -> dict[str, Any]:
    return {
        "id": f"s{n}",
        "title": f"Harbour bulletin {n}",
        "publisher": "Port office",
        "kind": "bulletin",
        "published_at": "2019-03",
        "known_at": known,
        "address": f"https://harbour.example/{n}",
        "date_basis": "stated",
        "read_extent": "full",
    }


def fact(n: int, definition: str, value: str, **other: Any) -> dict[str, Any]:
    return {
        "id": f"f{n}",
        "kind": "reported_fact",
        "definition": definition,
        "value": value,
        "value_type": "number",
        "unit": "EUR million",
        "currency": "EUR",
        "period": {"start": "2018-01-01", "end": "2018-12-31", "label": "FY2018"},
        "entity": "the ferry line",
        "scope": "consolidated",
        "vintage": "as first reported",
        "known_at": "2019-03-01",
        "source_ids": ["s1"],
    } | other


def sheet(case_id: str = "case-ferry-a", *, pair_id: str = "pair-ferries") -> dict[str, Any]:
    """A fact sheet about ferries."""
    return {
        "schema": "warren-case-factsheet/0.1",
        "case_id": case_id,
        "pair_id": pair_id,
        "title": "A ferry line before its second summer",
        "company": "Skerry Ferries",
        "contamination_mode": "named_case_source_bounded",
        "decision": {
            "owner": "the harbour board",
            "decision_time": "2019-04-02",
            "knowledge_cutoff": "2019-04-01",
            "question": "Should the board order a second vessel before the summer timetable?",
            "alternatives": [
                {"id": "x1", "description": "Order the second vessel now", "feasible": True,
                 "reversible": "no"},
                {"id": "x2", "description": "Charter a vessel for one summer", "feasible": True,
                 "reversible": "yes (the charter ends)"},
                {"id": "x3", "description": "Close the northern route", "feasible": True,
                 "reversible": "partly (the licence lapses)"},
                {"id": "x4", "description": "Sell the line to the state", "feasible": False,
                 "reversible": "no"},
            ],
        },
        "sources": [source(1), source(2)],
        "facts": [
            fact(1, "Revenue", "12.5"),
            fact(2, "Operating income", "-1.20", source_ids=["s1", "s2"]),
            fact(3, "Net income", "-2.0"),
            fact(4, "Operating income before repairs", "0.3"),
            fact(5, "Expected passengers", "40 to 50", kind="company_claim", value_type="range",
                 value_low="40", value_high="50", unit="thousand", currency=None, forward_looking=True,
                 period={"start": "2019-05-01", "end": "2019-09-30", "label": "summer 2019"}),
            fact(6, "Fuel price next year", "1.1", kind="third_party_estimate", forward_looking=True,
                 period={"start": "2020-01-01", "end": "2020-12-31", "label": "FY2020"}),
        ],
        "conflicts": [
            {"id": "c1", "description": "Two counts of passengers differ by a tenth.", "fact_ids": ["f5"],
             "status": "open", "source_ids": ["s1"]}
        ],
        "assumptions": [
            {"id": "as1", "statement": "Fuel stays near its present price.", "basis_fact_ids": ["f6"],
             "tested_by": "monthly invoices"}
        ],
        "judgments": [
            {"id": "j1", "holder": "the harbour master", "view": "Saw the northern route as lost.",
             "date": "2019-03-20", "source_ids": ["s2"]}
        ],
        "unknowns": [{"id": "u1", "statement": "Whether the bank extends the loan on the first vessel."}],
        "missing_evidence": [
            {"id": "m1", "description": "Repair survey of the first vessel.", "value": "high"}
        ],
        "scenarios": [
            {"id": "y1", "description": "Rebound: both routes run and the line earns a profit.",
             "horizon": "2020-12-31"},
            {"id": "y2", "description": "Stalemate: both routes run and the line makes a loss.",
             "horizon": "2020-12-31"},
            {"id": "y3", "description": "Bankruptcy: the line is insolvent and service ended.",
             "horizon": "2020-12-31"},
        ],
        "liquidity": [
            {"id": "l1", "item": "Cash", "fact_ids": ["f1"], "as_of": "2018-12-31",
             "restriction": "Half of it is pledged to the bank.", "accessibility": "The rest is on call."}
        ],
        "part_b": {
            "sources": [source(9, "2021")],
            "outcomes": [{"id": "o1", "statement": "The charter carried the summer.", "date": "2019-10",
                          "source_ids": ["s9"]}],
            "realized_scenario_id": "y1",
            "observable_signals": [{"id": "g1", "statement": "Repairs ate the margin.",
                                    "part_a_fact_ids": ["f2"]}],
            "process_note": "A charter was a cheap way to wait.",
        },
    }  # fmt: skip


def other_sheet() -> dict[str, Any]:
    """The partner of `sheet`: the same industry, another company, another outcome."""
    value = sheet("case-ferry-b")
    value["company"] = "Holm Line"
    value["title"] = "Another ferry line"
    value["decision"]["question"] = "Should the board lay up the old vessel?"
    value["part_b"]["realized_scenario_id"] = "y3"
    return value


def pairs_file() -> dict[str, Any]:
    return {
        "pairs": [
            {
                "pair_id": "pair-ferries",
                "favorable_case_id": "case-ferry-a",
                "unfavorable_case_id": "case-ferry-b",
                "pairing_basis": "Two lines on one coast.",
                "archetype": "capacity before demand",
            }
        ]
    }


def write_sheets(
    folder: Path, sheets: list[dict[str, Any] | bytes] | None = None, pairs: dict[str, Any] | None = None
) -> tuple[list[Path], Path]:
    """Write fact sheets and their pairs file; (sheets, pairs)."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for n, value in enumerate(sheets if sheets is not None else [sheet(), other_sheet()]):
        path = folder / f"sheet-{n}.json"
        path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
        paths.append(path)
    pair_path = folder / "pairs.json"
    pair_path.write_text(json.dumps(pairs if pairs is not None else pairs_file()))
    return paths, pair_path


def strings(value: Any) -> Iterator[str]:
    """Every string in a JSON value."""
    if isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)
    elif isinstance(value, str):
        yield value
