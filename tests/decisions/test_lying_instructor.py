"""W1, W4, W37: what an instructor sealed must be of the plan's pair, or nothing is revealed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalkit.decisions import import_cases, preparation, reveal, verify_run
from evalkit.decisions.openings import interpret, sealed_packets
from evalkit.decisions.plan import Precommit
from evalkit.errors import Binding, BindingError
from evalkit.sealing import Opening, canonical_json, digest, load_unsealing_key

from .forging import commit_any_reveal, quick_everywhere
from .support import (
    FROZEN_AT,
    PAIRS,
    World,
    evaluate_world,
    make_world,
    other_sheet,
    sheet,
    write_sheets,
)

pytestmark = pytest.mark.usefixtures("quick_signer")


@dataclasses.dataclass
class Sealed:
    """What is about to be sealed, as values; the cases are in the plan's order."""

    catalog: dict[str, Any]
    mapping: dict[str, Any]
    part_b: list[dict[str, Any]]

    def entry(self, n: int) -> dict[str, Any]:
        """The catalog's entry of the plan's n-th case."""
        case_id = self.part_b[n]["outcome"]["case_id"]
        found: dict[str, Any] = next(c for c in self.catalog["cases"] if c["case_id"] == case_id)
        return found

    def realized(self, n: int) -> dict[str, Any]:
        found: dict[str, Any] = self.mapping["cases"][self.part_b[n]["outcome"]["case_id"]]
        return found


Lie = Callable[[Sealed], Any]


