"""Running a parameterised notebook so that success cannot be mistaken.

Rules
- Parameters are validated before a kernel starts, and all of them are injected, defaults included: the
  executed notebook alone says what it ran with.
- Success means that papermill returned, every code cell was executed, none shows an error, and the run
  folder with its ``run.json`` was moved to its final name.  `sys.exit()` in a cell is an error: papermill
  calls it success and leaves the cells after it alone.
- ``timeout`` is for the whole run.  A failed run leaves ``<key>.partial`` with the executed notebook, which
  shows the error, and a ``run.json`` with status ``failed``.
- A run works the same in a terminal, in a thread and inside a running event loop (Jupyter).
"""

from __future__ import annotations

import json
import logging
import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evalkit.errors import CellError, EvalkitError, KernelLost
from evalkit.reports import folders, kernel
from evalkit.reports.export import export_html
from evalkit.reports.parameters import validate_parameters
from evalkit.reports.results import environment, read_emission
from evalkit.resources import resource

# A cell may leave its files in the folder that this variable names; they are published with the run.
RUN_FOLDER = "EVALKIT_RUN_FOLDER"
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_LONGEST_MESSAGE = 500


@dataclass(frozen=True)
class Execution:
    """A completed run.  ``seconds`` is what the run took when it ran, also where it is ``skipped`` now."""

    directory: Path
    notebook: Path
    report: Path
    results: dict[str, Any]
    parameters: dict[str, Any]
    key: str
    seconds: float
    status: str = "completed"
    skipped: bool = False

    def summary(self) -> str:
        how = "done before" if self.skipped else f"{self.seconds:.1f} s"
        return f"{self.directory.parent.name} {self.key}: {self.status} ({how}), {self.directory}"


class _CellFailed(Exception):
    def __init__(self, index: int, name: str, message: str) -> None:
        self.index, self.name, self.message = index, name, message


class _Lost(Exception):
    def __init__(self, index: int, name: str, message: str) -> None:
        self.index, self.name, self.message = index, name, message


def notebook_path(name_or_path: str | Path) -> Path:
    """The notebook of that path, or the shipped notebook of that name (``decisions/report`` or with suffix)."""
    path = Path(name_or_path)
    if path.suffix == ".ipynb" and path.is_file():
        return path
    parts = path.with_suffix("").parts if path.suffix == ".ipynb" else path.parts
    if isinstance(name_or_path, str) and parts and not path.is_absolute() and ".." not in parts:
        try:
            return resource("notebooks", *parts[:-1], parts[-1] + ".ipynb")
        except EvalkitError:
            pass
    raise EvalkitError(
        f"there is no notebook {str(name_or_path)!r}",
        expected="the path of an .ipynb file or a name that `evalkit notebooks list` shows",
        do="evalkit notebooks list",
    )


