"""Sealing beside what it is built on: ratios of figures that were taken in turn, in one run.

    python benchmarks/sealing.py [canonical] [chain] [commit] [envelope] [--records N] [--folder DIR]

canonical   `canonical_json` and sha256, beside the reference writer (rfc8785, from the development
            dependencies) and sha256, on documents of several kinds; CPU time.
chain       strict verification of a hash chain of lines of 256 bytes, beside one sha256 for each line, the
            least that any verification has to do; CPU time.
commit      `commit_phase` of a document of 20 KB, beside one append of 256 bytes with fsync in the same
            folder; wall time, since most of it is waiting for the disk.  With a key held in this process
            and with the signing process that users have.
envelope    `verify` of an envelope of 1 KB, beside one bare Ed25519 verification; CPU time.

The order of what is compared is turned round at each repetition; printed are medians and, for the ratio,
the smallest and largest of the repetitions.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

SEED = int.from_bytes(hashlib.sha256(b"evalkit benchmarks sealing").digest()[:8])


def compare(
    ours: Callable[[], Any],
    theirs: Callable[[], Any],
    *,
    clock: Callable[[], float],
    repeats: int,
    inner: int = 1,
) -> tuple[float, float, list[float]]:
    """(median of ours, median of theirs, theirs ÷ ours of each repetition), in seconds a call."""
    figures: dict[Callable[[], Any], list[float]] = {ours: [], theirs: []}
    for repeat in range(repeats):
        for call in (ours, theirs) if repeat % 2 else (theirs, ours):
            start = clock()
            for _ in range(inner):
                call()
            figures[call].append((clock() - start) / inner)
    ratios = [b / a for a, b in zip(figures[ours], figures[theirs], strict=True)]
    return statistics.median(figures[ours]), statistics.median(figures[theirs]), ratios


def row(name: str, ours: str, theirs: str, ratios: list[float], goal: str) -> None:
    middle = statistics.median(ratios)
    print(f"{name:<40}{ours:>14}{theirs:>14}{middle:>9.2f}  [{min(ratios):.2f}, {max(ratios):.2f}]  {goal}")


def documents(rng: random.Random) -> Iterator[tuple[str, Any]]:
    """Documents of about 100 KB, of the kinds that runs are made of, and two hard ones."""
    yield (
        "decision records: texts, ids, numbers",
        [
            {
                "id": f"fact-{n}",
                "text": "the company said that its revenue would " + "grow again " * rng.randrange(1, 5),
                "value": rng.uniform(0, 1e6),
                "count": rng.randrange(1000),
                "cites": [f"source-{rng.randrange(90)}" for _ in range(3)],
                "known": None,
                "material": rng.random() < 0.5,
            }
            for n in range(450)
        ],
    )
    yield (
        "forecasts: rows of floats and outcomes",
        [{"question": f"q{n}", "p": rng.random(), "y": float(rng.randrange(2))} for n in range(1900)],
    )
    yield "numbers only", [[rng.random(), rng.randrange(1000), rng.uniform(-1e3, 1e3)] for _ in range(2200)]
    yield "long English text", ["word " * 60 for _ in range(330)]
    yield "long Chinese text with emoji", ["模型說：「收入將會增長」，😀。" * 8 for _ in range(250)]
    yield "small random values, escapes", [_random(rng) for _ in range(1500)]


def _random(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.randrange(9 if depth < 5 else 6)
    if kind == 0:
        return rng.choice([None, True, False])
    if kind == 1:
        return rng.randint(1 - 2**53, 2**53 - 1)
    if kind == 2:
        return rng.choice(
            [rng.random(), rng.uniform(-1e6, 1e6), float(rng.randrange(1000)), rng.random() * 1e-7]
        )
    if kind < 6:
        return "".join(rng.choice('abcdefgh "\\é\n') for _ in range(rng.randrange(12)))
    if kind == 6:
        return [_random(rng, depth + 1) for _ in range(rng.randrange(5))]
    return {
        f"{rng.choice('abcxyz')}{rng.randrange(300)}": _random(rng, depth + 1)
        for _ in range(rng.randrange(5))
    }


def canonical() -> None:
    import rfc8785

    from evalkit.sealing import canonical_json

    def against(name: str, value: Any, repeats: int, inner: int, goal: str) -> float:
        size = len(rfc8785.dumps(value))
        assert canonical_json(value) == rfc8785.dumps(value)
        ours, theirs, ratios = compare(
            lambda: hashlib.sha256(canonical_json(value)).digest(),
            lambda: hashlib.sha256(rfc8785.dumps(value)).digest(),
            clock=time.process_time,
            repeats=repeats,
            inner=inner,
        )
        rate = [f"{size / seconds / 1e6:.1f} MB/s" for seconds in (ours, theirs)]
        row(f"{name}, {size / 1000:.0f} KB", *rate, ratios, goal)
        return statistics.median(ratios)

    rng = random.Random(SEED)
    found = [against(name, value, 15, 10, "goal ≥ 10") for name, value in documents(rng)]
    print(f"{'geometric mean of the above':<40}{'':>28}{statistics.geometric_mean(found):>9.2f}")
    rng = random.Random(SEED)
    record = next(documents(rng))[1]
    against("the first, 1 KB of it", record[:4], 15, 500, "")
    against("the first, 100 times over", [record] * 100, 3, 1, "")


def chain(records: int) -> None:
    from evalkit.sealing import canonical_json, digest
    from evalkit.sealing.hash_chain import GENESIS, Chain

    lines, prev = [], GENESIS
    rng = random.Random(SEED)
    for seq in range(records):
        record = {
            "attempt": 1,
            "document": f"{rng.getrandbits(48):012x}",
            "event": "intent",
            "phase": "day",
            "prev": prev,
            "run_id": f"{rng.getrandbits(32):08x}",
            "seq": seq,
            "time": datetime.fromtimestamp(1.8e9 + seq, UTC).strftime("%Y-%m-%dT%H:%M:%S.000000Z"),
        }
        line = canonical_json(record)
        line = line[:-1] + b',"x":"' + b"-" * (256 - len(line) - 7) + b'"}'
        prev = digest(line)
        lines.append(line)
    assert {len(line) for line in lines} == {256}

    def strict() -> None:
        found = Chain()
        for start in range(0, records, 1024):
            found.feed(lines[start : start + 1024])
        assert found.head.digest == prev

    def floor() -> None:
        for line in lines:
            hashlib.sha256(line).digest()

    ours, theirs, ratios = compare(strict, floor, clock=time.process_time, repeats=5)
    rate = [f"{records / seconds / 1000:.0f}k/s" for seconds in (ours, theirs)]
    row(f"{records:,} lines of 256 bytes", *rate, ratios, "goal ≥ 0.25")


class InProcess:
    """A key in this process: what remains of a commit beside the signing process."""

    def __init__(self) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        from evalkit.sealing import key_id

        self._key = Ed25519PrivateKey.generate()
        self.public_key = self._key.public_key().public_bytes_raw()
        self.key_id = key_id(self.public_key)

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)


def commit(folder: Path | None) -> None:
    from evalkit.sealing import HelperSigner, create_signing_key

    with tempfile.TemporaryDirectory(dir=folder) as name:
        root = Path(name)
        create_signing_key(root / "key")
        with HelperSigner(root / "key") as helper:
            for title, signer in (("key in this process", InProcess()), ("signing process", helper)):
                took, floor = commits(root / title.replace(" ", "-"), signer, 200)
                parts = [slice(0, 200), *(slice(start, start + 50) for start in range(0, 200, 50))]
                ratios = [statistics.median(took[part]) / statistics.median(floor[part]) for part in parts]
                both = [f"{statistics.median(seconds) * 1e3:.2f} ms" for seconds in (took, floor)]
                row(f"pair commit, {title}", *both, ratios, "goal ≤ 6 (ours ÷ one append + fsync)")


def commits(root: Path, signer: Any, count: int) -> tuple[list[float], list[float]]:
    """Seconds of pair commits, and of an append with fsync after each of them."""
    from evalkit.sealing import PREDICATES, Ledger, Trust, TrustedKey, canonical_json, commit_phase

    document = canonical_json({"rows": [{"id": f"r{n}", "text": "some text " * 5} for n in range(270)]})
    key = TrustedKey.of(signer.public_key, predicate_types=tuple(PREDICATES.values()))
    trust = Trust(root / "trust.json", "sha256:" + "0" * 64, (key,))
    ledger = Ledger(root / "state" / "ledger.jsonl")
    ledger.append("note")
    plain = os.open(root / "plain", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    took, floor = [], []
    for number in range(count):
        run = root / f"run-{number}"
        run.mkdir(mode=0o700)
        start = time.perf_counter()
        commit_phase(
            run,
            "ex-ante",
            "run.json",
            document,
            predicate_type=PREDICATES["decisions/ex-ante"],
            predicate=lambda head, attempt: {},
            signer=signer,
            trust=trust,
            ledger=ledger,
            run_id=run.name,
            attempt=1,
            segment_from=ledger.head.size,
        )
        took.append(time.perf_counter() - start)
        start = time.perf_counter()
        os.write(plain, b"x" * 255 + b"\n")
        os.fsync(plain)
        floor.append(time.perf_counter() - start)
    os.close(plain)
    return took, floor


def envelope() -> None:
    import base64

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from evalkit.sealing import (
        PREDICATES,
        Trust,
        TrustedKey,
        canonical_json,
        load_canonical,
        pae,
        sign,
        verify,
    )
    from evalkit.sealing.envelope import PAYLOAD_TYPE

    signer = InProcess()
    kind = PREDICATES["decisions/ex-ante"]
    key = TrustedKey.of(signer.public_key, predicate_types=(kind,))
    trust = Trust(Path("trust.json"), "sha256:" + "0" * 64, (key,))
    predicate = {"run_id": "r", "digests": {f"d{n}": "sha256:" + f"{n:064x}" for n in range(7)}}
    data = sign("run.json", canonical_json({"a": 1}), predicate_type=kind, predicate=predicate, signer=signer)

    record = load_canonical(data)
    message = pae(PAYLOAD_TYPE, base64.b64decode(record["payload"]))
    signature = base64.b64decode(record["signatures"][0]["sig"])
    ours, theirs, ratios = compare(
        lambda: verify(data, subject_name="run.json", predicate_type=kind, trust=trust, run_id="r"),
        lambda: Ed25519PublicKey.from_public_bytes(signer.public_key).verify(signature, message),
        clock=time.process_time,
        repeats=15,
        inner=200,
    )
    row(
        f"verify an envelope of {len(data)} bytes",
        f"{ours * 1e6:.0f} µs",
        f"{theirs * 1e6:.0f} µs",
        [1 / ratio for ratio in ratios],
        "goal ≤ 1.5 (ours ÷ bare signature)",
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="*", default=["canonical", "chain", "commit", "envelope"])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where the commits are made [the temporary folder]")
    options = parser.parse_args()
    print(f"Python {sys.version.split()[0]}, {platform.machine()}, {os.cpu_count()} cores")
    print(f"{'':<40}{'evalkit':>14}{'beside it':>14}{'ratio':>9}  [least, most]")
    for what in options.what:
        match what:
            case "canonical":
                canonical()
            case "chain":
                chain(options.records)
            case "commit":
                commit(options.folder)
            case "envelope":
                envelope()
            case _:
                parser.error(f"{what}: canonical, chain, commit or envelope")


if __name__ == "__main__":
    main()
