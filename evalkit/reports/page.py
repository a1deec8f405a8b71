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


def refuse_target(target: Path, option: str, *sources: Path) -> None:
    """Raise where no page can be written, or where it would take the place of one of its ``sources``.

    A page can be written in a folder that is there and that one may write to, under a free name or that of a
    regular file.  A device would be replaced by the page, and everything else that uses it would break.
    """
    folder = target.absolute().parent
    if not folder.is_dir() or (target.exists() and not target.is_file()):
        raise EvalkitError(
            "the report cannot be written there",
            where=str(target),
            expected="the name of a file in an existing folder",
            do=f"give {option} a file name",
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise EvalkitError(
            "the report cannot be written there: no permission",
            where=str(target),
            expected="a folder that you may write to",
            do=f"give {option} a file name in another folder",
        )
    if any(target.exists() and source.exists() and target.samefile(source) for source in sources):
        raise EvalkitError(
            "the report would overwrite the file that it is about",
            where=str(target),
            expected="another file than what is read",
            do=f"give {option} another name",
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
