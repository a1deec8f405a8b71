from __future__ import annotations

import io

import pytest

from evalkit.progress import is_watched, progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_log_gets_first_and_last_and_a_line_now_and_then() -> None:
    out, now = io.StringIO(), [0.0]
    for _ in progress(range(30), "runs", stream=out, clock=lambda: now[0]):
        now[0] += 1
    lines = out.getvalue().splitlines()
    assert lines[0] == "runs: 0/30"
    assert lines[-1] == "runs: 30/30"
    assert 3 <= len(lines) <= 5
    assert "\r" not in out.getvalue()


def test_a_terminal_gets_a_bar() -> None:
    out = Terminal()
    with progress(3, "runs", stream=out) as bar:
        bar.update(3)
    assert "\r" in out.getvalue()


def test_a_batch_is_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVALKIT_BATCH", raising=False)
    assert is_watched(Terminal())
    assert not is_watched(io.StringIO())
    monkeypatch.setenv("EVALKIT_BATCH", "1")
    assert not is_watched(Terminal())


def test_a_total_alone_has_nothing_to_iterate() -> None:
    with pytest.raises(TypeError):
        list(progress(3, stream=io.StringIO()))


def test_unknown_totals_are_counted() -> None:
    out = io.StringIO()
    assert list(progress(iter("ab"), stream=out)) == ["a", "b"]
    assert out.getvalue() == "0\n2\n"
