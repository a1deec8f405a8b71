"""Errors that a user can act on, and the exit code that each kind of failure has.

Every error says what is wrong, where, what was expected and what to do.  The command line prints
exactly that and exits with the error's code; it never shows a traceback for a user's mistake.

Exit codes (also in ``evalkit --help`` and docs/exit-codes.md)

====  ==============================================================================
0     done
1     a defect of evalkit: please report it
2     bad parameters or input
3     a notebook cell failed
4     a notebook timed out or its kernel died
5     blocked: a blocker or a verification of the frozen cases stops this phase
6     a service gave no usable answer: the model's (the attempt stays counted), or the timestamp
      authority's (the run stands)
10    ``attestation``    missing, malformed, of another phase, or its signature does not verify
11    ``authority``      the signing key is not pinned, not valid for this, or the trust file is refused
12    ``precommit``      the sealed plan is not what was attested
13    ``part-a``         the frozen evidence is not what was sealed
14    ``prompt``         the prompt is not what the plan and Part A produce
15    ``configuration``  the model configuration or its coordinates differ
16    ``response``       the raw or canonical response differs
17    ``score``          the score does not replay, or the scorer changed
18    ``sealed-packet``  mapping, catalog or Part B do not open to what was committed
19    ``run``            the run folder or its ledger is incomplete, extra, torn or reordered
20    ``timestamp``      a timestamp token is for other bytes, or no pinned authority vouches for it
130   interrupted from the keyboard
====  ==============================================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from evalkit.visible import visible


class EvalkitError(Exception):
    """A failure with a known cause.  ``exit_code`` is what the command line returns.

    The fields are as they were given; the message shows them by `visible`, since file names and what
    files say may hold anything.  ``details`` are further lines of what is wrong.
    """

    exit_code = 2

    def __init__(
        self, what: str, *, where: str = "", expected: str = "", do: str = "", details: tuple[str, ...] = ()
    ) -> None:
        self.what = what
        self.details = details
        self.where = where
        self.expected = expected
        self.do = do
        super().__init__(self.message())

    def message(self) -> str:
        parts = [self.what, *(f"  {detail}" for detail in self.details)]
        if self.where:
            parts.append(f"where: {self.where}")
        if self.expected:
            parts.append(f"expected: {self.expected}")
        if self.do:
            parts.append(f"do: {self.do}")
        return "\n  ".join(map(visible, parts))

    def within(self, place: str) -> None:
        """Put ``place`` (a file) before where it happened, unless it is named there already."""
        if place not in self.where:
            self.where = f"{place}, {self.where}" if self.where else place
            self.args = (self.message(),)


class CellError(EvalkitError):
    """A notebook cell raised."""

    exit_code = 3


class KernelLost(EvalkitError):
    """A notebook ran out of time or its kernel died."""

    exit_code = 4


class Blocked(EvalkitError):
    """A phase may not go on although nothing was tampered with."""

    exit_code = 5


class Binding(Enum):
    """What can fail to bind; the value is the word that errors, JSON and documents use."""

    ATTESTATION = "attestation"
    AUTHORITY = "authority"
    PRECOMMIT = "precommit"
    PART_A = "part-a"
    PROMPT = "prompt"
    CONFIGURATION = "configuration"
    RESPONSE = "response"
    SCORE = "score"
    SEALED_PACKET = "sealed-packet"
    RUN = "run"
    TIMESTAMP = "timestamp"

    @property
    def exit_code(self) -> int:
        return 10 + list(Binding).index(self)


class BindingError(EvalkitError):
    """A digest, signature or chain does not hold.  ``binding`` names which one."""

    def __init__(
        self, binding: Binding, what: str, *, where: str = "", expected: str = "", do: str = ""
    ) -> None:
        self.binding = binding
        self.exit_code = binding.exit_code
        super().__init__(f"{binding.value}: {what}", where=where, expected=expected, do=do)


@contextmanager
def located(place: str) -> Iterator[None]:
    """Errors of the block name the file ``place``: what reads bytes does not know whose they are."""
    try:
        yield
    except EvalkitError as error:
        error.within(place)
        raise
