"""Intervals that hold at any sample size."""

from evalkit.uncertainty.gaffke import Interval, gaffke_interval

__all__ = ["Interval", "gaffke_interval"]
