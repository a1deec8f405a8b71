"""A notebook run for the sake of its page alone: the page goes where it was asked for, and nothing else stays."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalkit.errors import EvalkitError
from evalkit.reports.execution import execute


def refuse_target(target: Path, option: str) -> None:
    """Raise where no page can be written: a folder, or a file in a folder that is not there."""
    if target.is_dir() or not target.absolute().parent.is_dir():
        raise EvalkitError(
            "the report cannot be written there",
            where=str(target),
            expected="the name of a file in an existing folder",
            do=f"give {option} a file name",
        )


def write_page(notebook: str, parameters: Mapping[str, Any], target: Path, *, beside: Path) -> Path:
    """Run a notebook that comes with evalkit and put its report at ``target``, as a whole or not at all.

    ``beside``: the folder for the half-written page, on the file system of ``target``.  Where the notebook
    fails, its folder is kept and the error names it.
    """
    folder = Path(tempfile.mkdtemp(prefix="evalkit-"))
    done = execute(notebook, dict(parameters), out=folder, key="report", progress=False, kept=False)
    page = done.report.read_bytes()
    shutil.rmtree(folder)
    # under a name that nobody could have planted
    fd, name = tempfile.mkstemp(prefix=f".{target.stem}.", dir=beside)
    try:
        with os.fdopen(fd, "wb") as stream:
            stream.write(page)
        Path(name).replace(target)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
    return target
