"""Mutation score of evalkit.sealing: which small defects of its code do the tests notice?

    python benchmarks/mutation.py [--size N] [--module NAME ...] [--without FILE ...] [--json FILE]
    python benchmarks/mutation.py --again FILE [--json FILE]

A mutant is the package with one small change.  It is killed when a test fails (or runs into the time
limit), else it survives.  The score is killed ÷ run, with a Wilson 95 % interval (Wilson 1927) for the score
of all mutants of that module; mutants that change nothing (equivalent ones) count as survivors.  ``--again``
runs the survivors of an earlier result once more; ``--without`` draws from what an earlier result has not seen,
which is the score to trust after tests were written for its survivors; ``--json`` has a line for each mutant as
soon as it is known.

The tests of a mutant are the quick tests of sealing that execute its statement, as coverage.py saw it before,
the quickest first; where it saw none (constants of modules, what only child processes execute), the files in
`FALLBACK`.  Slow tests, and those of the packages above, are not run: a score from here is a lower bound.

Changed are: comparisons, ``and`` / ``or`` / ``not``, conditions (forced true and false), numbers, truth
values, texts and bytes of formats, arithmetic, ``min`` / ``max``, ``any`` / ``all``, bounds of slices, and
defaults; left out are ``raise``, ``return`` and calls that stand alone.  Not changed: texts of errors (what is
in a ``raise``, in a call that never returns, or has a space), dict keys, subscripts, regular expressions,
annotations, docstrings, assertions (they are for the type checker), imports, and ``observe`` (which is there for
tests).  `LEFT_OUT` names the modules that are not measured.

The sample of a module is drawn without replacement; its order follows from a hash of the module's name and
content, so a larger sample contains the smaller one.

Each worker has a copy of the tree and an environment whose only evalkit is that copy: a child process with
``python -I`` would find the original through an editable installation.  `CONTROLS` are mutants that must
die, one of them in a child process only; without that no score is printed.  A worker imports what is not
evalkit once and forks for each mutant.

Why not a tool that exists: mutmut 3 changes functions only (no constants of modules, no defaults of classes),
takes error texts for code, chooses the mutant by an environment variable, which the signing process does not
inherit, and takes no random sample; cosmic-ray removes no statements, forces no conditions, and starts an
interpreter for each mutant, which costs more here than most of the tests.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import importlib.metadata
import json
import math
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import Empty, Queue
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SEALING = Path("evalkit/sealing")
# The package's list of names; being rewritten: timestamps and what reads them.
LEFT_OUT = {"__init__"}
WORKERS = 2
SMALLEST_SAMPLE = 8

# Tests of what coverage.py does not see, below tests/sealing; for the other modules test_<module>.py.
FALLBACK = {
    "timestamp_authority": ["timestamp", "trust"],
    "canonical": ["canonical", "vectors"],
    "files": ["files", "trust", "ledger", "recovery"],
    "hash_chain": ["ledger", "ledger_check", "vectors"],
    "keys": ["keys", "vectors_crypto", "trust"],
    "packet": ["packet", "vectors_crypto"],
    "phase": ["recovery", "commit"],
    "pinning": ["trust", "revocation", "rotation"],
    "predicates": ["predicates", "envelope", "vectors_crypto"],
    "rename": ["rename", "commit", "recovery"],
    "signing_process": ["signing_process", "signer"],
    "terminal": ["terminal", "signer"],
    "times": ["times", "ledger", "trust", "envelope", "ledger_check"],
    "trusted_key": ["trust", "rotation"],
}
# What runs in the signing process, where coverage.py does not look.
IN_CHILDREN = {"signing_process", "terminal"}
# Minutes in sum over many mutants, and others cover the same.
DESELECTED = ["tests/sealing/test_canonical.py::test_bytes_equal_the_reference_on_200_000_documents"]
# (module, text, replacement): the second is seen by the signing process only.
CONTROLS = [
    ("canonical", 'return "sha256:" +', 'return "sha257:" +'),
    ("signing_process", "if message.startswith(PAE_PREFIX):", "if not message.startswith(PAE_PREFIX):"),
]


@dataclass(frozen=True)
class Mutant:
    """One change: the bytes from ``start`` to ``end`` of a module become ``after``."""

    module: str
    line: int
    start: int
    end: int
    before: str
    after: str
    first: int  # lines of the statement; 0 where it runs when the module is imported
    last: int

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.after.encode() + source[self.end :]

    def __str__(self) -> str:
        before, after = (" ".join(text.split())[:90] for text in (self.before, self.after))
        return f"{self.module}.py:{self.line}  {before}  →  {after}"


COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.BitXor: ast.BitAnd,
}
SWAPPED_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}
TEXT_ARGUMENTS = {"what", "where", "expected", "do", "help"}


def never_return() -> set[str]:
    """The names of functions of sealing that end in an error, whose arguments are its text."""
    return {
        node.name
        for path in (ROOT / SEALING).glob("*.py")
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.FunctionDef)
        and isinstance(node.returns, ast.Name)
        and node.returns.id == "NoReturn"
    }


def changed_text(value: str | bytes) -> str | bytes:
    """The same with another last letter or digit, or something where nothing was."""
    if isinstance(value, bytes):
        return value[:-1] + bytes([value[-1] ^ 1]) if value else b"x"
    return value[:-1] + ("y" if value[-1] != "y" else "z") if value else "x"


class Changes:
    """The mutants of one module."""

    def __init__(self, module: str, source: bytes, refusing: set[str]) -> None:
        self.module, self.source, self.refusing = module, source, refusing
        self.found: dict[tuple[int, int, str], Mutant] = {}
        starts = [0]
        for line in source.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        self.starts = starts
        self.lines = (0, 0)
        self.visit(ast.parse(source), module_level=True)

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.starts[node.lineno - 1] + node.col_offset, self.starts[
            node.end_lineno - 1
        ] + node.end_col_offset

    def put(self, node: ast.expr | ast.stmt, after: str) -> None:
        start, end = self.span(node)
        before = self.source[start:end].decode()
        if after != before:
            self.found.setdefault(
                (start, end, after), Mutant(self.module, node.lineno, start, end, before, after, *self.lines)
            )

    def replace(self, node: ast.expr, **fields: Any) -> None:
        """A mutant in which ``node`` has other fields."""
        changed = type(node)(**{name: getattr(node, name, None) for name in node._fields} | fields)
        self.put(node, f"({ast.unparse(ast.fix_missing_locations(changed))})")

    def force(self, test: ast.expr, *values: bool) -> None:
        for value in values:
            if not isinstance(test, ast.Constant):
                self.put(test, str(value))

    def visit(self, node: ast.AST, *, module_level: bool = False, in_function: bool = False) -> None:
        if isinstance(node, ast.stmt) and not in_function:
            # The whole function, for its defaults; its statements have lines of their own.
            whole = isinstance(node, ast.FunctionDef)
            self.lines = (node.lineno, node.end_lineno or 0) if whole else (0, 0)
        elif isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            inner = body[0].lineno - 1 if body and not isinstance(node, ast.FunctionDef) else node.end_lineno
            self.lines = (node.lineno, max(node.lineno, inner or 0))
        # What is left alone, with everything in it.
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Assert):
            return
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            return
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return
        if isinstance(node, ast.Raise):
            self.put(node, "pass")
            return
        if isinstance(node, ast.Assign) and module_level:
            if any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
                return
            value = node.value
            if isinstance(value, ast.Subscript):  # a name for a type
                return
        self.change(node)
        for child in self.children(node):
            inside = in_function or isinstance(node, ast.FunctionDef)
            self.visit(child, module_level=isinstance(node, ast.Module), in_function=inside)

    def children(self, node: ast.AST) -> Iterator[ast.AST]:
        """The parts of a node that are code and no text."""
        if isinstance(node, ast.JoinedStr):
            return  # before Python 3.12 the parts have wrong positions
        if isinstance(node, ast.FunctionDef):
            yield from (d for d in (*node.args.defaults, *node.args.kw_defaults) if d is not None)
            yield from node.body
        elif isinstance(node, ast.ClassDef):
            yield from node.body
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None:
                yield node.value
        elif isinstance(node, ast.Dict):
            yield from node.values
        elif isinstance(node, ast.Subscript):
            yield node.value
            if not isinstance(node.slice, ast.Constant) or isinstance(node.slice.value, int):
                yield node.slice
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            yield node.func
            if name in self.refusing or name.endswith("Error") or name.startswith("re.") or name == "observe":
                return
            yield from node.args
            yield from (k.value for k in node.keywords if k.arg not in TEXT_ARGUMENTS)
        else:
            yield from ast.iter_child_nodes(node)

    def change(self, node: ast.AST) -> None:
        match node:
            case ast.Compare():
                for n, op in enumerate(node.ops):
                    ops = [*node.ops[:n], COMPARISONS[type(op)](), *node.ops[n + 1 :]]
                    self.replace(node, ops=ops)
            case ast.BoolOp():
                self.replace(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
            case ast.UnaryOp(op=ast.Not()):
                self.put(node, f"({ast.unparse(node.operand)})")
            case ast.If() | ast.IfExp():
                self.force(node.test, True, False)
            case ast.While():
                self.force(node.test, False)
            case ast.comprehension():
                for test in node.ifs:
                    self.force(test, True, False)
            case ast.Return():
                self.put(node, "pass")
            case ast.Expr(value=ast.Call()):
                if ast.unparse(node.value.func) not in ("observe", "self.observe"):
                    self.put(node, "pass")
            case ast.BinOp():
                if not any(isinstance(side, ast.JoinedStr) for side in (node.left, node.right)):
                    self.replace(node, op=ARITHMETIC[type(node.op)]())
            case ast.AugAssign():
                self.put(
                    node,
                    ast.unparse(ast.AugAssign(node.target, ARITHMETIC[type(node.op)](), node.value)),
                )
            case ast.Call(func=ast.Name(id=name)) if name in SWAPPED_CALLS:
                self.put(node.func, SWAPPED_CALLS[name])
            case ast.Slice():
                for bound in ("lower", "upper"):
                    if getattr(node, bound) is not None:
                        kept = {"lower": node.lower, "upper": node.upper, "step": node.step} | {bound: None}
                        self.put(node, ast.unparse(ast.Slice(**kept)))
            case ast.Constant(value=bool()):
                self.put(node, str(not node.value))
            case ast.Constant(value=int() | float()):
                self.put(node, repr(node.value + 1))
                self.put(node, f"({node.value - 1!r})")
            case ast.Constant(value=str()) if " " in node.value:
                pass
            case ast.Constant(value=str() | bytes()):
                self.put(node, repr(changed_text(node.value)))
            case ast.JoinedStr():
                parts = [p.value for p in node.values if isinstance(p, ast.Constant)]
                if parts and not any(" " in part for part in parts):
                    values: list[ast.expr] = list(node.values)
                    n = next(n for n, p in enumerate(values) if isinstance(p, ast.Constant))
                    values[n] = ast.Constant(changed_text(parts[0]))
                    self.replace(node, values=values)


def mutants_of(module: str, refusing: set[str]) -> list[Mutant]:
    """All mutants of a module that are Python, in the order in which they are drawn."""
    source = (ROOT / SEALING / f"{module}.py").read_bytes()
    found = [m for m in Changes(module, source, refusing).found.values() if compiles(m.apply(source))]
    seed = int.from_bytes(hashlib.sha256(module.encode() + b"\0" + source).digest())
    random.Random(seed).shuffle(found)
    return found


def compiles(source: bytes) -> bool:
    try:
        compile(source, "mutant", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


def draw(every: dict[str, list[Mutant]], size: int) -> list[Mutant]:
    """A sample in proportion, but of `SMALLEST_SAMPLE` a module or more.

    In turn over the modules, so that an interrupted run has a sample of each.
    """
    total = sum(map(len, every.values()))
    placed: list[tuple[float, Mutant]] = []
    for found in every.values():
        drawn = found[: max(SMALLEST_SAMPLE, round(size * len(found) / total))]
        placed += [((n + 0.5) / len(drawn), m) for n, m in enumerate(drawn)]
    return [m for _, m in sorted(placed, key=lambda pair: pair[0])]


def wilson(killed: int, n: int) -> tuple[float, float]:
    """The Wilson score interval (95 %) of a proportion; Wilson, JASA 22 (1927) 209."""
    z = 1.959963984540054
    p = killed / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return middle - half, middle + half


class Worker:
    """A copy of the tree, and a process in it that runs tests; see `serve`."""

    def __init__(self, folder: Path) -> None:
        self.tree, venv = folder / "tree", folder / "venv"
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            check=True,
        )
        for name in filter(None, listed.stdout.decode().split("\0")):
            if (ROOT / name).is_file():
                (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.tree / name, follow_symlinks=False)
        # An environment that finds the copy, and the libraries of this one without its .pth files.
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
        purelib = sysconfig.get_path("purelib")
        site = next((venv / "lib").glob("python*/site-packages"))
        (site / "copy.pth").write_text(f"{self.tree}\n{purelib}\n")
        environ = dict(os.environ) | {"PYTHONDONTWRITEBYTECODE": "1"}
        environ.setdefault("EVALKIT_SHARED_DATA", str((ROOT / ".." / "shared" / "data").resolve()))
        self.log = (folder / "log").open("wb")
        self.process = subprocess.Popen(
            [venv / "bin" / "python", Path(__file__).resolve(), "--serve"],
            cwd=self.tree,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )
        self.base_temp = str(folder / "tmp")

    def run(self, tests: list[str], limit: float, coverage: Path | None = None) -> tuple[int, float]:
        """(pytest's exit code, or -1 after ``limit`` seconds; seconds)."""
        arguments = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not slow and not browser"]
        arguments += [f"--deselect={name}" for name in DESELECTED] + [f"--basetemp={self.base_temp}", *tests]
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        start = time.monotonic()
        request = [limit, arguments, None if coverage is None else str(coverage)]
        print(json.dumps(request), file=self.process.stdin, flush=True)
        return int(self.process.stdout.readline()), time.monotonic() - start

    def try_mutant(self, module: str, changed: bytes, tests: list[str], limit: float) -> tuple[int, float]:
        path = self.tree / SEALING / f"{module}.py"
        original = path.read_bytes()
        path.write_bytes(changed)
        try:
            return self.run(tests, limit)
        finally:
            path.write_bytes(original)

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        self.log.close()


class Watch:
    """A pytest plugin that writes down which test executes which lines of sealing, and how long it takes."""

    def __init__(self, path: Path) -> None:
        from coverage import Coverage

        self.path, self.seconds = path, dict[str, float]()
        self.coverage = Coverage(data_file=None, source=[str(SEALING.absolute())], config_file=False)
        self.coverage.start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.coverage.switch_context(nodeid)
        self.seconds[nodeid] = -time.monotonic()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.coverage.switch_context("")
        self.seconds[nodeid] += time.monotonic()

    def write(self) -> None:
        self.coverage.stop()
        data = self.coverage.get_data()
        lines = {Path(name).stem: data.contexts_by_lineno(name) for name in data.measured_files()}
        self.path.write_text(json.dumps({"lines": lines, "seconds": self.seconds}))


def serve() -> None:
    """Answer each line ``[seconds, pytest arguments, coverage file]`` on stdin with pytest's exit code."""
    import pytest

    # Everything that the tests import, except evalkit and the tests, which must be read anew each time.
    for entry in importlib.metadata.entry_points(group="pytest11"):
        entry.load()
    for name in ("hypothesis", "numpy", "orjson", "rfc8785", "pydantic", "httpx2", "securesystemslib.dsse"):
        importlib.import_module(name)
    for name in ("serialization.ssh", "asymmetric.ed25519", "asymmetric.x25519", "hpke", "asymmetric.rsa"):
        importlib.import_module(f"cryptography.hazmat.primitives.{name}")
    importlib.import_module("cryptography.x509")
    answers = os.dup(1)
    os.dup2(2, 1)
    for line in sys.stdin:
        limit, arguments, coverage = json.loads(line)
        pid = os.fork()
        if pid == 0:
            code = 3
            try:
                os.setsid()
                null = os.open(os.devnull, os.O_RDONLY)
                os.dup2(null, 0)
                resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
                resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
                watch = None if coverage is None else Watch(Path(coverage))
                code = int(pytest.main(arguments, plugins=[] if watch is None else [watch]))
                if watch is not None:
                    watch.write()
            finally:
                sys.stdout.flush()
                os._exit(code)
        deadline = time.monotonic() + limit
        done, status = os.waitpid(pid, os.WNOHANG)
        while not done and time.monotonic() < deadline:
            time.sleep(0.02)
            done, status = os.waitpid(pid, os.WNOHANG)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # also what a test left running
        if not done:
            os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status) if done else -1
        os.write(answers, b"%d\n" % (code if code >= -1 else 1))


