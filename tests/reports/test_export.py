"""The exported page: what is in it, what is not, and that it is the same each time."""

from __future__ import annotations

import base64
import re
from collections import Counter
from pathlib import Path
from typing import Any

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

from evalkit.errors import EvalkitError
from evalkit.reports import Execution, export_html, export_pdf, report_for
from evalkit.reports.results import MIME

from .sample import notebook, write

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()


@pytest.fixture(scope="module")
def page(executed: Execution) -> BeautifulSoup:
    return BeautifulSoup(executed.report.read_text(), "html.parser")


def exported(tmp_path: Path, *cells: Any, name: str = "n") -> BeautifulSoup:
    path = tmp_path / f"{name}.ipynb"
    nbformat.write(notebook(*cells), path)
    return BeautifulSoup(export_html(path, tmp_path / f"{name}.html").read_text(), "html.parser")


def shown(*data: dict[str, Any], metadata: dict[str, Any] | None = None) -> Any:
    outputs = [new_output("display_data", data=item, metadata=metadata or {}) for item in data]
    return new_code_cell("SECRET_SOURCE", outputs=outputs)


def assert_offline(page: BeautifulSoup) -> None:
    """Nothing on the page loads or runs anything."""
    assert not page.find_all(["script", "iframe", "object", "embed", "base", "audio", "video", "form"])
    for element in page.find_all(True):
        for name, value in element.attrs.items():
            assert not name.startswith("on"), element.name
            if name in ("src", "srcset", "data", "action", "poster", "background"):
                assert str(value).startswith("data:image/"), (element.name, name, value)
            if name in ("href", "xlink:href") and element.name != "a":
                assert str(value).startswith(("data:", "#")), (element.name, value)
            assert "javascript:" not in str(value)
    assert not re.search(r"@import|url\((?!#)", str(page))


def assert_unique_ids(page: BeautifulSoup) -> None:
    ids = Counter(element["id"] for element in page.find_all(id=True))
    assert [name for name, count in ids.items() if count > 1] == []


def test_the_same_notebook_gives_the_same_bytes(executed: Execution, tmp_path: Path) -> None:
    first = export_html(executed.notebook, tmp_path / "a.html").read_bytes()
    assert export_html(executed.notebook, tmp_path / "b" / "c.html").read_bytes() == first
    assert executed.report.read_bytes() == first
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.html", "b"]


def test_size_language_policy_and_no_requests(executed: Execution, page: BeautifulSoup) -> None:
    figures = sum(len(str(svg)) for svg in page.find_all("svg"))
    assert executed.report.stat().st_size - figures < 40_000
    assert page.html is not None
    assert page.html["lang"] == "en"
    policy = page.find("meta", attrs={"http-equiv": "Content-Security-Policy"})
    assert policy is not None
    assert policy["content"] == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert_offline(page)


def test_ids_are_unique_and_every_reference_has_its_target(page: BeautifulSoup) -> None:
    assert_unique_ids(page)
    ids = {element["id"] for element in page.find_all(id=True)}
    text = str(page)
    references = set(re.findall(r"url\(#([^)]+)\)", text))
    references |= {str(a["href"])[1:] for a in page.find_all(href=re.compile("^#"))}
    references |= {str(a["xlink:href"])[1:] for a in page.find_all(attrs={"xlink:href": re.compile("^#")})}
    assert references
    assert references - ids == set()


def test_title_and_contents_come_from_the_headings(page: BeautifulSoup) -> None:
    assert [h.text for h in page.find_all("h1")] == ["Can the agent tell which merger closes?"]
    assert page.title is not None
    assert page.title.text == "Can the agent tell which merger closes?"
    assert [a.text for a in page.select("nav a")] == [
        "Method", "Sensitivity", "Results", "What is not proven", "How to reproduce",
    ]  # fmt: skip
    assert page.find("h1").parent.name == "header"


def test_no_code_and_no_prompts_but_every_output(executed: Execution, page: BeautifulSoup) -> None:
    text = page.get_text(" ")
    for source in ("import sys", "default_rng", "Card(", "emit(", "In [", "Out["):
        assert source not in text
    assert len(page.select(".card")) == 3
    assert len(page.select(".notice")) == 2
    assert len(page.select("figure")) == 3
    # The value of a cell's last line (execute_result), which the base templates drop.
    assert page.select_one("table.frame") is not None
    assert "North and Partners acquisition" in text
    assert "samples: 50" in text
    assert "evalkit results" not in text
    # stderr is kept, without the states that a progress bar went through.
    (messages,) = page.select("details.messages")
    assert "a message on stderr" in messages.text


