"""Tables, metric cards, badges and notices as semantic HTML, in Jupyter and in the exported report.

Rules
- Plain values in, escaped HTML out.  Only `Html` values are taken as markup.
- No inline styles: the report's style sheet colours them for light, dark and print.
- Nothing is said by colour alone: a badge has words, and a notice names its kind.
- A headline is a `Card`: value, interval, n and the convention that it was computed by, together.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from evalkit.errors import EvalkitError

if TYPE_CHECKING:
    import pandas as pd

# Tables of more columns than these are set smaller on paper, where they cannot scroll.
_WIDE, _WIDER = 8, 12
# Text from so many characters on gets a column of a readable width; text up to so many is not broken.
_LONG, _SHORT = 36, 9

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
Kind = Literal["info", "ok", "warn", "bad"]
_MARKS: dict[Kind, str] = {"info": "i", "ok": "✓", "warn": "!", "bad": "✕"}
_NOTICES: dict[Kind, str] = {"info": "Note", "ok": "Passed", "warn": "Warning", "bad": "Failed"}


# How these look in Jupyter, in the colours of its theme.  The report takes it out and has its own sheet.
_JUPYTER = """<style>
div.cards { display: flex; flex-wrap: wrap; gap: .8em; margin: .6em 0 }
dl.card { flex: 1 1 12em; margin: 0; padding: .7em .9em; border: 1px solid var(--jp-border-color1, #ccc); border-radius: 5px }
dl.card dt, dl.card dd { float: none; display: block; width: auto; margin: 0; padding: 0; font-weight: 400 }
dl.card dd.value { font-size: 1.7em; font-weight: 600; line-height: 1.3 }
dl.card .unit { font-size: .6em; font-weight: 400 }
dl.card dd.note, dl.card dd.n { opacity: .75 }
div.notice { margin: .6em 0; padding: .5em .9em; border-left: 4px solid var(--jp-border-color1, #999) }
div.notice.ok { border-color: #2e8b57 } div.notice.warn { border-color: #c98a00 } div.notice.bad { border-color: #c62f3a }
div.notice p.notice-title { margin: 0; font-weight: 600 }
span.badge { padding: 0 .5em; border: 1px solid currentColor; border-radius: 1em; white-space: nowrap }
div.table-scroll { overflow-x: auto }
div.table-scroll table.data.data :is(th, td) { text-align: left; vertical-align: top }
div.table-scroll table.data.data .num { text-align: right; font-variant-numeric: tabular-nums }
table.data caption { text-align: left; font-weight: 600 }
</style>
"""


@dataclass(frozen=True, repr=False)
class Html:
    """Trusted markup, and the text that stands for it where there is no HTML."""

    markup: str
    text: str = ""

    def _repr_html_(self) -> str:
        return _JUPYTER + self.markup

    def __repr__(self) -> str:
        return f"<{self.text}>"

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Column:
    """A column of a `Table`.

    numeric: right-aligned with even figures; None decides by the values.
    format: a format specification for numbers, such as ``.3f`` or ``+.1%``.
    heading: each cell of the column names its row (the first column does by default).
    """

    name: str
    numeric: bool | None = None
    format: str | None = None
    heading: bool | None = None


@dataclass(frozen=True)
class Table:
    """Rows under columns, with a caption that says what they show.

    stack: on a narrow screen each row becomes a block of labelled lines; for tables of sentences.
    """

    columns: Sequence[Column | str]
    rows: Sequence[Sequence[Any]]
    caption: str = ""
    note: str = ""
    stack: bool = False
    _columns: tuple[Column, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        columns = tuple(Column(c) if isinstance(c, str) else c for c in self.columns)
        rows = tuple(tuple(row) for row in self.rows)
        for number, row in enumerate(rows):
            if len(row) != len(columns):
                raise EvalkitError(
                    f"row {number} of the table has {len(row)} cells",
                    where=self.caption,
                    expected=f"{len(columns)}: {', '.join(column.name for column in columns)}",
                )
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "_columns", columns)

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        rows = [[str(cell) if isinstance(cell, Html) else cell for cell in row] for row in self.rows]
        return pd.DataFrame(rows, columns=[column.name for column in self._columns])

    def _repr_html_(self) -> str:
        numeric = [self._numeric(i, column) for i, column in enumerate(self._columns)]
        heading = [
            column.heading if column.heading is not None else i == 0 for i, column in enumerate(self._columns)
        ]
        head = "".join(
            f'<th scope="col"{_class("num" if numeric[i] else "")}>{html.escape(column.name)}</th>'
            for i, column in enumerate(self._columns)
        )
        body = "".join(
            "<tr>"
            + "".join(
                self._cell(cell, column, numeric[i], heading[i])
                for i, (cell, column) in enumerate(zip(row, self._columns, strict=True))
            )
            + "</tr>\n"
            for row in self.rows
        )
        if not self.rows:
            body = f'<tr><td colspan="{len(self._columns)}" class="none">no rows</td></tr>\n'
        caption = f"<caption>{html.escape(self.caption)}</caption>\n" if self.caption else ""
        note = f'\n<p class="table-note">{html.escape(self.note)}</p>' if self.note else ""
        label = html.escape(self.caption or "Table", quote=True)
        return _JUPYTER + (
            f'<div class="table-scroll" role="region" aria-label="{label}" tabindex="0">\n'
            f'<table class="{table_classes(len(self._columns))}{" stack" if self.stack else ""}">\n{caption}<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n'
            f"</table>\n</div>{note}"
        )

    def _numeric(self, index: int, column: Column) -> bool:
        if column.numeric is not None:
            return column.numeric
        values = [row[index] for row in self.rows if row[index] is not None]
        return bool(values) and all(_is_number(value) for value in values)

    def _cell(self, value: Any, column: Column, numeric: bool, heading: bool) -> str:
        classes = "num" if numeric else ""
        if value is None:
            text, classes = "–", f"{classes} none".strip()
        elif isinstance(value, Html):
            text = value.markup
        else:
            plain = _text(value, column.format)
            text = html.escape(plain)
            if not numeric and len(plain) >= _LONG:
                classes = "long"
            elif not numeric and ((len(plain) <= _SHORT and " " in plain) or _DAY.fullmatch(plain)):
                classes = "short"
        if heading:
            return f'<th scope="row"{_class(classes)}>{text}</th>'
        label = f' data-label="{html.escape(column.name, quote=True)}"' if self.stack else ""
        return f"<td{_class(classes)}{label}>{text}</td>"


@dataclass(frozen=True)
class Card:
    """One headline number.

    unit: printed smaller behind the value, such as ``of 100``.
    interval: its uncertainty, spelled out with the level, such as ``95% interval .12 to .31``.
    n: how many independent units it rests on.
    note: the convention behind it (which mean, which scale, which way is better).
    """

    label: str
    value: str
    unit: str = ""
    interval: str = ""
    n: int | str | None = None
    note: str = ""
    kind: Kind | None = None


def cards(items: Iterable[Card]) -> Html:
    """Metric cards in a row that wraps; for the head of a report."""
    items = list(items)
    parts = []
    for card in items:
        unit = f' <span class="unit">{html.escape(card.unit)}</span>' if card.unit else ""
        lines = [
            f"<dt>{html.escape(card.label)}</dt>",
            f'<dd class="value">{html.escape(card.value)}{unit}</dd>',
        ]
        if card.interval:
            lines.append(f'<dd class="interval">{html.escape(card.interval)}</dd>')
        if card.n is not None:
            lines.append(f'<dd class="n"><i>n</i> = {html.escape(str(card.n))}</dd>')
        if card.note:
            lines.append(f'<dd class="note">{html.escape(card.note)}</dd>')
        parts.append(f'<dl class="card{f" {card.kind}" if card.kind else ""}">{"".join(lines)}</dl>')
    text = "; ".join(f"{card.label} {card.value} {card.unit}".strip() for card in items)
    return Html(f'<div class="cards">\n{chr(10).join(parts)}\n</div>', text)


def badge(text: str, kind: Kind = "info") -> Html:
    """A word in a pill, with a mark for its kind; goes into table cells too."""
    mark = _MARKS[kind]
    return Html(
        f'<span class="badge {kind}"><span class="mark" aria-hidden="true">{mark}</span> '
        f"{html.escape(text)}</span>",
        text,
    )


def notice(kind: Kind, text: str | Html, *, heading: str | None = None) -> Html:
    """A visible remark about the result.  ``text`` is escaped unless it is `Html`."""
    title = heading or _NOTICES[kind]
    body = text.markup if isinstance(text, Html) else html.escape(text)
    return Html(
        f'<div class="notice {kind}" role="note"><p class="notice-title">'
        f'<span class="mark" aria-hidden="true">{_MARKS[kind]}</span> {html.escape(title)}</p>'
        f'<div class="notice-body">{body}</div></div>',
        f"{title}: {text}",
    )


def _is_number(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int | float) or (
        hasattr(value, "dtype")
        and getattr(value.dtype, "kind", "") in "iuf"
        and getattr(value, "ndim", 1) == 0
    )


def _text(value: Any, spec: str | None) -> str:
    if not _is_number(value):
        return str(value)
    number = value.item() if hasattr(value, "item") else value
    if isinstance(number, float) and not math.isfinite(number):
        return "not a number" if math.isnan(number) else ("∞" if number > 0 else "−∞")
    if spec is None:
        spec = "," if isinstance(number, int) else (",.0f" if abs(number) >= 1000 else ".3f")
    if number == 0:  # of no sign, whatever its bits say
        return format(abs(number), spec).lstrip("+")
    return format(number, spec).replace("-", "−") if number < 0 else format(number, spec)


def table_classes(columns: int) -> str:
    """The classes of a table with so many columns."""
    return "data" + (" wide" if columns > _WIDE else "") + (" wider" if columns > _WIDER else "")


def _class(names: str) -> str:
    return f' class="{names}"' if names else ""
