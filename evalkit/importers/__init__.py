"""Other people's layouts, as a `ForecastSet` with provenance and the right clusters.

`open_forecasts` reads a file in any layout that evalkit knows; each layout has a module of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evalkit.lazy import lazy_attributes

if TYPE_CHECKING:
    from evalkit.importers.fivethirtyeight import read_fivethirtyeight
    from evalkit.importers.forecastbench import read_forecastbench
    from evalkit.importers.opening import LAYOUTS, open_forecasts

__all__ = ["LAYOUTS", "open_forecasts", "read_fivethirtyeight", "read_forecastbench"]

__getattr__ = lazy_attributes(
    __name__,
    {
        "LAYOUTS": "opening",
        "open_forecasts": "opening",
        "read_fivethirtyeight": "fivethirtyeight",
        "read_forecastbench": "forecastbench",
    },
)
