"""Running notebooks: what success is, and every way in which there is none."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from nbformat.v4 import new_code_cell

from evalkit.errors import CellError, EvalkitError, KernelLost
from evalkit.reports import Execution, execute, folders, kernel
from evalkit.reports.execution import notebook_path

from .sample import code, parameters, write

EMIT = "from evalkit.reports.results import emit\nemit({'a': a})"


def run(path: Path, out: Path, given: dict[str, Any] | None = None, **options: Any) -> Execution:
    return execute(path, given or {}, out=out, **{"progress": False, **options})


def partial(out: Path) -> Path:
    (found,) = out.glob("*/*.partial")
    return found


def record(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "run.json").read_text())


@pytest.fixture
def simple(tmp_path: Path) -> Path:
    return write(tmp_path / "simple.ipynb", parameters("a: int = 1  # a number"), *code(EMIT))


def test_a_completed_run_has_everything_and_nothing_else(simple: Path, tmp_path: Path) -> None:
    done = run(simple, tmp_path / "out", {"a": 3})
    assert done.results == {"a": 3}
    assert done.status == "completed"
    assert not done.skipped
    assert done.directory.parent == tmp_path / "out" / "simple"
    assert sorted(p.name for p in done.directory.iterdir()) == [
        "report.html", "results.json", "run.ipynb", "run.json",
    ]  # fmt: skip
    entry = record(done.directory)
    assert entry["schema"] == "evalkit/notebook-run/1"
    assert entry["status"] == "completed"
    assert entry["parameters"] == {"a": 3}
    assert entry["notebook_digest"] == folders.digest(simple.read_bytes())
    assert entry["files"]["run.ipynb"] == folders.digest(done.notebook.read_bytes())
    assert entry["versions"]["evalkit"]
    assert list((tmp_path / "out").glob("*/*.partial")) == []
    # Nothing of this machine, and no warning of the kernel about its transport.
    assert str(tmp_path) not in done.notebook.read_text()
    assert "TCP" not in done.notebook.read_text()


def test_a_derived_key_is_skipped_when_done_and_only_then(
    simple: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run(simple, tmp_path / "out")
    monkeypatch.setattr("evalkit.reports.execution._run", lambda *_: pytest.fail("ran again"))
    again = run(simple, tmp_path / "out", {"a": 1})  # the default, given: the same inputs
    assert again.skipped
    assert (again.directory, again.results, again.seconds) == (first.directory, first.results, first.seconds)
    for other in ({"given": {"a": 2}}, {"data": {"cases": "sha256:00"}}):
        with pytest.raises(pytest.fail.Exception):
            run(simple, tmp_path / "out", **other)
    monkeypatch.setattr("evalkit.__version__", "9.9")
    with pytest.raises(pytest.fail.Exception):
        run(simple, tmp_path / "out")


def test_a_done_folder_that_was_changed_is_an_error(simple: Path, tmp_path: Path) -> None:
    first = run(simple, tmp_path / "out")
    (first.directory / "results.json").write_text('{"a": 99}')
    with pytest.raises(EvalkitError, match=r"results\.json is not what was written"):
        run(simple, tmp_path / "out")


def test_a_report_may_be_made_again_or_be_missing(simple: Path, tmp_path: Path) -> None:
    first = run(simple, tmp_path / "out")
    first.report.write_text("made by another version")
    assert run(simple, tmp_path / "out").skipped
    first.report.unlink()
    assert run(simple, tmp_path / "out").skipped
    assert first.report.exists()


def test_a_given_key_is_never_skipped_or_replaced(simple: Path, tmp_path: Path) -> None:
    first = run(simple, tmp_path / "out", key="run-1")
    assert first.directory.name == "run-1"
    with pytest.raises(EvalkitError, match="exists already"):
        run(simple, tmp_path / "out", key="run-1")
    (tmp_path / "out" / "simple" / "run-2").mkdir()
    with pytest.raises(EvalkitError, match="exists already"):
        run(simple, tmp_path / "out", key="run-2")


@pytest.mark.parametrize("key", ["", "..", "a/b", ".x", "x.partial", "a b", "x" * 200])
def test_odd_keys_are_refused(simple: Path, tmp_path: Path, key: str) -> None:
    with pytest.raises(EvalkitError, match="cannot name a run folder"):
        run(simple, tmp_path / "out", key=key)


def test_a_failed_cell(tmp_path: Path) -> None:
    path = write(
        tmp_path / "n.ipynb", parameters("a: int = 1"), *code("x = 1", "raise ValueError('no ' * 400)", EMIT)
    )
    with pytest.raises(CellError) as caught:
        run(path, tmp_path / "out")
    message = str(caught.value)
    folder = partial(tmp_path / "out")
    assert caught.value.exit_code == 3
    # Cell 1 is the parameters cell, papermill injects cell 2.
    assert "cell 4 of n.ipynb: ValueError: no no" in message
    assert str(folder / "run.ipynb") in message
    assert "Traceback" not in message
    assert len(message) < 900
    assert record(folder)["status"] == "failed"
    assert record(folder)["error"]["cell"] == 4
    cell = json.loads((folder / "run.ipynb").read_text())["cells"][3]
    assert cell["outputs"][0]["ename"] == "ValueError"
    assert not (folder / "report.html").exists()
    # A derived key is tried again, in the same place.
    with pytest.raises(CellError):
        run(path, tmp_path / "out")
    assert partial(tmp_path / "out") == folder


def test_failed_attempts_under_a_given_key_are_kept(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    path = write(tmp_path / "n.ipynb", *code(f"assert open({str(flag)!r})"))
    for _ in range(2):
        with pytest.raises(CellError):
            run(path, tmp_path / "out", key="k")
    flag.touch()
    run(path, tmp_path / "out", key="k")
    assert sorted(p.name for p in (tmp_path / "out" / "n").iterdir()) == ["k", "k.failed-1", "k.failed-2"]


def test_a_timeout_is_for_the_whole_run(tmp_path: Path) -> None:
    path = write(tmp_path / "n.ipynb", *code("import time; time.sleep(0.8)", "time.sleep(30)"))
    with pytest.raises(KernelLost, match=r"cell 2 of n\.ipynb: Timeout: .*longer than 2 s") as caught:
        run(path, tmp_path / "out", timeout=2)
    assert caught.value.exit_code == 4
    folder = partial(tmp_path / "out")
    assert record(folder)["status"] == "failed"
    assert record(folder)["seconds"] < 10
    notebook = json.loads((folder / "run.ipynb").read_text())
    assert notebook["cells"][1]["outputs"][-1]["ename"] == "Timeout"


def test_a_dead_kernel(tmp_path: Path) -> None:
    path = write(tmp_path / "n.ipynb", *code("1", "import os; os._exit(7)", "2"))
    with pytest.raises(KernelLost, match="cell 2") as caught:
        run(path, tmp_path / "out")
    assert caught.value.exit_code == 4
    folder = partial(tmp_path / "out")
    assert record(folder)["error"]["name"] == "DeadKernel"
    assert json.loads((folder / "run.ipynb").read_text())["cells"][1]["outputs"][-1]["ename"] == "DeadKernel"


@pytest.mark.parametrize("status", ["", "0", "3"])
def test_leaving_a_cell_early_is_no_success(tmp_path: Path, status: str) -> None:
    """papermill takes sys.exit() and sys.exit(0) for success and leaves out the remaining cells."""
    path = write(tmp_path / "n.ipynb", *code(f"import sys; sys.exit({status})", "1/0"))
    with pytest.raises(CellError, match="SystemExit"):
        run(path, tmp_path / "out")


def test_an_error_that_the_notebook_allows_is_no_success(tmp_path: Path) -> None:
    cell = new_code_cell("1/0", metadata={"tags": ["raises-exception"]})
    with pytest.raises(CellError, match="ZeroDivisionError"):
        run(write(tmp_path / "n.ipynb", cell, *code("1")), tmp_path / "out")


def test_two_emissions_are_no_success(tmp_path: Path) -> None:
    path = write(tmp_path / "n.ipynb", parameters("a: int = 1"), *code(EMIT, EMIT))
    with pytest.raises(EvalkitError, match="2 times"):
        run(path, tmp_path / "out")
    assert record(partial(tmp_path / "out"))["status"] == "failed"


def test_bad_parameters_start_no_kernel(simple: Path, tmp_path: Path) -> None:
    for bad in ({"a": "x"}, {"b": 1}, {"token": "x"}):
        with pytest.raises(EvalkitError):
            run(simple, tmp_path / "out", bad)
    assert not (tmp_path / "out").exists()


def test_a_missing_kernel_is_named(simple: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "KERNEL", "no-such-kernel")
    with pytest.raises(EvalkitError, match="no no-such-kernel kernel"):
        run(simple, tmp_path / "out")


def test_runs_inside_a_running_loop_and_top_level_await_works(tmp_path: Path) -> None:
    path = write(tmp_path / "n.ipynb", *code("import asyncio\nawait asyncio.sleep(0)\n1"))

    async def inside() -> Execution:
        return run(path, tmp_path / "out")

    assert asyncio.run(inside()).status == "completed"


def test_the_kernel_is_this_interpreter_with_byte_code_in_the_callers_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    # A python3 kernel that the user once made for something else.
    spec = tmp_path / "jupyter" / "kernels" / "python3"
    spec.mkdir(parents=True)
    (spec / "kernel.json").write_text('{"argv": ["/bin/false"], "display_name": "x", "language": "python"}')
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    source = """import os, sys
from evalkit.reports.results import emit
keys = ("EVALKIT_BATCH", "EXTRA", "PYTHONDONTWRITEBYTECODE")
open(os.environ["EVALKIT_RUN_FOLDER"] + "/extra.txt", "w").close()
emit({"exe": sys.executable, "cwd": os.getcwd(), **{key: os.environ.get(key) for key in keys}})"""
    done = run(write(tmp_path / "n.ipynb", *code(source)), tmp_path / "out", environ={"EXTRA": "yes"})
    assert done.results == {
        "exe": sys.executable,
        "cwd": str(Path.cwd()),
        "EVALKIT_BATCH": "1",
        "EXTRA": "yes",
        "PYTHONDONTWRITEBYTECODE": None,
    }
    assert (done.directory / "extra.txt").exists()


def test_braces_in_paths_are_just_braces(tmp_path: Path) -> None:
    path = write(tmp_path / "{a} {b}" / "n.ipynb", parameters("a: int = 1"), *code(EMIT))
    assert run(path, tmp_path / "{out}").results == {"a": 1}


def test_a_folder_in_use_is_left_alone(simple: Path, tmp_path: Path) -> None:
    with (
        folders.RunFolder(tmp_path / "out" / "simple", "k", keep_failures=True),
        pytest.raises(EvalkitError, match="another process"),
    ):
        run(simple, tmp_path / "out", key="k")


def test_what_appears_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    with folders.RunFolder(tmp_path, "k", keep_failures=False) as folder:
        folder.record({"status": "completed"})
        (tmp_path / "k").mkdir()
        with pytest.raises(EvalkitError, match="appeared meanwhile"):
            folder.publish()
    assert list((tmp_path / "k").iterdir()) == []
    assert (tmp_path / "k.partial" / "run.json").exists()


def test_nothing_is_published_if_writing_the_report_fails(
    simple: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("evalkit.reports.execution.export_html", broken)
    with pytest.raises(OSError, match="disk full"):
        run(simple, tmp_path / "out")
    assert record(partial(tmp_path / "out"))["status"] == "failed"


def test_an_interrupt_is_passed_on_and_recorded(
    simple: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("evalkit.reports.execution._run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(simple, tmp_path / "out")
    assert record(partial(tmp_path / "out"))["status"] == "failed"


def test_sockets_do_not_go_below_a_folder_with_a_long_name(
    simple: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    assert run(simple, tmp_path / "out").results == {"a": 1}
    assert list(long.iterdir()) == []


@pytest.mark.slow
def test_threads_can_run_notebooks_side_by_side(simple: Path, tmp_path: Path) -> None:
    done: list[Execution] = []
    threads = [
        threading.Thread(target=lambda i=i: done.append(run(simple, tmp_path / "out", {"a": i})))
        for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(execution.results["a"] for execution in done) == [0, 1, 2, 3]


@pytest.mark.slow
def test_a_kernel_that_is_killed_leaves_no_process_and_no_socket(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    source = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    with pytest.raises(KernelLost):
        run(write(tmp_path / "n.ipynb", *code(source)), tmp_path / "out", timeout=2)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_names_lead_to_notebooks_and_nowhere_else(
    simple: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert notebook_path(simple) == simple
    assert notebook_path(str(simple)) == simple
    for name in ("no-such-notebook", "../pyproject", "/etc/passwd", "", str(tmp_path)):
        with pytest.raises(EvalkitError, match="no notebook"):
            notebook_path(name)


def test_progress_is_text_in_a_batch(
    simple: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(simple, tmp_path / "out", progress=True)
    assert capsys.readouterr().err == "simple: 0/3\nsimple: 3/3\n"


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf")])
def test_a_timeout_is_a_positive_number(simple: Path, tmp_path: Path, timeout: float) -> None:
    with pytest.raises(EvalkitError, match="timeout"):
        run(simple, tmp_path / "out", timeout=timeout)