def execute(
    name_or_path: str | Path,
    parameters: Mapping[str, Any] | None = None,
    *,
    out: Path | str,
    key: str | None = None,
    title: str | None = None,
    timeout: float = 600,
    progress: bool = True,
    environ: Mapping[str, str] | None = None,
    data: Mapping[str, str] | None = None,
    workdir: Path | str | None = None,
    kept: bool = True,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Execution:
    """Run a notebook into ``out/<notebook>/<key>/`` and return what came of it.

    key: names the run folder; by default a hash of the notebook's bytes, its parameters, evalkit's version
        and ``data``.  A derived key that is done is skipped; a given key must be new.
    timeout: seconds for all cells together.
    environ: variables for the kernel, beside those of this process.
    data: name to digest of the inputs that the notebook reads; part of the derived key and of run.json.
    workdir: the kernel's working directory, by default this process's, so that relative paths mean what
        the caller meant.
    kept: the run folder stays, so that the report may name the executed notebook in it.

    Raises `CellError` for a cell that failed, `KernelLost` for a timeout or a dead kernel, `EvalkitError`
    for parameters, a missing kernel or an existing folder.
    """
    source = notebook_path(name_or_path)
    values = validate_parameters(source, parameters or {})
    if not (math.isfinite(timeout) and timeout > 0):
        raise EvalkitError(f"the timeout is {timeout}", expected="a positive number of seconds")
    notebook_digest = folders.digest(source.read_bytes())
    given = key is not None
    key = (
        folders.checked_key(key)
        if key is not None
        else folders.derived_key(notebook_digest, values, data or {})
    )
    parent = Path(out).absolute() / source.stem
    if not given and (done := folders.read_done(parent / key)) is not None:
        if not (report := parent / key / folders.REPORT).exists():
            export_html(parent / key / folders.NOTEBOOK, report, title=title)
        return _execution(parent / key, done, skipped=True)

    record: dict[str, Any] = {
        "schema": folders.SCHEMA,
        "status": "running",
        "notebook": source.name,
        "notebook_digest": notebook_digest,
        "key": key,
        "parameters": values,
        "data": dict(data or {}),
        "started_at": clock().isoformat(timespec="seconds"),
        "versions": environment(),
    }
    with folders.RunFolder(parent, key, keep_failures=given) as folder:
        executed = folder.partial / folders.NOTEBOOK
        started = time.monotonic()
        folder.record(record)
        try:
            _run(source, executed, values, timeout, progress, environ or {}, Path(workdir or Path.cwd()))
            record["seconds"] = round(time.monotonic() - started, 3)
            _publishable(folder, executed, record, title, shipped=None if kept else source.stem)
        except (_CellFailed, _Lost) as failure:
            record |= {
                "status": "failed",
                "seconds": round(time.monotonic() - started, 3),
                "error": {"cell": failure.index + 1, "name": failure.name, "message": failure.message},
            }
            _show_failure(executed, failure)
            folder.record(record)
            kind = CellError if isinstance(failure, _CellFailed) else KernelLost
            first, *more = failure.message.splitlines() or [""]
            raise kind(
                f"cell {failure.index + 1} of {source.name}: {failure.name}: {first}"
                if failure.name
                else f"cell {failure.index + 1} of {source.name}: {first}",
                details=tuple(more),
                where=str(executed),
                do="open the executed notebook named above; the cell shows the error",
            ) from None
        except BaseException as error:
            record |= {
                "status": "failed",
                "seconds": round(time.monotonic() - started, 3),
                "error": {
                    "cell": None,
                    "name": type(error).__name__,
                    "message": str(error)[:_LONGEST_MESSAGE],
                },
            }
            folder.record(record)
            raise
        final = folder.publish()
    return _execution(final, record, skipped=False)


def _run(
    source: Path,
    executed: Path,
    values: Mapping[str, Any],
    timeout: float,
    show_progress: bool,
    environ: Mapping[str, str],
    workdir: Path,
) -> None:
    """Execute; raise `_CellFailed` or `_Lost` with the index of the cell in the executed notebook."""
    from contextlib import ExitStack

    papermill = kernel.papermill()
    from jupyter_client.kernelspec import NoSuchKernel
    from nbclient.exceptions import CellTimeoutError, DeadKernelError

    from evalkit.progress import Progress
    from evalkit.progress import progress as progress_of

    # What it has to say is in our errors; its warnings are about parameters, which we validated better.
    if (logger := logging.getLogger("papermill")).level == logging.NOTSET:
        logger.setLevel(logging.CRITICAL)
    current = 0
    deadline = time.monotonic() + timeout

    def started(cell: Any, cell_index: int) -> None:
        nonlocal current
        current = cell_index
        if bar is not None:
            bar.update(cell_index - bar.done)

    bar: Progress[None] | None = None
    with ExitStack() as stack:
        if show_progress:
            # papermill adds a cell for the parameters.
            cells = len(json.loads(source.read_text(encoding="utf-8"))["cells"]) + bool(values)
            bar = stack.enter_context(progress_of(cells, source.stem))
        arguments = stack.enter_context(
            kernel.batch_kernel(
                {RUN_FOLDER: str(executed.parent), **environ}, log=executed.parent / kernel.LOG
            )
        )
        try:
            papermill.execute_notebook(
                _unformatted(source),
                _unformatted(executed),
                parameters=dict(values),
                kernel_name=kernel.KERNEL,
                language="python",
                progress_bar=False,
                execution_timeout=math.ceil(timeout),
                # nbclient's timeout is per cell; what is left of the whole is what a cell may take.
                timeout_func=lambda cell: max(0.05, deadline - time.monotonic()),
                resources={"metadata": {"path": str(workdir)}},
                on_cell_start=started,
                **arguments,
            )
        except papermill.exceptions.PapermillExecutionError as error:
            raise _CellFailed(error.cell_index, error.ename, _brief(error.evalue)) from None
        except CellTimeoutError:
            raise _Lost(current, "Timeout", f"the notebook took longer than {timeout:g} s") from None
        except DeadKernelError:
            raise _Lost(
                current, "DeadKernel", "the kernel died (killed, out of memory, or a crash)"
            ) from None
        except NoSuchKernel:
            raise EvalkitError(
                f"there is no {kernel.KERNEL} kernel to run the notebook with",
                expected="ipykernel, installed in the environment that runs evalkit",
                do="pip install ipykernel",
            ) from None
        except RuntimeError as error:
            if "Kernel died" in str(error) or "Kernel didn't respond" in str(error):
                raise _Lost(current, "DeadKernel", _brief(str(error))) from None
            raise
        if bar is not None:
            bar.update(cells - bar.done)
    _distrust(executed)


def _distrust(executed: Path) -> None:
    """Look for ourselves: every code cell executed, none with an error."""
    for index, cell in enumerate(json.loads(executed.read_text(encoding="utf-8"))["cells"]):
        if cell["cell_type"] != "code":
            continue
        for output in cell["outputs"]:
            if output["output_type"] == "error":
                raise _CellFailed(index, output["ename"], _brief(output["evalue"]))
        if "".join(cell["source"]).strip() and cell["execution_count"] is None:
            raise _CellFailed(index, "", "the cell was not executed")


def _publishable(
    folder: folders.RunFolder,
    executed: Path,
    record: dict[str, Any],
    title: str | None,
    shipped: str | None,
) -> None:
    """Write what a completed run consists of; ``run.json`` last."""
    (folder.partial / kernel.LOG).unlink(missing_ok=True)  # noise of a shutdown, after all went well
    _portable(executed)
    emission = read_emission(executed)
    folders.write_json(folder.partial / folders.RESULTS, emission.results if emission else {})
    export_html(executed, folder.partial / folders.REPORT, title=title, shipped=shipped)
    record["emitted"] = emission is not None
    record["files"] = {
        name: folders.digest((folder.partial / name).read_bytes())
        for name in (folders.NOTEBOOK, folders.RESULTS)  # the report is made from them, and may be again
    }
    record["status"] = "completed"
    folder.record(record)


def _portable(executed: Path) -> None:
    """Take this machine's paths out of papermill's metadata."""
    notebook = json.loads(executed.read_text(encoding="utf-8"))
    note = notebook["metadata"].get("papermill", {})
    for name in ("input_path", "output_path"):
        if note.get(name):
            note[name] = Path(note[name]).name
    _write_notebook(executed, notebook)


def _show_failure(executed: Path, failure: _CellFailed | _Lost) -> None:
    """Make the executed notebook show the error where papermill leaves none (timeout, dead kernel)."""
    if not executed.exists():
        return
    notebook = json.loads(executed.read_text(encoding="utf-8"))
    # papermill marks an error with two cells of its own; the number of the cell must fit the file.
    marked = [
        cell
        for cell in notebook["cells"]
        if "papermill-error-cell-tag" not in cell["metadata"].get("tags", [])
    ]
    notebook["cells"] = marked
    cell = marked[failure.index] if failure.index < len(marked) else None
    # What a lost kernel's cell shows, if anything, is the KeyboardInterrupt of being shut down.
    shown = isinstance(failure, _CellFailed) and any(
        output["output_type"] == "error" for output in (cell or {}).get("outputs", [])
    )
    if cell is not None and cell["cell_type"] == "code" and not shown:
        name = failure.name or "NotExecuted"
        cell["outputs"].append(
            {
                "output_type": "error",
                "ename": name,
                "evalue": failure.message,
                "traceback": [f"{name}: {failure.message}"],
            }
        )
    notebook["metadata"].setdefault("papermill", {})["exception"] = True
    _write_notebook(executed, notebook)


def _write_notebook(path: Path, notebook: Any) -> None:
    path.write_text(
        json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8"
    )


def _unformatted(path: Path) -> str:
    """papermill fills ``{name}`` in paths with parameters; a brace in a path is just a brace."""
    return str(path.absolute()).replace("{", "{{").replace("}", "}}")


def _brief(text: str) -> str:
    text = _ANSI.sub("", text).strip()
    return text if len(text) <= _LONGEST_MESSAGE else text[: _LONGEST_MESSAGE - 3] + "..."


def _execution(directory: Path, record: Mapping[str, Any], *, skipped: bool) -> Execution:
    return Execution(
        directory=directory,
        notebook=directory / folders.NOTEBOOK,
        report=directory / folders.REPORT,
        results=json.loads((directory / folders.RESULTS).read_text(encoding="utf-8")),
        parameters=dict(record["parameters"]),
        key=record["key"],
        seconds=record["seconds"],
        status=record["status"],
        skipped=skipped,
    )
