"""How far long work is: a bar for a person who watches, plain lines for a log.

Rules
- A terminal and a live notebook get tqdm; everything else gets a line of text now and then.
- No widgets and no rich: rich's notebook output is an ipywidget, which can hang an execution without a
  timeout (nbclient issue 312) and pulls a script from a CDN into exported reports.
- Progress goes to stderr.  It is never part of a result.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Generic, TextIO, TypeVar

T = TypeVar("T")

# evalkit sets this for the kernels it starts: nobody watches those.
BATCH = "EVALKIT_BATCH"
# A log gets the first and last line, and in between at most one line in so many seconds.
LINE_EVERY = 10.0


class Progress(Generic[T]):
    """Counts work that is done; iterate over it, or call `update` within a ``with`` block."""

    def __init__(
        self,
        iterable: Iterable[T] | None,
        total: int | None,
        description: str,
        stream: TextIO,
        bar: Any,
        clock: Callable[[], float],
    ) -> None:
        self.done = 0
        self.total = total
        self.description = description
        self._iterable = iterable
        self._stream = stream
        self._bar = bar
        self._clock = clock
        self._last = clock()
        self._closed = False
        if bar is None:
            self._line()

    def update(self, n: int = 1) -> None:
        """``n`` more pieces are done."""
        self.done += n
        if self._bar is not None:
            self._bar.update(n)
        elif self._clock() - self._last >= LINE_EVERY and self.done != self.total:
            self._line()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._bar is not None:
            self._bar.close()
        else:
            self._line()

    def __iter__(self) -> Iterator[T]:
        if self._iterable is None:
            raise TypeError("this progress was given a total and nothing to iterate over")
        with self:
            for item in self._iterable:
                yield item
                self.update()

    def __enter__(self) -> Progress[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _line(self) -> None:
        self._last = self._clock()
        count = f"{self.done}/{self.total}" if self.total is not None else str(self.done)
        print(f"{self.description}: {count}" if self.description else count, file=self._stream, flush=True)


def progress(
    iterable: Iterable[T] | int | None = None,
    description: str = "",
    *,
    total: int | None = None,
    stream: TextIO | None = None,
    watched: bool | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Progress[T]:
    """Progress over an iterable, or over a number of pieces counted by hand.

    ``iterable`` may be the total itself.  ``watched`` overrides the guess whether a person looks on.
    """
    if isinstance(iterable, int):
        iterable, total = None, iterable
    if total is None and hasattr(iterable, "__len__"):
        total = len(iterable)  # type: ignore[arg-type]
    stream = sys.stderr if stream is None else stream
    bar = None
    if is_watched(stream) if watched is None else watched:
        # tqdm.std and not tqdm.auto: the latter would choose a widget in Jupyter.
        from tqdm.std import tqdm

        bar = tqdm(total=total, desc=description or None, file=stream, leave=False)
    return Progress(iterable, total, description, stream, bar, clock)


def is_watched(stream: TextIO) -> bool:
    """Whether a person looks at this stream: a terminal, or a notebook that somebody runs by hand."""
    if os.environ.get(BATCH):
        return False
    if getattr(stream, "isatty", lambda: False)():
        return True
    return type(stream).__module__.startswith("ipykernel")
