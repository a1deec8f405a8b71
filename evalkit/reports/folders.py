"""Where an executed notebook ends up, and how one knows that it is complete.

::

    out/<notebook>/<key>/           complete: moved here in one step
        run.ipynb                   the executed notebook
        run.json                    what ran, how it ended, digests of the notebook and the results
        results.json                what the notebook emitted
        report.html                 for people
    out/<notebook>/<key>.partial/   running, or failed
    out/<notebook>/<key>.failed-1/  an earlier failed attempt under a key that the caller gave

Rules
- ``run.json`` with status ``completed`` is the only sign of success.  papermill's metadata says
  ``completed`` after a timeout, a dead kernel and an interrupt too.
- A key that evalkit derives names its inputs (notebook, parameters, version, data); done is done, and it
  is not run again.  A key that the caller gives names an occasion, such as a sealed run: nothing under it
  is ever skipped or replaced, and failed attempts stay as evidence.
- The folder is held by a lock while it is being written; a second process is told so.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import evalkit
from evalkit.errors import EvalkitError
from evalkit.sealing import canonical_json

SCHEMA = "evalkit/notebook-run/1"
NOTEBOOK, RECORD, RESULTS, REPORT = "run.ipynb", "run.json", "results.json", "report.html"
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def derived_key(notebook_digest: str, parameters: Mapping[str, Any], data: Mapping[str, str]) -> str:
    """The key of a run that is the same whenever its inputs are."""
    inputs = {
        "schema": SCHEMA,
        "notebook": notebook_digest,
        "parameters": dict(parameters),
        "evalkit": evalkit.__version__,
        "data": dict(data),
    }
    return hashlib.sha256(canonical_json(inputs)).hexdigest()[:24]


def checked_key(key: str) -> str:
    if not _KEY.fullmatch(key) or key.endswith(".partial"):
        raise EvalkitError(
            f"{key!r} cannot name a run folder",
            expected="1 to 128 letters, digits, dots, dashes or underscores, not ending in .partial",
        )
    return key


class RunFolder:
    """One run's folder, from empty to published.  Use as a context manager: it holds the lock."""

    def __init__(self, parent: Path, key: str, *, keep_failures: bool) -> None:
        self.final = parent / key
        self.partial = parent / f"{key}.partial"
        self._keep_failures = keep_failures
        self._lock = -1

    def __enter__(self) -> RunFolder:
        if self.final.exists():
            raise EvalkitError(
                f"the run folder {self.final.name} exists already",
                where=str(self.final),
                expected="a new key: a run is never replaced",
                do="read that run, or start a new one",
            )
        self.final.parent.mkdir(parents=True, exist_ok=True)
        self._hold()
        if self._keep_failures and (self.partial / RECORD).exists():
            number = 1
            while (aside := self.final.with_name(f"{self.final.name}.failed-{number}")).exists():
                number += 1
            self.partial.rename(aside)
            os.close(self._lock)
            self._hold()
        for entry in self.partial.iterdir():
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _hold(self) -> None:
        """Create the partial folder and lock that very folder, so that no lock file is left behind."""
        self.partial.mkdir(exist_ok=True)
        self._lock = os.open(self.partial, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            same = os.path.samestat(os.fstat(self._lock), self.partial.stat())
        except OSError:
            same = False
        if not same:
            os.close(self._lock)
            self._lock = -1
            raise EvalkitError(
                f"another process is running {self.final.name}",
                where=str(self.partial),
                do="wait for it, or end it",
            )

    def record(self, entry: Mapping[str, Any]) -> None:
        """Write run.json, whole or not at all."""
        write_json(self.partial / RECORD, entry)

    def publish(self) -> Path:
        """Move the partial folder to its final name; `EvalkitError` if something is there by now."""
        # rename() replaces an empty folder and refuses a full one; the check narrows the former down.
        if self.final.exists():
            raise EvalkitError(f"{self.final.name} appeared meanwhile", where=str(self.final))
        _sync(self.partial)
        self.partial.rename(self.final)
        _sync(self.final.parent)
        return self.final


def read_done(folder: Path) -> dict[str, Any] | None:
    """The record of a completed run; None where there is no such folder.

    Raises `EvalkitError` where the folder is there but incomplete or changed since.
    """
    if not folder.exists():
        return None
    try:
        record: dict[str, Any] = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        if record["schema"] != SCHEMA or record["status"] != "completed":
            raise ValueError(f"{RECORD} says {record['schema']} {record['status']}")
        for name, expected in record["files"].items():
            if digest((folder / name).read_bytes()) != expected:
                raise ValueError(f"{name} is not what was written")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise EvalkitError(
            f"the run folder {folder.name} is not a completed run: {error}",
            where=str(folder),
            expected=f"{RECORD} with status completed and the files that it lists, unchanged",
            do="move the folder away and run again",
        ) from None
    return record


def write_json(path: Path, value: Any) -> None:
    """Readable JSON with sorted keys, written beside its place and moved there."""
    temporary = path.with_name(f".{path.name}.new")
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
