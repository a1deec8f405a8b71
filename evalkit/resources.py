"""Where the notebooks, templates and committed data live.

A wheel carries them in ``evalkit/_data``; an editable install has no such folder and uses the
checkout beside the package.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from evalkit.errors import EvalkitError


def resource(kind: str, *parts: str) -> Path:
    """Path of a shipped file or folder.

    ``kind`` is ``notebooks``, ``templates`` or ``data``; ``parts`` go below it.  Raises
    `EvalkitError` where this installation does not have it.
    """
    package = Path(str(files("evalkit")))
    for root in (package / "_data", package.parent):
        candidate = root.joinpath(kind, *parts)
        if candidate.exists():
            return candidate
    raise EvalkitError(
        f"this installation of evalkit has no {'/'.join((kind, *parts))}",
        where=str(package),
        expected="a wheel with evalkit/_data, or an editable install of a checkout",
        do="reinstall evalkit",
    )