def test_every_figure_is_labelled_and_numbered(page: BeautifulSoup) -> None:
    for number, figure in enumerate(page.find_all("figure"), 1):
        svg = figure.find("svg")
        assert svg["role"] == "img"
        assert len(svg["aria-label"]) > 20
        assert figure.figcaption.text.startswith(f"Figure {number}. ")
        assert not svg.find("metadata")
        assert not svg.find("style")


def test_figures_follow_light_and_dark(page: BeautifulSoup) -> None:
    for svg in page.find_all("svg"):
        assert not re.search(r"#[0-9a-f]{6}\b", str(svg))
        assert "DejaVu" not in str(svg)


def test_math_is_mathml(page: BeautifulSoup) -> None:
    assert len(page.find_all("math")) == 4
    assert "$" not in page.find("main").get_text()
    assert page.find("math", attrs={"display": "block"}) is not None
    assert not page.select("p > div")


@pytest.mark.parametrize(
    ("source", "blocks"),
    [
        (r"\begin{align} a &= b \\ c &= d \end{align}", 1),
        (r"\begin{equation} a = b \end{equation}", 1),
        (r"costs 5 \$ and 6 \$ only", 0),
        (r"$$\frac{1}{2}$$", 1),
    ],
)
def test_kinds_of_math(tmp_path: Path, source: str, blocks: int) -> None:
    page = exported(tmp_path, new_markdown_cell(source))
    assert len(page.find_all("math")) == blocks
    assert not page.select("code.tex")


def test_math_that_does_not_convert_stays_visible(tmp_path: Path) -> None:
    page = exported(tmp_path, new_markdown_cell(r"so $\left( x$ there"))
    assert "x" in page.main.text
    assert r"\left( x" in page.main.text or page.find("math")


def test_hostile_markup_is_left_out_visibly(tmp_path: Path) -> None:
    hostile = (
        "<script>alert(1)</script><img src='https://example.org/x.png'><p onclick='x()'>kept</p>"
        "<iframe src='https://example.org'></iframe><a href='javascript:alert(1)'>link</a>"
        "<link rel='stylesheet' href='https://example.org/a.css'><style>@import 'x'; body{display:none}</style>"
        "<p style='background: url(https://example.org/b.png)'>also</p>"
    )
    page = exported(tmp_path, new_markdown_cell(hostile), shown({"text/html": hostile}))
    assert_offline(page)
    remarks = [p.text for p in page.select(".left-out")]
    assert sum("script" in remark for remark in remarks) == 2
    assert sum("https://example.org/x.png" in remark for remark in remarks) == 2
    assert page.main.text.count("kept") == 2


def test_task_lists_keep_their_boxes(tmp_path: Path) -> None:
    page = exported(tmp_path, new_markdown_cell("- [x] sealed\n- [ ] revealed"))
    assert [box["aria-label"] for box in page.select("input[type=checkbox][disabled]")] == ["done", "open"]
    assert not page.select(".left-out")


def test_hostile_names_do_not_break_out(tmp_path: Path) -> None:
    page = exported(
        tmp_path,
        new_markdown_cell('# A <i>b</i> & "c" `<script>`\n\n## X & <b>y</b>\n\n## `<script>`'),
        shown({"text/plain": "<script>alert(1)</script>"}),
    )
    assert_offline(page)
    assert page.title is not None
    assert page.title.text == 'A b & "c" <script>'
    assert [a.text for a in page.select("nav a")] == ["X & y", "<script>"]


def test_what_cannot_be_shown_is_named(tmp_path: Path) -> None:
    page = exported(
        tmp_path,
        shown(
            {"application/vnd.jupyter.widget-view+json": {"model_id": "x"}, "text/plain": "HBox()"},
            {"application/x-odd": "x"},
            {"application/javascript": "alert(1)"},
            {MIME: {"schema": "evalkit/results/1", "results": {}, "environment": {}}, "text/plain": "r"},
        ),
    )
    remarks = [p.text for p in page.select(".left-out")]
    assert len(remarks) == 3
    assert "widget" in remarks[0]
    assert "application/x-odd" in remarks[1]
    assert "application/javascript" in remarks[2]


def test_images_have_words_or_say_that_they_have_none(tmp_path: Path) -> None:
    page = exported(
        tmp_path,
        shown({"image/png": PNG}),
        shown({"image/png": PNG}, metadata={"image/png": {"alt": "A dot"}}),
        shown({"image/svg+xml": "<svg><g id='a'/></svg>"}, {"image/svg+xml": '<svg><g id="a"/></svg>'}),
    )
    first, second = page.select("img")
    assert "without a description" in str(first["alt"])
    assert second["alt"] == "A dot"
    assert len(page.select("figcaption .badge")) == 3
    assert_offline(page)


