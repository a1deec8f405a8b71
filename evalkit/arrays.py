"""What may come in where an array is expected, and which of its values are missing.

Rules
- None, NaN, NaT, pandas.NA and masked values are missing; a masked value is not the number under the mask.
- Dates, durations and complex numbers are no numbers here.
- Two pandas objects that are to be paired carry the same index: nothing is paired by position that has names.
- What is float64 already is not copied.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from evalkit.exact_sums import Floats


def floats(values: ArrayLike, name: str) -> Floats:
    """``values`` as float64, NaN where missing (None, pandas.NA, masked)."""
    if type(values) is np.ndarray and values.dtype == np.float64:
        return values
    try:
        if isinstance(values, np.ma.MaskedArray):
            return np.asarray(np.ma.filled(values.astype(np.float64), np.nan))
        if hasattr(values, "to_numpy"):
            return _from_pandas(values)
        array = np.asarray(values)
        if array.dtype.kind == "c":
            raise TypeError("complex numbers")
        if array.dtype.kind in "mM":
            raise TypeError("dates or durations")
        return array.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} does not hold numbers: {error}") from None


def _from_pandas(values: Any) -> Floats:
    if hasattr(values, "columns"):
        return np.column_stack([_from_pandas(values[column]) for column in values.columns])
    try:
        return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
    except TypeError:  # an object that is like pandas, and knows no na_value
        return np.asarray(values.to_numpy()).astype(np.float64)


def same_index(**given: Any) -> None:
    """Pandas objects that are to be paired must have the same index."""
    indexed = {name: v.index for name, v in given.items() if hasattr(v, "index") and hasattr(v, "to_numpy")}
    names = list(indexed)
    for name in names[1:]:
        if not indexed[names[0]].equals(indexed[name]):
            raise ValueError(
                f"{names[0]} and {name} are pandas objects with different indexes: align them "
                f"({name}.reindex({names[0]}.index)), or pass .to_numpy() to pair them by position"
            )


def is_missing(label: object) -> bool:
    """Whether a label stands for nothing: None, or what does not equal itself (NaN, NaT, pandas.NA)."""
    # pandas.NA is neither equal to itself nor different from it
    return label is None or type(label).__name__ == "NAType" or bool(label != label)


def first_missing(labels: Iterable[object]) -> int | None:
    """Place of the first missing label, None where there is none."""
    return next((place for place, label in enumerate(labels) if is_missing(label)), None)
