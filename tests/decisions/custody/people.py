"""A custodian and an evaluator with a home each, and the files that they exchange."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from decisions.support import CASES, PAIR, World
from evalkit.decisions import evaluate, precommit, release, reveal, seal_bundle, verify_run, write_request
from evalkit.decisions.custody.bundle import CUSTODY_PHASES
from evalkit.decisions.run_keys import SIGNED_PHASES
from evalkit.sealing import PREDICATES, TrustedKey, create_signing_key, create_unsealing_key, pin
from evalkit.sealing.keys import public_part


def make_keys(world: World) -> None:
    """A home with both keys; the signing key is pinned by nobody yet."""
    for folder in (world.config, world.state, world.run.parent):
        folder.mkdir(parents=True, mode=0o700)
    create_signing_key(world.places.signing_key)
    create_unsealing_key(world.places.unsealing_key)


def entry(world: World, phases: tuple[str, ...], **other: Any) -> TrustedKey:
    public, _ = public_part(world.places.signing_key)
    return TrustedKey.of(public, predicate_types=tuple(PREDICATES[p] for p in phases), **other)


@dataclass(frozen=True)
class Two:
    """Two people; what is exchanged lies beside their homes, as on a stick that is carried over."""

    root: Path

    @property
    def custodian(self) -> World:
        return World(self.root / "custodian")

    @property
    def evaluator(self) -> World:
        return World(self.root / "evaluator")

    @property
    def bundle(self) -> Path:
        return self.root / "bundle"

    @property
    def run(self) -> Path:
        return self.evaluator.run

    @property
    def request(self) -> Path:
        return self.root / "request"

    @property
    def opening(self) -> Path:
        return self.root / "opening"

    @property
    def custodian_id(self) -> str:
        return entry(self.custodian, ()).key_id

    @property
    def evaluator_id(self) -> str:
        return entry(self.evaluator, ()).key_id

    def events(self, name: str) -> list[dict[str, Any]]:
        """What the custodian's ledger tells of."""
        from evalkit.sealing import Ledger

        ledger = Ledger(self.custodian.places.ledger(self.custodian_id))
        return [e.record for e in ledger.entries() if e.record["event"] == name]

    def copy(self, root: Path) -> Two:
        shutil.copytree(self.root, root, symlinks=True)
        return Two(root)

    def seal(self, out: Path | None = None, **options: Any) -> Any:
        options = {"pair": PAIR, "cases": CASES} | options
        return seal_bundle(
            options.pop("cases"), out=out or self.bundle, places=self.custodian.places, **options
        )

    def plan(self, bundle: Path | None = None, **options: Any) -> Any:
        options = {"out": self.run, "places": self.evaluator.places} | options
        return precommit(bundle or self.bundle, **options)

    def evaluate(self, run: Path | None = None) -> Any:
        return evaluate(run or self.run, write_run=True, places=self.evaluator.places)

    def ask(self, out: Path | None = None, run: Path | None = None) -> Any:
        return write_request(run or self.run, out=out or self.request, places=self.evaluator.places)

    def answer(self, request: Path | None = None, out: Path | None = None, **options: Any) -> Any:
        options = {"places": self.custodian.places} | options
        return release(request or self.request, out=out or self.opening, **options)

    def reveal(self, opening: Path | None = None, run: Path | None = None, **options: Any) -> Any:
        options = {"write_calibration": True, "opening": opening or self.opening} | options
        return reveal(run or self.run, places=self.evaluator.places, **options)

    def verify(self, run: Path | None = None) -> Any:
        return verify_run(run or self.run, places=self.evaluator.places)


def make_two(root: Path) -> Two:
    """Two people who pinned each other's keys, each for what the other may sign."""
    two = Two(root)
    make_keys(two.custodian)
    make_keys(two.evaluator)
    for world in (two.custodian, two.evaluator):
        pin(world.places.trust, entry(two.custodian, CUSTODY_PHASES))
        pin(world.places.trust, entry(two.evaluator, SIGNED_PHASES))
    return two


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)
