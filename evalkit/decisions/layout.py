"""Where things lie in a decision run, and how they are read.

::

    RUN/plan.json  plan.dsse.json            the precommit and its attestation
    RUN/part-a/<case>/…                      the frozen evidence
    RUN/instructions/…                       prompt template, response schema, rubric
    RUN/model/replay.json                    only where the model is a replay
    RUN/sealed/*.sealed                      catalog, mapping, Part B: ciphertext
    RUN/journal.jsonl                        copy of the ledger's segment
    RUN/ex-ante/run.json  run.dsse.json      after evaluate --write-run
    RUN/reveal/calibration.json  …dsse.json  after reveal --write-calibration
    RUN/timestamps/<phase>.tsr               optional: RFC 3161 tokens over the attestations

Everything below RUN but report.html, the notebook's own files and the tokens, which prove themselves, is
attested, directly or by a digest in the plan.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from evalkit.errors import Binding, BindingError, EvalkitError
from evalkit.sealing.canonical import MAX_BYTES

EX_ANTE = "ex-ante"
EX_ANTE_FILE = "run.json"
REVEAL = "reveal"
REVEAL_FILE = "calibration.json"
JOURNAL = "journal.jsonl"
INSTRUCTIONS = ("prompt.md", "response.schema.json", "rubric.json")


#: what code that walks a signed document may raise where the document has another form than it should
MALFORMED = (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError, AssertionError)


def sealed_file(kind: str) -> str:
    return f"sealed/{kind}.sealed"


def about_extra(names: list[str]) -> str:
    """What to do about entries of a run folder that no format names."""
    if any(name.startswith(".stage.") for name in names):
        return "a folder .stage.* is left by a phase that was interrupted: run that phase again, and it is settled"
    return "find out who put it there, and move it away"


def check_parent(out: Path) -> None:
    """Refuse, before anything is made, a new folder whose parent is not there."""
    if not out.absolute().parent.is_dir():
        raise EvalkitError(
            "the folder for it does not exist",
            where=str(out.absolute().parent),
            expected="an existing folder",
            do="make it, or choose another --out",
        )


def read_bound(
    run_dir: Path,
    name: str,
    binding: Binding,
    *,
    expected: str = "the run folder as `evalkit decisions precommit` made it",
    do: str = "restore the file, or start a new run",
) -> bytes:
    """Read a regular file of a run (or of a bundle), following no link.

    An absent or irregular file fails its binding.  What was read is compared with a digest by the
    caller, and no path is opened twice: there is no moment between check and use.
    """
    path = run_dir / name
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as stream:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise OSError(0, "it is no regular file")
            found = os.fstat(fd)
            if found.st_size > MAX_BYTES:
                raise OSError(0, f"it has {found.st_size} bytes")
            if found.st_nlink != 1:
                raise OSError(0, f"it has {found.st_nlink} names")
            return stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise BindingError(
            binding,
            f"cannot read {name} ({error.strerror})",
            where=str(run_dir),
            expected=expected,
            do=do,
        ) from None