def test_local_images_are_embedded_and_others_named(tmp_path: Path) -> None:
    (tmp_path / "dot.png").write_bytes(base64.b64decode(PNG))
    page = exported(tmp_path, new_markdown_cell("![a dot](dot.png) ![none](none.png)"))
    (image,) = page.select("main img")
    assert image["alt"] == "a dot"
    assert "none.png" in page.select(".left-out")[0].text
    assert_offline(page)


def test_errors_are_shown(tmp_path: Path) -> None:
    error = new_output("error", ename="ValueError", evalue="<bad>", traceback=["\x1b[31mTraceback\x1b[0m"])
    page = exported(tmp_path, new_code_cell("x", outputs=[error]))
    alert = page.select_one("[role=alert]")
    assert alert is not None
    assert "ValueError: <bad>" in alert.text
    assert "\x1b" not in str(page)


def test_repeated_headings_and_ids_stay_unique(tmp_path: Path) -> None:
    page = exported(
        tmp_path,
        new_markdown_cell("# T\n\n## Same\n\n## Same\n\n# Another top\n\n## Fig 1"),
        shown({"text/html": '<p id="s-same">x</p><p id="fig-1">y</p><a href="#fig-1">z</a>'}),
        shown({"image/png": PNG}),
    )
    assert_unique_ids(page)
    assert [h.name for h in page.select("main h1, main h2")] == ["h2"] * 4


def test_the_footer_says_where_the_numbers_come_from(page: BeautifulSoup) -> None:
    text = page.footer.text
    assert "numpy" in text
    assert "run.ipynb" in text
    assert page.footer.find("code", string="samples") is not None


def test_a_title_may_be_given_and_an_empty_notebook_has_a_page(tmp_path: Path) -> None:
    path = write(tmp_path / "e.ipynb")
    page = BeautifulSoup(export_html(path, tmp_path / "e.html", title="A & B").read_text(), "html.parser")
    assert page.title is not None
    assert page.title.text == "A & B"
    assert exported(tmp_path).title.text == "n.ipynb"


def test_report_for_a_run_folder_and_a_notebook(executed: Execution, tmp_path: Path) -> None:
    out = report_for(executed.directory, out=tmp_path / "r.html")
    assert out.read_bytes() == executed.report.read_bytes()
    copy = tmp_path / "my.ipynb"
    copy.write_bytes(executed.notebook.read_bytes())
    assert report_for(copy) == tmp_path / "my.html"
    for nothing in (tmp_path, tmp_path / "none", tmp_path / "r.html"):
        with pytest.raises(EvalkitError, match="nothing to report"):
            report_for(nothing)


def test_what_is_no_notebook_is_refused(tmp_path: Path) -> None:
    bad = tmp_path / "bad.ipynb"
    for content in ("", "{}", "[1]", '{"nbformat": 4}'):
        bad.write_text(content)
        with pytest.raises(EvalkitError, match="cannot read the notebook"):
            export_html(bad, tmp_path / "x.html")


def test_pdf_without_chromium_says_what_to_do(executed: Execution, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("EVALKIT_CHROMIUM", raising=False)
    with pytest.raises(EvalkitError, match="no Chromium"):
        export_pdf(executed.report, tmp_path / "r.pdf")
    with pytest.raises(EvalkitError, match="no report to print"):
        export_pdf(tmp_path / "none.html", tmp_path / "r.pdf")


def test_pdf_of_a_browser_that_fails(executed: Execution, tmp_path: Path) -> None:
    fake = tmp_path / "chromium"
    fake.write_text("#!/bin/sh\necho no display >&2\nexit 3\n")
    fake.chmod(0o755)
    with pytest.raises(EvalkitError, match="no display"):
        export_pdf(executed.report, tmp_path / "r.pdf", browser=str(fake))
    assert not (tmp_path / "r.pdf").exists()


def test_the_page_names_files_and_no_folders(tmp_path: Path) -> None:
    warned = "/home/ada/lib/mod.py:38: UserWarning: odd\n"
    stderr = new_output("stream", name="stderr", text=warned)
    made = notebook(new_code_cell("x", outputs=[stderr]))
    made.metadata["papermill"] = {
        "parameters": {
            "file": "/home/ada/f.csv", "near": "../ada/g.csv", "below": "ada/h.csv", "drive": r"C:\ada\i.csv",
            "url": "http://ada/x.csv", "unit": "n/a", "na": ["n/a"],
        }
    }  # fmt: skip
    path = tmp_path / "x.ipynb"
    nbformat.write(made, path)
    text = BeautifulSoup(export_html(path, tmp_path / "x.html").read_text("utf-8"), "html.parser").footer
    assert text is not None
    for kept in (
        '"f.csv"',
        '"g.csv"',
        '"h.csv"',
        '"i.csv"',
        "http://ada/x.csv",
        '"n/a"',
        "mod.py:38: UserWarning",
    ):
        assert kept in text.text, kept
    assert text.text.count("ada") == 1
