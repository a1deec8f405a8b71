"""``evalkit score``: the table, JSON, and every mistake with exit 2 and no traceback."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import numpy as np
import pytest
from decisions.support import Outcome, cli


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "two.csv"
    path.write_text(
        "model,id,p,y\n" + "".join(f"{m},q{i},{(i * k % 9 + 1) / 10},{i % 2}\n"
                                    for k, m in ((3, "A"), (7, "B")) for i in range(20))
    )  # fmt: skip
    return path


def test_table_with_counts_intervals_and_conventions(table: Path) -> None:
    done = cli("score", table)
    assert done.code == 0
    assert done.err == ""
    for words in ("read: outcome is column 'y'", "40 scored binary forecasts", "2 forecasters", "base rate",
                  "95% interval", "MCB", "DSC", "UNC", "range 0-1, 0 is best", "CORP"):  # fmt: skip
        assert words in done.out, words
    lines = done.out.splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("forecaster"))
    briers = [float(line.split()[3]) for line in lines[head + 1 : head + 3]]
    assert briers == sorted(briers)


def test_json_is_one_object_with_the_same_numbers(table: Path) -> None:
    done = cli("score", table, "--json")
    assert done.code == 0
    value = json.loads(done.out)
    assert value["n"] == 40
    assert value["level"] == 0.95
    assert value["source"]["name"] == "two.csv"
    row = value["rows"][0]
    assert row["brier_low"] < row["brier"] < row["brier_high"]
    assert row["brier"] == pytest.approx(row["mcb"] - row["dsc"] + row["unc"])
    assert f"{row['brier']:.4f}" in cli("score", table).out


def test_options_reach_the_reading(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("who,what,when,good,bad,happened\na,1,t,.2,.8,bad\nb,1,t,-9,-9,bad\n")
    done = cli("score", path, "--forecaster", "who", "--question", "what", "--time", "when", "--forecast", "good",
               "--forecast", "bad", "--outcome", "happened", "--kind", "ordinal", "--na", "-9", "--alpha", "0.1",
               "--json")  # fmt: skip
    assert done.code == 0, done.err
    value = json.loads(done.out)
    assert value["kind"] == "ordinal"
    assert value["classes"] == ["good", "bad"]
    assert value["level"] == pytest.approx(0.9)
    assert [row["n_missing"] for row in value["rows"]] == [0, 1]
    assert value["rows"][0]["rps"] == pytest.approx(0.04)


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("p,prediction,y\n.3,.2,1\n", [], "could each be the forecast"),
        ("p,y\n30,1\n", [], "look like percentages"),
        ("p,y\n.3,7\n", [], "7 is no outcome"),
        ("p,y\n.3,\n", [], "no forecast can be scored"),
        ("p,y\n,1\n.2,1\n", ["--missing", "raise"], "1 forecasts are missing"),
        ("p,y\n.3,1\n", ["--forecast", "q"], "no column 'q'"),
        ("p,y\n.3,1\n", ["--layout", "forecastbench"], "no extract of ForecastBench"),
        ("p,y\n.3,1\n", ["--layout", "fivethirtyeight", "--kind", "binary"], "says itself"),
        ("p,y\n.3,1\n", ["--alpha", "0"], "--alpha"),
        ("p,y\n.3,1\n", ["--report", "no/such/folder/x.html"], "cannot be written there"),
        ("p,y\n.3,1\n", ["--report", "."], "directory"),
    ],
)
def test_mistakes(
    text: str, options: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "x.csv"
    path.write_text(text)
    done = cli("score", path, *options)
    assert done.code == 2, (done.code, done.out, done.err)
    assert said in done.err
    assert "Traceback" not in done.err
    assert done.out == ""
    assert [p.name for p in tmp_path.iterdir()] == ["x.csv"]


def test_names_that_a_terminal_would_obey(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text('model,id,p,y\n"\x1b[2J\u202eevil",q,.3,1\n')

    def clean(done: Outcome) -> None:
        assert (done.out + done.err).replace("\n", "").isprintable()

    clean(cli("score", path))
    clean(cli("score", path, "--json"))
    path.write_text('"\x1b[2J",y\n.3,1\n')
    clean(cli("score", path, "--forecast", "\x1b[31m"))


CELLS = (
    "",
    "0",
    "1",
    "0.5",
    ".7",
    "1e-400",
    "1e400",
    "nan",
    "inf",
    "-1",
    "50",
    "true",
    "NA",
    '"a,b"',
    "é",
    "x",
)
COLUMNS = (
    "p",
    "y",
    "forecaster",
    "question",
    "cluster",
    "time",
    "weight",
    "A",
    "B",
    "forecast_0",
    "forecast_1",
    "id",
)
OPTIONS = ([], ["--wide"], ["--fractional"], ["--kind", "categorical"], ["--missing", "raise"], ["--json"],
           ["--forecast", "A", "--forecast", "B"], ["--na", "1"], ["--layout", "fivethirtyeight"])  # fmt: skip


@pytest.mark.parametrize("seed", range(60))
def test_any_table_is_scored_or_refused(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    names = draw.sample(COLUMNS, draw.randint(1, 6))
    names += [name for name in ("y", "p") if name not in names and draw.random() < 0.7]
    plain = {"p": ("0.2", "0.9", "1", ""), "y": ("0", "1", "1"), "weight": ("1", "2")}
    kinds = {name: plain.get(name, CELLS) if draw.random() < 0.8 else CELLS for name in names}
    lines = [",".join(draw.choice(kinds[name]) for name in names) for _ in range(draw.randint(0, 7))]
    path = tmp_path / "x.csv"
    path.write_text("\n".join([",".join(names), *lines]) + "\n")
    done = cli("score", path, *draw.choice(OPTIONS))
    assert done.code in (0, 2), done.err
    assert "Traceback" not in done.err
    assert bool(done.err) == (done.code == 2)


def test_eighteen_forecasters_and_many_rows_are_quick_enough(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    p = rng.random((500, 18))
    y = (rng.random(500) < p.mean(axis=1)).astype(int)
    rows = [",".join([f"{v:.4f}" for v in row] + [str(o)]) for row, o in zip(p, y, strict=True)]
    path = tmp_path / "x.csv"
    path.write_text(",".join([f"F{i:02}" for i in range(18)] + ["obs"]) + "\n" + "\n".join(rows) + "\n")
    done = cli("score", path)
    assert done.code == 0
    assert sum(line.startswith("F") for line in done.out.splitlines()) == 18


@pytest.mark.slow
def test_a_report_beside_the_table(table: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = cli("score", table, "--report", page)
    assert done.code == 0, done.err
    assert done.out.splitlines()[-1] == f"report: {page}"
    assert "Miscalibration against discrimination" in page.read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["page.html", "two.csv"]
    again = json.loads(cli("score", table, "--report", page, "--json").out)
    assert again["report"] == str(page)


def test_a_report_takes_the_place_of_no_input_and_no_device(table: Path, tmp_path: Path) -> None:
    before = table.read_bytes()
    done = cli("score", table, "--report", table)
    assert done.code == 2
    assert "would overwrite" in done.err
    (tmp_path / "link.html").symlink_to(table)
    assert cli("score", table, "--report", tmp_path / "link.html").code == 2
    pipe = tmp_path / "pipe.html"
    os.mkfifo(pipe)
    assert cli("score", table, "--report", pipe).code == 2
    assert pipe.is_fifo()
    assert table.read_bytes() == before


def test_a_folder_that_one_may_not_write_to(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the tests may run as root, who may write everywhere
    monkeypatch.setattr("evalkit.reports.page.os.access", lambda path, mode, **how: not mode & os.W_OK)
    done = cli("score", table, "--report", tmp_path / "x.html")
    assert done.code == 2
    assert "no permission" in done.err
    assert done.out == ""
