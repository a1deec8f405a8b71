"""Sign, then mutate: no change of anything that is attested passes verification.

The idea is model-transparency's.  Verification runs in this process, on one run folder in which only
the changed file is put back.  What the scorer gives to equal inputs is remembered (it is a pure
function: test_process_score.py), since most of a verification is scoring again.

Attested is everything in a run but
- ``report.html`` and ``report.pdf``, which are derived, never read back, and called unproven;
- the journal's lines behind the newest signed head: they chain, and prove nothing.  The owner's ledger
  decides about them, and verification makes no claim from them that it would not make without.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from hypothesis import strategies as st

from evalkit.decisions import reveal, run_document, verify_run
from evalkit.decisions.calibration import _check_journal
from evalkit.decisions.chain import load_trust, open_evidence, open_ex_ante, open_plan
from evalkit.decisions.openings import sealed_packets
from evalkit.decisions.releasable import refuse_blocked
from evalkit.decisions.settling import settle
from evalkit.errors import BindingError
from evalkit.sealing import canonical_json, digest

from .mutations import MUTATIONS
from .support import World

pytestmark = pytest.mark.usefixtures("quick_signer")

PLANNED = (
    "instructions/prompt.md",
    "instructions/response.schema.json",
    "instructions/rubric.json",
    "journal.jsonl",
    *(
        f"part-a/{case}/{name}"
        for case in ("case-bbi-2007-07", "case-nflx-2007-07")
        for name in ("freeze.json", "packet.json", "qc.json", "report.md")
    ),
    "plan.dsse.json",
    "plan.json",
    *(f"sealed/{kind}.sealed" for kind in ("catalog", "mapping", "part-b-0", "part-b-1")),
)
EX_ANTE = ("ex-ante/run.dsse.json", "ex-ante/run.json")
REVEAL = ("reveal/calibration.dsse.json", "reveal/calibration.json")
FILES = {"evaluated": (*EX_ANTE, *PLANNED), "revealed": (*EX_ANTE, *PLANNED, *REVEAL)}
EVERY = [(state, name) for state, names in FILES.items() for name in names]

REGIONS = 9  # parts of a file, each of which is aimed at by itself
EACH = 28  # mutations of a part
BUDGET = 10_000


def test_the_files_are_those_that_are_mutated(evaluated_once: World, revealed_once: World) -> None:
    for world, state in ((evaluated_once, "evaluated"), (revealed_once, "revealed")):
        found = {str(p.relative_to(world.run)) for p in world.run.rglob("*") if p.is_file()}
        assert found == set(FILES[state])
    assert len(EVERY) * REGIONS * EACH >= BUDGET


@pytest.fixture
def run(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> World:
    """The run in the state that the test names, the scorer with a memory."""
    world: World = request.getfixturevalue(request.param)
    scored: list[tuple[tuple[object, ...], object]] = []
    real = run_document.score_response

    def remembering(*inputs: object) -> object:
        for known, result in scored:
            if known == inputs:
                return result
        scored.append((inputs, real(*inputs)))
        return scored[-1][1]

    monkeypatch.setattr(run_document, "score_response", remembering)
    assert accepts(world)
    assert len(scored) == 2
    return world


def accepts(world: World) -> bool:
    """Anything but a `BindingError` and a report is a crash, and fails the test."""
    try:
        verify_run(world.run, places=world.places)
    except BindingError:
        return False
    return True


@contextmanager
def rewritten(path: Path, data: bytes) -> Iterator[None]:
    """Other bytes in the same file (inode, mode and name stay), and the old ones again after."""

    def write(content: bytes) -> None:
        os.pwrite(fd, content, 0)
        os.ftruncate(fd, len(content))

    fd = os.open(path, os.O_RDWR)
    try:
        before = os.pread(fd, os.fstat(fd).st_size, 0)
        write(data)
        try:
            yield
        finally:
            write(before)
    finally:
        os.close(fd)


def signed_part(world: World, name: str) -> int:
    """How many bytes of a file are attested: all, but of the journal those up to the signed head."""
    data = (world.run / name).read_bytes()
    if name != "journal.jsonl":
        return len(data)
    plan = open_plan(world.run, load_trust(world.run, None, world.places)).plan
    size = newest_head(world) - plan.ledger_head.size
    return len(b"".join(data.splitlines(keepends=True)[:size]))


def newest_head(world: World) -> int:
    """The size of the ledger that the newest attestation in the run vouches for."""
    import base64
    import json

    name = REVEAL[0] if (world.run / REVEAL[0]).exists() else EX_ANTE[0]
    payload = base64.b64decode(json.loads((world.run / name).read_bytes())["payload"])
    return int(json.loads(payload)["predicate"]["ledger"]["size"])


RAN: Counter[tuple[str, str]] = Counter()


def mutate(world: World, name: str, state: str) -> Counter[str]:
    """Refuse mutations of every part of a file; how often each kind was tried."""
    path = world.run / name
    signed = signed_part(world, name)
    whole = path.read_bytes()
    data, tail = whole[:signed], whole[signed:]
    kinds: Counter[str] = Counter()

    def part(region: int) -> Counter[str]:
        lo, hi = len(data) * region // REGIONS, len(data) * (region + 1) // REGIONS
        tried: Counter[str] = Counter()

        @seed(digest(canonical_json([state, name, region])))
        @settings(
            max_examples=EACH,
            deadline=None,
            database=None,
            phases=[Phase.generate],  # a mutation that passes is small as it is
            suppress_health_check=list(HealthCheck),
        )
        @given(st.data())
        def one(drawing: st.DataObject) -> None:
            mutation = drawing.draw(st.sampled_from(MUTATIONS))
            changed = mutation(data, lo, hi, drawing.draw)
            assume(changed != data)
            with rewritten(path, changed + tail):
                refused = not accepts(world)
            assert refused, f"{name}: {mutation.__name__} between byte {lo} and {hi} passes"
            tried[mutation.__name__] += 1

        one()
        return tried

    for region in range(REGIONS):
        tried = part(region)
        assert tried.total() >= EACH, f"part {region} of {name}: {tried.total()} mutations"
        kinds += tried
    assert path.read_bytes() == whole
    assert accepts(world)
    RAN[state, name] = kinds.total()
    return kinds


@pytest.mark.slow
@pytest.mark.parametrize(("run", "name"), EVERY, indirect=["run"])
def test_no_mutation_of_any_file_is_accepted(run: World, name: str) -> None:
    state = "revealed" if (run.run / "reveal").exists() else "evaluated"
    kinds = mutate(run, name, state)
    print(name, dict(kinds))
    # A cipher has neither numbers nor layout, a text has no other spelling.
    assert len(kinds) >= {".sealed": 7, ".md": 8}.get(Path(name).suffix, 10), kinds


@pytest.mark.slow
def test_the_budget_really_ran() -> None:
    """The tests above, taken together."""
    if set(RAN) != set(EVERY):
        pytest.skip("not all of the tests above ran")
    print(f"{RAN.total()} mutations, at least {min(RAN.values())} of each file")
    assert RAN.total() >= BUDGET
    assert min(RAN.values()) >= REGIONS * EACH


# --- the tree ------------------------------------------------------------------------------------


def _symlink(path: Path, aside: Path) -> None:
    path.rename(aside)
    path.symlink_to(aside)


def _dangling_symlink(path: Path, aside: Path) -> None:
    path.rename(aside)
    path.symlink_to(aside.with_name("nowhere"))


def _second_name(path: Path, aside: Path) -> None:
    path.rename(aside)
    os.link(aside, path)


def _second_name_inside(path: Path, aside: Path) -> None:
    path.rename(aside)
    shutil.copy(aside, path)
    os.link(path, path.with_name("twin"))


def _fifo(path: Path, aside: Path) -> None:
    path.rename(aside)
    os.mkfifo(path, 0o600)


def _folder(path: Path, aside: Path) -> None:
    path.rename(aside)
    path.mkdir(mode=0o700)


def _gone(path: Path, aside: Path) -> None:
    path.rename(aside)


def _empty(path: Path, aside: Path) -> None:
    path.rename(aside)
    path.touch(mode=0o600)


def _other_name(path: Path, aside: Path) -> None:
    path.rename(aside)
    shutil.copy(aside, path.with_name(path.name + "~"))


def _other_case(path: Path, aside: Path) -> None:
    path.rename(aside)
    shutil.copy(aside, path.with_name(path.name.upper()))


def _in_another_folder(path: Path, aside: Path) -> None:
    path.rename(aside)
    other = path.parent / ".." / "instructions" if path.parent.name == "sealed" else path.parent / "sealed"
    other.mkdir(exist_ok=True)
    shutil.copy(aside, other / path.name)


REPLACED = (
    _symlink,
    _dangling_symlink,
    _second_name,
    _second_name_inside,
    _fifo,
    _folder,
    _gone,
    _empty,
    _other_name,
    _other_case,
    _in_another_folder,
)


@contextmanager
def spoilt(world: World, change: Callable[[Path], None]) -> Iterator[None]:
    """The run after ``change``, and then a copy of it as it was."""
    kept = world.root / "kept"
    shutil.copytree(world.run, kept, symlinks=True)
    try:
        change(world.run)
        yield
    finally:
        shutil.rmtree(world.run)
        kept.rename(world.run)


@pytest.mark.slow
@pytest.mark.parametrize("run", FILES, indirect=True)
def test_no_file_can_be_replaced_by_another_kind_or_name(run: World) -> None:
    state = "revealed" if (run.run / "reveal").exists() else "evaluated"
    aside = run.root / "aside"
    for name, replace in itertools.product(FILES[state], REPLACED):
        with spoilt(run, lambda folder, name=name, replace=replace: replace(folder / name, aside)):
            assert not accepts(run), (name, replace.__name__)
        aside.unlink()
    assert accepts(run)


@pytest.mark.slow
@pytest.mark.parametrize("run", FILES, indirect=True)
def test_no_two_files_can_change_places(run: World) -> None:
    state = "revealed" if (run.run / "reveal").exists() else "evaluated"
    pairs = list(itertools.combinations(FILES[state], 2))
    for one, two in pairs:
        a, b = run.run / one, run.run / two
        first, second = a.read_bytes(), b.read_bytes()
        assert first != second
        with rewritten(a, second), rewritten(b, first):
            assert not accepts(run), (one, two)
    assert accepts(run)


FOLDERS = ("", "part-a", "part-a/case-bbi-2007-07", "instructions", "sealed", "ex-ante", "reveal")


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS)
def test_no_folder_takes_anything_more_or_changes(revealed: World, folder: str) -> None:
    changes: dict[str, Callable[[Path], None]] = {
        f"empty file {name}": lambda run, name=name: (run / folder / name).touch()
        for name in ("x", ".hidden", "plan.json~", "run.json.bak", "PLAN.JSON", "\u00e9.json", " ")
    }
    changes["empty folder"] = lambda run: (run / folder / "more").mkdir()
    changes["empty folder of a replay"] = lambda run: (run / folder / "model").mkdir()
    changes["left stage"] = lambda run: (run / folder / ".stage.ex-ante.00").mkdir()
    if folder:
        aside = revealed.root / "aside"
        changes["a report where none belongs"] = lambda run: (run / folder / "report.html").touch()
        changes["renamed"] = lambda run: (run / folder).rename(run / (folder + "2"))
        changes["other case"] = lambda run: (run / folder).rename(
            (run / folder).with_name((run / folder).name.upper())
        )
        changes["gone"] = lambda run: shutil.rmtree(run / folder)
        changes["a symbolic link"] = lambda run: _symlink(run / folder, aside)
        changes["a file"] = lambda run: _empty(run / folder, aside)
    for name, change in changes.items():
        with spoilt(revealed, change):
            assert not accepts(revealed), (folder, name)
        if (revealed.root / "aside").exists():
            shutil.rmtree(revealed.root / "aside")
    assert accepts(revealed)


# --- what is not attested ------------------------------------------------------------------------


@pytest.mark.parametrize("run", FILES, indirect=True)
def test_a_report_is_derived_and_called_so(run: World) -> None:
    for name in ("report.html", "report.pdf"):
        (run.run / name).write_bytes(b"anything")
        lines = verify_run(run.run, places=run.places).lines
        assert [x for x in lines if x.status == "not proven" and "report.html" in x.text]
        (run.run / name).unlink()


@pytest.mark.parametrize("run", FILES, indirect=True)
def test_the_lines_behind_the_signed_head_prove_nothing(run: World) -> None:
    """Others accept or refuse a changed tail, and are told the same; its owner refuses all of it."""
    path = run.run / "journal.jsonl"
    whole, signed = path.read_bytes(), signed_part(run, "journal.jsonl")
    claims = verify_run(run.run, places=run.places).summary()
    assert 0 < signed < len(whole)
    tails = [b"", whole[signed:-1], whole[signed:] * 2]
    tails += [
        whole[signed:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(signed, len(whole), 9)
    ]
    accepted = 0
    for tail in tails:
        with rewritten(path, whole[:signed] + tail):
            if accepts(run):
                accepted += 1
                assert verify_run(run.run, places=run.places).summary() == claims
    assert accepted, "if nothing passes any more, these lines are attested: say so in the module's text"
    assert accepted < len(tails) / 3, "and most of what is no chain is refused"


# --- its owner: what reveal verifies beyond verify_run -------------------------------------------


def files_of(world: World) -> list[Path]:
    return sorted(p for p in world.run.rglob("*") if p.is_file() and p.name != "report.html")


@contextmanager
def flipped(path: Path, at: int, bit: int) -> Iterator[None]:
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    with rewritten(path, bytes(data)):
        yield


def everything_that_reveal_verifies(world: World) -> None:
    """All of `reveal` up to the unsealing key, and the ciphertexts, without starting a signing process."""
    opened = open_plan(world.run, load_trust(world.run, None, world.places))
    settle(world.run, opened, world.ledger)
    run = open_ex_ante(open_evidence(opened))
    _check_journal(run, world.ledger)
    refuse_blocked(run)
    sealed_packets(world.run, opened.plan)


def refuses(world: World) -> bool:
    try:
        verify_run(world.run, places=world.places)
        everything_that_reveal_verifies(world)
    except BindingError:
        return True
    return False


def test_any_changed_byte_is_refused(evaluated: World) -> None:
    """One bit anywhere, the journal's tail included."""
    names = files_of(evaluated)
    assert not refuses(evaluated)
    tried: set[Path] = set()

    @seed(digest(b"any changed byte"))
    @settings(max_examples=200, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def one(data: st.DataObject) -> None:
        path = data.draw(st.sampled_from(names))
        at = data.draw(st.integers(0, path.stat().st_size - 1))
        bit = data.draw(st.integers(0, 7))
        with flipped(path, at, bit):
            assert refuses(evaluated), f"{path.relative_to(evaluated.run)}, byte {at}, bit {bit}"
        tried.add(path)

    one()
    assert tried == set(names)
    assert not refuses(evaluated)


def test_every_byte_of_the_journals_last_line_counts(evaluated: World) -> None:
    """The tail is under no signature of its own: the hardest place."""
    path = evaluated.run / "journal.jsonl"
    size = path.stat().st_size
    last = len(path.read_bytes().splitlines()[-1]) + 1
    for at in range(size - last, size, 17):
        with flipped(path, at, 0):
            assert refuses(evaluated), at


def test_a_file_cut_at_any_length_is_refused(evaluated: World) -> None:
    for path in files_of(evaluated):
        if path.name == "journal.jsonl":
            continue  # its owner restores it: see test_tampering
        data = path.read_bytes()
        for size in (0, 1, len(data) // 2, len(data) - 1):
            os.truncate(path, size)
            assert refuses(evaluated), (path, size)
            fd = os.open(path, os.O_WRONLY | os.O_TRUNC)
            os.write(fd, data)
            os.close(fd)
    assert not refuses(evaluated)


def test_reveal_itself_refuses_what_was_checked_here(evaluated: World) -> None:
    """`everything_that_reveal_verifies` stands for `reveal`; here the real one, once for each file."""
    for path in files_of(evaluated):
        with flipped(path, path.stat().st_size // 2, 1), pytest.raises(BindingError):
            reveal(evaluated.run, write_calibration=True, places=evaluated.places)
        assert not (evaluated.run / "reveal").exists()
    reveal(evaluated.run, write_calibration=True, places=evaluated.places)
