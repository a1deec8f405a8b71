"""Which column means what: guessed by name, said by the user, never both silently."""

from __future__ import annotations

from typing import Any

import pytest

from evalkit.errors import EvalkitError
from evalkit.forecasts.columns import SYNONYMS, Layout, find_layout


def layout(*names: str, numbers: tuple[str, ...] = (), **options: Any) -> Layout:
    return find_layout(names, looks_like_forecasts=lambda name: name in numbers, where="table", **options)


@pytest.mark.parametrize("forecast", SYNONYMS["forecast"])
@pytest.mark.parametrize("outcome", SYNONYMS["outcome"])
def test_every_synonym_of_forecast_and_outcome_is_found(forecast: str, outcome: str) -> None:
    found = layout("note", forecast, outcome)
    assert found.forecasts == (forecast,)
    assert found.column("outcome") == outcome
    assert found.kind == "binary"
    assert not found.wide
    assert found.extra == ("note",)


@pytest.mark.parametrize("name", ["Probability", " PROB ", "p-yes", "Forecast Probability"])
def test_case_and_punctuation_do_not_matter(name: str) -> None:
    assert layout(name, "Outcome").forecasts == (name,)


def test_a_guess_is_said_and_the_roles_own_name_is_none() -> None:
    assert layout("forecast", "outcome", "question", "forecaster").guessed == ()
    assert layout("p", "y").guessed == ("outcome is column 'y'", "forecast is column 'p'")


def test_the_roles_own_name_wins_over_a_synonym() -> None:
    found = layout("forecast", "prediction", "outcome")
    assert found.forecasts == ("forecast",)
    assert "prediction" in found.extra


@pytest.mark.parametrize(
    ("names", "role"),
    [(("p", "prediction", "y"), "forecast"), (("p", "y", "obs"), "outcome"), (("p", "y", "model", "agent"), "forecaster")],
)  # fmt: skip
def test_two_synonyms_are_ambiguous_and_the_option_decides(names: tuple[str, ...], role: str) -> None:
    with pytest.raises(EvalkitError) as caught:
        layout(*names)
    rivals = [name for name in names if name in SYNONYMS[role]]
    for name in rivals:
        assert f"--{role} {name}" in caught.value.do
    decided = layout(*names, columns={role: rivals[1]})
    assert (decided.forecasts[0] if role == "forecast" else decided.column(role)) == rivals[1]


def test_a_wide_table_is_found_out() -> None:
    found = layout("date", "A", "B", "note", "obs", numbers=("A", "B"))
    assert found.wide
    assert found.names == ("A", "B")
    assert found.extra == ("note",)
    assert any("2 forecasters" in text and "'note'" in text for text in found.guessed)


def test_several_named_forecast_columns_are_forecasters_or_classes() -> None:
    names = ("A", "B", "obs")
    assert layout(*names, columns={"forecast": ["A", "B"]}).wide
    classes = layout(*names, columns={"forecast": ["B", "A"]}, kind="ordinal")
    assert not classes.wide
    assert classes.names == ("B", "A")
    with pytest.raises(EvalkitError, match="2 forecast columns and a forecaster column"):
        layout(*names, "model", columns={"forecast": ["A", "B"]})


def test_numbered_columns_are_classes() -> None:
    found = layout("forecast_1", "forecast_0", "forecast_2", "outcome")
    assert found.kind == "categorical"
    assert found.forecasts == ("forecast_0", "forecast_1", "forecast_2")
    assert found.names == ("0", "1", "2")
    assert layout("p_0", "p_1", "y", classes=["no", "yes"]).names == ("no", "yes")
    with pytest.raises(EvalkitError, match="1 class names for 2"):
        layout("p_0", "p_1", "y", classes=["no"])


def test_ordinal_needs_its_columns() -> None:
    with pytest.raises(EvalkitError, match="nothing says which columns are the classes"):
        layout("low", "high", "y", kind="ordinal")
    with pytest.raises(EvalkitError, match="needs a column for each class"):
        layout("low", "y", columns={"forecast": "low"}, kind="ordinal")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"forecast": "q"}, "no column 'q' for the forecast"),
        ({"price": "p"}, "'price' is no role"),
        ({"forecast": "p", "outcome": "p"}, "named as forecast and as outcome"),
        ({"outcome": ["p", "y"]}, "said to be 2 columns"),
        ({"question": ["y", "y"]}, "said to be 2 columns"),
    ],
)
def test_what_the_user_names_is_checked(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(EvalkitError, match=message):
        layout("p", "y", columns=columns)


def test_what_is_not_there_is_named_with_what_is() -> None:
    with pytest.raises(EvalkitError, match="outcome") as caught:
        layout("p", "weather")
    assert "'weather'" in caught.value.expected
    assert "--outcome COLUMN" in caught.value.do
