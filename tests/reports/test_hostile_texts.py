"""Texts of people and models in figures and parameters: shown as they are, or refused unseen."""

from __future__ import annotations

import pytest

from evalkit.errors import EvalkitError
from evalkit.reports.figures import (
    CaseProbabilities,
    DimensionScore,
    Estimate,
    dimension_dots,
    interval_plot,
    probability_bars,
    svg,
)
from evalkit.reports.parameters import refuse_secrets

FORMULAS = [r"$\frac{1}{2}$", r"$\frac{1}{$", r"costs $5 or $6", r"$\nosuch{x}$", "$$", "a_b^c $x_$"]


@pytest.mark.parametrize("text", FORMULAS)
def test_a_dollar_in_a_label_is_a_dollar(text: str) -> None:
    drawn = [
        svg(probability_bars([CaseProbabilities(text, {text: 0.5, "b": 0.5}, text)])),
        svg(dimension_dots([DimensionScore(text, text, 1.0, 2.0), DimensionScore("b", text, 1.0, 2.0)])),
        svg(interval_plot([Estimate(text, 0.1, 0.0, 0.2)], xlabel=text)),
    ]
    for picture in drawn:
        assert picture.count(text) >= 1, picture


SECRET = "hunter2hunter2"
URLS = [
    f"https://ada:{SECRET}@models.example/v1",
    f"postgresql://ada:{SECRET}@db.example:5432/runs",
    f"https://models.example/v1?api_key={SECRET}",
    f"https://models.example/v1?x=1&api-key={SECRET}",
    f"https://models.example/v1?apikey={SECRET}",
    f"https://models.example/v1?token={SECRET}",
    f"https://models.example/v1?key={SECRET}",
    f"https://store.example/b/c?sig={SECRET}&x=1",
]


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("held", ["as text", "in a list", "in an object", "as a key"])
def test_credentials_in_a_url_are_refused_without_echo(url: str, held: str) -> None:
    value = {
        "as text": url,
        "in a list": ["a", [url]],
        "in an object": {"a": {"b": url}},
        "as a key": {url: 1},
    }
    with pytest.raises(EvalkitError, match="refused") as caught:
        refuse_secrets("base_url", value[held], where="run.ipynb")
    assert SECRET not in str(caught.value)
    assert "ada" not in str(caught.value).replace("parameter", "")


@pytest.mark.parametrize(
    "url",
    [
        "https://models.example/v1",
        "https://models.example:8443/v1",
        "http://localhost:11434/v1?model=a&temperature=0",
        "https://ada@models.example/v1",
        "https://models.example/v1?monkey=1&tokenizer=b",
        "at 10:30 write to ada@models.example",
    ],
)
def test_other_urls_are_fine(url: str) -> None:
    refuse_secrets("base_url", url, where="run.ipynb")