def fallback(module: str) -> list[str]:
    names = [f"tests/sealing/test_{name}.py" for name in (*FALLBACK.get(module, [module]), "limits")]
    return [name for name in names if (ROOT / name).is_file()]


class Reached:
    """Which tests reach which lines, from a run of all quick tests of sealing without any change."""

    def __init__(self, worker: Worker, path: Path) -> None:
        code, seconds = worker.run(["tests/sealing"], 900, coverage=path)
        print(f"unchanged: exit {code} after {seconds:.0f} s", file=sys.stderr, flush=True)
        assert code == 0, "the tests fail without any change"
        found = json.loads(path.read_text())
        self.lines, self.seconds = found["lines"], found["seconds"]

    def tests(self, m: Mutant) -> tuple[list[str], float]:
        """(tests of that mutant, seconds that they took)."""
        at = self.lines.get(m.module, {})
        names = {name for line in range(m.first, m.last + 1) for name in at.get(str(line), []) if name}
        if not names or m.module in IN_CHILDREN:
            files = fallback(m.module)
            return files, sum(s for name, s in self.seconds.items() if name.partition("::")[0] in files)
        chosen = sorted(names, key=lambda name: (self.seconds[name], name))
        return chosen, sum(self.seconds[name] for name in chosen)


def run(jobs: list[Mutant], path: Path | None) -> list[dict[str, Any]]:
    """The outcome of each mutant: exit code, seconds, number of tests (or files of tests)."""
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        Path(folder).chmod(0o755)  # some tests go on as another user, who has to find the code
        workers = [Worker(Path(folder) / str(n)) for n in range(WORKERS)]
        for module, old, new in CONTROLS:
            source = (ROOT / SEALING / f"{module}.py").read_text()
            assert source.count(old) == 1, f"the control of {module} is out of date"
            for worker in workers:
                changed = source.replace(old, new).encode()
                code, seconds = worker.try_mutant(module, changed, fallback(module), 120)
                print(f"control {module}: exit {code} after {seconds:.1f} s", file=sys.stderr)
                assert code == 1, "a mutant that must die survives: the workers test something else"
        reached = Reached(workers[0], Path(folder) / "coverage.json")
        todo: Queue[Mutant] = Queue()
        for m in jobs:
            todo.put(m)

        def work(worker: Worker) -> None:
            while True:
                try:
                    m = todo.get_nowait()
                except Empty:
                    return
                source = (worker.tree / SEALING / f"{m.module}.py").read_bytes()
                tests, usual = reached.tests(m)
                code, seconds = 0, 0.0  # where no test reaches it
                if tests:
                    limit = 20 + 5 * usual
                    code, seconds = worker.try_mutant(m.module, m.apply(source), tests, limit)
                result = asdict(m) | {"code": code, "seconds": round(seconds, 2), "tests": len(tests)}
                results.append(result)
                if path is not None:
                    with path.open("a") as file:
                        file.write(json.dumps(result, ensure_ascii=False) + "\n")
                if code == 0:
                    note = f"[{len(results)}/{len(jobs)}, {seconds:.0f} s, {len(tests)} tests] survived: {m}"
                    print(note, file=sys.stderr, flush=True)

        threads = [threading.Thread(target=work, args=(worker,)) for worker in workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for worker in workers:
            worker.close()
    return results


def report(results: list[dict[str, Any]], populations: dict[str, int]) -> None:
    print(
        f"{'module':<18}{'all':>6}{'run':>6}{'killed':>8}{'import':>8}{'timeout':>8}{'alive':>7}   score  [95 %]"
    )
    rows = [(m, [r for r in results if r["module"] == m]) for m in sorted({r["module"] for r in results})]
    for module, mine in [*rows, ("together", results)]:
        n, alive = len(mine), sum(r["code"] == 0 for r in mine)
        at_import = sum(r["code"] in (2, 4) for r in mine)
        timeouts = sum(r["code"] == -1 for r in mine)
        low, high = wilson(n - alive, n)
        every = populations[module] if module != "together" else sum(populations[m] for m, _ in rows)
        print(
            f"{module:<18}{every:>6}{n:>6}{n - alive:>8}{at_import:>8}{timeouts:>8}{alive:>7}"
            f"   {(n - alive) / n:5.1%}  [{low:.1%}, {high:.1%}]"
        )
    print("\nsurvivors")
    for r in sorted(results, key=lambda r: (r["module"], r["start"], r["after"])):
        if r["code"] == 0:
            print(mutant_in(r))


def main() -> None:
    parser = argparse.ArgumentParser(description="Mutation score of evalkit.sealing.")
    parser.add_argument("--size", type=int, default=400, help="mutants in all (default 400)")
    modules = sorted({path.stem for path in (ROOT / SEALING).glob("*.py")} - LEFT_OUT)
    parser.add_argument("--module", action="append", choices=modules)
    parser.add_argument("--again", type=Path, help="run the survivors of this result")
    parser.add_argument(
        "--without", type=Path, action="append", default=[], help="leave out what is in there"
    )
    parser.add_argument("--json", type=Path, help="write the result of each mutant there, a line each")
    parser.add_argument("--report", type=Path, help="run nothing: the report of these results")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve()
        return
    refusing = never_return()
    every = {module: mutants_of(module, refusing) for module in given.module or modules}
    populations = {module: len(found) for module, found in every.items()}
    if given.report:
        report(read(given.report), populations)
        return
    if given.again:
        alive = {key(r) for r in read(given.again) if r["code"] == 0}
        jobs = [m for found in every.values() for m in found if key(asdict(m)) in alive]
    else:
        seen = {key(r) for path in given.without for r in read(path)}
        rest = {name: [m for m in found if key(asdict(m)) not in seen] for name, found in every.items()}
        jobs = draw(rest, given.size)
    if given.json:
        given.json.write_text("")
    report(run(jobs, given.json), populations)


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def key(result: dict[str, Any]) -> tuple[Any, ...]:
    return result["module"], result["start"], result["end"], result["after"]


def mutant_in(result: dict[str, Any]) -> Mutant:
    return Mutant(**{name: result[name] for name in Mutant.__dataclass_fields__})


if __name__ == "__main__":
    main()