def lying_world(root: Path, lie: Lie, monkeypatch: pytest.MonkeyPatch) -> World:
    """An evaluated run whose sealed packets hold what ``lie`` made of them."""
    real = preparation._seal

    def sealing(cases: list[Any], catalog: bytes, mapping: bytes, *rest: Any) -> Any:
        told = Sealed(json.loads(catalog), json.loads(mapping), [json.loads(c.part_b_payload) for c in cases])
        lie(told)
        cases = [
            dataclasses.replace(c, part_b_payload=canonical_json(b))
            for c, b in zip(cases, told.part_b, strict=True)
        ]
        return real(cases, canonical_json(told.catalog), canonical_json(told.mapping), *rest)

    quick_everywhere(monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(preparation, "_seal", sealing)
        world = make_world(root)
    evaluate_world(world)
    return world


def rebound(s: Sealed, n: int) -> None:
    """Mapping and catalog bind what Part B of the n-th case has become."""
    bound = digest(canonical_json(s.part_b[n]["outcome"]))
    s.realized(n)["part_b_digest"] = s.entry(n)["part_b_digest"] = bound


def other_pair_id(s: Sealed) -> None:
    s.catalog["pair"]["pair_id"] = PAIRS[1]
    for case in s.catalog["cases"]:
        case["pair_id"] = PAIRS[1]


def one_role(s: Sealed) -> None:
    for case in s.catalog["cases"]:
        case["role"] = "favorable"


def roles_against_the_pair(s: Sealed) -> None:
    one, two = s.catalog["cases"]
    one["role"], two["role"] = two["role"], one["role"]


def third_entry(s: Sealed) -> None:
    s.catalog["cases"].append(dict(s.catalog["cases"][1]))


def catalog_of_other_cases(s: Sealed) -> None:
    """Two cases that fit each other and the pair's name, and are not the plan's."""
    for case in s.catalog["cases"]:
        case["case_id"] += "-x"
        s.catalog["pair"][f"{case['role']}_case_id"] += "-x"


def other_cases(s: Sealed) -> None:
    s.mapping["cases"] = {f"{case_id}-x": value for case_id, value in s.mapping["cases"].items()}


def swapped_part_b(s: Sealed) -> None:
    s.part_b.reverse()


def part_b_of_another_packet(s: Sealed) -> None:
    s.part_b[1]["outcome"]["packet_digest"] = digest(b"x")
    rebound(s, 1)


def other_outcome(s: Sealed) -> None:
    """A kinder Part B than the one that mapping and catalog bind."""
    s.part_b[0]["outcome"]["process_quality"] = "excellent"


def renamed_part_b(s: Sealed) -> None:
    """Part B of the other case, bound as if it were this one's."""
    first, second = (b["outcome"]["case_id"] for b in s.part_b)
    s.part_b[0]["outcome"]["case_id"] = second
    bound = digest(canonical_json(s.part_b[0]["outcome"]))
    s.mapping["cases"][first]["part_b_digest"] = bound
    next(c for c in s.catalog["cases"] if c["case_id"] == first)["part_b_digest"] = bound


PAIR_LIE, PACKET_LIE, PART_B_LIE = (
    "the catalog's pair is not the plan's",
    "do not bind the plan's packet",
    "not the one that mapping and catalog bind",
)
LIES: dict[str, tuple[str, Lie]] = {
    "a catalog of another pair": (PAIR_LIE, other_pair_id),
    "a pair with another name than its cases": (
        PAIR_LIE, lambda s: s.catalog["cases"][0].update(pair_id=PAIRS[1])
    ),
    "another pairing basis": (PAIR_LIE, lambda s: s.catalog["pair"].update(pairing_basis="Chance.")),
    "two favorable cases": (PAIR_LIE, one_role),
    "roles against the pair": (PAIR_LIE, roles_against_the_pair),
    "a catalog of other cases": (PAIR_LIE, catalog_of_other_cases),
    "a case twice": (PAIR_LIE, third_entry),
    "one case only": (PAIR_LIE, lambda s: s.catalog["cases"].pop()),
    "a mapping of other cases": ("the mapping is of other cases", other_cases),
    "a mapping of one case": (
        "the mapping is of other cases", lambda s: s.mapping["cases"].pop(sorted(s.mapping["cases"])[0])
    ),
    "a mapping of a third case": (
        "the mapping is of other cases", lambda s: s.mapping["cases"].update({"case-x": s.realized(0)})
    ),
    "Part Bs exchanged": ("Part B is of another case", swapped_part_b),
    "Part B of the other case": ("Part B is of another case", renamed_part_b),
    "a mapping of another packet": (PACKET_LIE, lambda s: s.realized(0).update(packet_digest=digest(b"x"))),
    "a catalog of another packet": (PACKET_LIE, lambda s: s.entry(1).update(packet_digest=digest(b"x"))),
    "a Part B of another packet": (PACKET_LIE, part_b_of_another_packet),
    "another Part B": (PART_B_LIE, other_outcome),
    "a mapping of another Part B": (PART_B_LIE, lambda s: s.realized(1).update(part_b_digest=digest(b"x"))),
    "a catalog of another Part B": (PART_B_LIE, lambda s: s.entry(0).update(part_b_digest=digest(b"x"))),
    "another teaching note": (
        "teaching note is not the one", lambda s: s.part_b[1].update(teaching_note="# All went well")
    ),
    "an unknown scenario": (
        "has no probability", lambda s: s.realized(0).update(realized_scenario_id="scenario-0000000000")
    ),
} | {
    f"another {name}": (
        f"the catalog lists another {name}",
        lambda s, name=name: s.entry(1).update({f"{name}_digest": digest(b"x")}),
    )
    for name in ("episode", "freeze", "qc", "report")
}  # fmt: skip


@pytest.fixture(scope="module")
def opened(planned_once: World) -> tuple[Precommit, dict[str, Opening]]:
    """A plan and what its packets hold."""
    plan = Precommit.from_json((planned_once.run / "plan.json").read_bytes())
    private = load_unsealing_key(planned_once.places.ephemeral(plan.run_id) / "unsealing.pem")
    packets = sealed_packets(planned_once.run, plan)
    return plan, {kind: packet.reveal(private) for kind, packet in packets.items()}


@pytest.mark.parametrize("name", [n for n in LIES if n != "an unknown scenario"])
def test_w37_every_lie_is_named(opened: tuple[Precommit, dict[str, Opening]], name: str) -> None:
    match, lie = LIES[name]
    plan, honest = opened
    interpret(plan, honest)
    value = {kind: json.loads(o.payload) for kind, o in honest.items()}
    told = Sealed(value["catalog"], value["mapping"], [value["part-b-0"], value["part-b-1"]])
    lie(told)
    value = {"catalog": told.catalog, "mapping": told.mapping}
    value |= {f"part-b-{n}": b for n, b in enumerate(told.part_b)}
    lies = {kind: Opening(canonical_json(v), honest[kind].salt) for kind, v in value.items()}
    with pytest.raises(BindingError, match=match) as caught:
        interpret(plan, lies)
    assert caught.value.binding is Binding.SEALED_PACKET


#: one of each kind, sealed, signed and evaluated
WHOLE = (
    "a catalog of another pair",
    "two favorable cases",
    "a mapping of other cases",
    "Part Bs exchanged",
    "a mapping of another packet",
    "another Part B",
    "another teaching note",
    "another episode",
    "an unknown scenario",
)


@pytest.mark.parametrize("name", WHOLE)
def test_w37_a_lie_that_was_sealed_is_not_revealed(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    match, lie = LIES[name]
    world = lying_world(tmp_path / "w", lie, monkeypatch)
    before = world.listing()
    with pytest.raises(BindingError, match=match) as caught:
        reveal(world.run, write_calibration=True, places=world.places)
    assert caught.value.binding is Binding.SEALED_PACKET
    assert not (world.run / "reveal").exists()
    assert {k: v for k, v in world.listing().items() if k != "journal.jsonl"} == {
        k: v for k, v in before.items() if k != "journal.jsonl"
    }


def test_w37_what_was_sealed_honestly_is_revealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = lying_world(tmp_path / "w", lambda s: None, monkeypatch)
    reveal(world.run, write_calibration=True, places=world.places)
    verify_run(world.run, places=world.places)


def test_w38_verify_reads_published_packets_with_the_same_doubt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An owner whose reveal does not look signs the lie; a third party looks."""
    from evalkit.decisions import openings

    world = lying_world(
        tmp_path / "w", lambda s: s.realized(0).update(part_b_digest=digest(b"x")), monkeypatch
    )
    with monkeypatch.context() as patch:
        patch.setattr(openings, "require_sealed", lambda holds, what, where: None)
        commit_any_reveal(world)
    with pytest.raises(BindingError, match=PART_B_LIE) as caught:
        verify_run(world.run, places=world.places)
    assert caught.value.binding is Binding.SEALED_PACKET


# --- what the sealed files and the plan's digests tell by themselves


@pytest.mark.parametrize("longer", [0, 1])
def test_w3_the_size_of_a_sealed_part_b_tells_nothing(
    tmp_path: Path, longer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick_everywhere(monkeypatch)
    values = [sheet(), other_sheet()]
    values[longer]["part_b"]["process_note"] = "The board waited. " * 5000
    sheets, pairs = write_sheets(tmp_path / "sheets", values)
    import_cases(sheets, pairs, tmp_path / "cases", frozen_at=FROZEN_AT)
    world = make_world(tmp_path / "w", cases=tmp_path / "cases", pair="pair-ferries")
    buckets = [case["part_b"]["bucket"] for case in world.plan["cases"]]
    sizes = [(world.run / "sealed" / f"part-b-{n}.sealed").stat().st_size for n in (0, 1)]
    assert buckets[0] == buckets[1] > 65536
    assert sizes[0] == sizes[1]


def episodes(root: Path, change: Callable[[dict[str, Any]], Any]) -> dict[str, bytes]:
    value = sheet()
    change(value)
    sheets, pairs = write_sheets(root / "sheets", [value, other_sheet()])
    import_cases(sheets, pairs, root / "cases", frozen_at=FROZEN_AT)
    return {c: (root / "cases" / c / "episode.json").read_bytes() for c in ("case-ferry-a", "case-ferry-b")}


OUTCOMES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "another scenario": lambda v: v["part_b"].update(realized_scenario_id="y3"),
    "another outcome": lambda v: v["part_b"]["outcomes"][0].update(statement="The line was sold."),
    "no signal": lambda v: v["part_b"].update(observable_signals=[]),
    "another note": lambda v: v["part_b"].update(process_note="It was luck."),
    "another source": lambda v: v["part_b"]["sources"][0].update(title="Another bulletin"),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_w4_no_digest_of_the_plan_depends_on_the_outcome(tmp_path: Path, name: str) -> None:
    """A9: the plan shows the episode's digest; an outcome of three possibilities could be found from it."""
    assert episodes(tmp_path / "a", lambda v: None) == episodes(tmp_path / "b", OUTCOMES[name])


def test_w4_the_episode_depends_on_the_evidence(tmp_path: Path) -> None:
    first = episodes(tmp_path / "a", lambda v: None)
    second = episodes(tmp_path / "b", lambda v: v["facts"][0].update(value="12.6"))
    assert first["case-ferry-a"] != second["case-ferry-a"]
    assert first["case-ferry-b"] == second["case-ferry-b"]
