"""What is said of torchmetrics and netcal, as calls; ``python -m peers.torch_claims`` in tests/ records the answers.

PyTorch is too large for every run of the tests, so that the answers are kept in `recorded.json` with the
versions that gave them; `test_recorded.py` compares them anew where PyTorch is installed.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from .asking import Call, PeerError, Peers

RECORD = Path(__file__).with_name("recorded.json")
_PACKAGES = ("torchmetrics", "torch", "netcal", "numpy", "scipy")


def torchmetrics_ece(y: Any, p: Any, bins: int = 10, norm: str = "l1") -> Call:
    return Call(
        "torchmetrics.functional.classification.binary_calibration_error",
        Call("torch.as_tensor", np.asarray(p, dtype=np.float64)),
        Call("torch.as_tensor", np.asarray(y, dtype=np.int64)),
        n_bins=bins,
        norm=norm,
    )


def netcal_ece(y: Any, p: Any, bins: int = 10) -> Call:
    error = Call("netcal.metrics.ECE", bins)
    return Call("netcal.metrics.ECE.measure", error, np.asarray(p, float), np.asarray(y, np.int64))


_EDGE = ([1, 0], [0.95, 1.0])
_NAN = ([0, 1, 1], [0.2, np.nan, 0.7])
_OUTSIDE = ([0, 1, 1], [0.2, 1.5, 0.7])

CLAIMS = {
    "torchmetrics, p = 1 beside .95": torchmetrics_ece(*_EDGE),
    "netcal, p = 1 beside .95": netcal_ece(*_EDGE),
    "torchmetrics, a forecast is NaN": torchmetrics_ece(*_NAN),
    "netcal, a forecast is NaN": netcal_ece(*_NAN),
    "torchmetrics, a forecast is 1.5": torchmetrics_ece(*_OUTSIDE),
    "netcal, a forecast is 1.5": netcal_ece(*_OUTSIDE),
}


def answers(peers: Peers) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, call in CLAIMS.items():
        try:
            found[name] = peers(call.path, *call.arguments, **call.keywords)
        except PeerError as error:
            found[name] = f"raises {error}"
    return found


def main() -> None:
    python = Path(__file__).resolve().parents[2] / ".venv-bench" / "bin" / "python"
    with tempfile.TemporaryDirectory() as home:
        peers = Peers(python, Path(home))
        versions = {name: peers("importlib.metadata.version", name) for name in _PACKAGES}
        versions["python"] = peers("platform.python_version")
        record = {"versions": versions, "answers": answers(peers)}
        peers.close()
    RECORD.write_text(json.dumps(record, indent=2, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
