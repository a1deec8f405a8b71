"""The notebook that the report tests run: headings, math, cards, tables, figures, warnings, messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

INTRO = """# Can the agent tell which merger closes?

Does the process score of sealed decisions predict calibrated forecasts? **Inputs:** four sealed cases.
**Outputs:** process scores, Brier scores with intervals, and this report."""

PARAMETERS = """from typing import Literal
samples: int = 200  # bootstrap resamples
level: float = 0.95  # level of the intervals
scale: Literal["points", "percent"] = "points"  # how points are printed
reference: float | None = None  # a reference score
names: list[str] = ["North", "South"]  # cases
"""

SETUP = """import sys
import numpy as np
from evalkit.reports import *
rng = np.random.default_rng(0)
print("a message on stderr\\n  50%|#####     | 1/2", file=sys.stderr)"""

HEAD = """cards([
    Card("Mean process score", "71.4", "of 100", "95% interval 63.0 to 79.1", 4, "mean over cases; higher is better"),
    Card("Brier score", "0.182", "", "95% interval 0.121 to 0.256", 4, "sum over scenarios; lower is better", kind="ok"),
    Card("Skill against uniform", "+0.34", "", "95% interval −0.05 to 0.61", 4, "the interval covers 0", kind="warn"),
])"""

WARN = """from IPython.display import display
display(notice("warn", "Only 4 cases: intervals < 10 cases are descriptive & not a test."))
display(notice("ok", "All attestations verify against the pinned key."))"""

TABLE = """Table(
    ["Case", Column("Process", format=".1f"), Column("Brier", format=".3f"), "Tier", "Seal", Column("Digest of the plan")],
    [["North and Partners acquisition", 78.5, 0.091, "honest", badge("verified", "ok"), "sha256:4f2a9c0d1e"],
     ["South", 64.0, 0.273, "honest", badge("verified", "ok"), "sha256:9b1c77aa02"],
     ["<East>", 71.0, None, "practice", badge("no timestamp", "warn"), "sha256:0a0a0a0a0a"],
     ["West", 72.1, 0.182, "honest", badge("mismatch", "bad"), "sha256:ffee00ddcc"]],
    caption="Scores and seals by case", note="– : the outcome is not known yet.")"""

FIGURES = """show(probability_bars([
    CaseProbabilities("North", {"closes in time": .62, "closes late": .25, "is withdrawn": .13}, realized="closes in time"),
    CaseProbabilities("South", {"closes in time": .30, "closes late": .25, "is withdrawn": .45}, realized="closes late"),
    CaseProbabilities("West", {"closes in time": .5, "is withdrawn": .5}),
]), alt="Probabilities of each scenario for three cases.", caption="Forecast probabilities; the realized scenario is hatched. The dashed line is the uniform forecast.")
dims = ["Question framing", "Base rates", "Evidence", "Counter-evidence", "Uncertainty", "Alternatives", "Calibration", "Consistency", "Risks", "Communication"]
show(dimension_dots([DimensionScore(c, d, min(w, round(w * f, 1)), w)
    for c, s in (("North", .9), ("South", .6), ("West", .75))
    for d, w, f in zip(dims, (15, 10, 15, 10, 10, 10, 10, 5, 10, 5), s + .25 * (rng.random(10) - .5))]),
    alt="Points by dimension for three cases.", caption="Process points earned in each dimension.")
show(interval_plot([Estimate("Process score above median", .12, -.04, .31, 4), Estimate("Brier skill", .34, -.05, .61, 4),
    Estimate("Skill without the practice tier", .28, .02, .55, 3)], xlabel="difference"),
    alt="Three estimates with intervals; two cover zero.", caption="Estimates with 95% intervals; the dashed line is no difference.")"""

MATH = r"""## Method

The Brier score of case $i$ with $K$ scenarios is

$$
B_i = \sum_{k=1}^{K} \left(p_{ik} - o_{ik}\right)^2,
\qquad
\bar B = \frac{1}{n} \sum_{i=1}^{n} B_i
$$

and skill is $1 - \bar B / \bar B_{\text{uniform}}$, see [Brier (1950)](https://doi.org/10.1175/1520-0493(1950)078).

### Sensitivity

1. Leave one case out.
2. Use the *clustered* bootstrap with `samples` resamples.

| choice | effect |
|---|---|
| median instead of mean | −0.01 |
| uniform prior | +0.02 |

## Results

> What never merges: process score and outcome calibration."""

FRAME = """import pandas as pd
pd.DataFrame({"case": list(names), "brier": [.091, .273][:len(names)]}).set_index("case")"""

LIMITS = """## What is not proven

- That the operator did not know the outcomes before sealing.
- That four cases stand for others.

## How to reproduce

Run the notebook again with the parameters below."""

EMIT = (
    """emit({"process": np.float64(71.4), "brier": {"mean": 0.182, "n": np.int64(4)}, "samples": samples})"""
)


def notebook(*cells: Any) -> Any:
    nb = new_notebook(cells=list(cells))
    nb.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    for number, cell in enumerate(nb.cells):
        cell["id"] = f"cell-{number}"
    return nb


def parameters(source: str) -> Any:
    cell = new_code_cell(source)
    cell.metadata["tags"] = ["parameters"]
    return cell


def write(path: Path, *cells: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook(*cells), path)
    return path


def code(*sources: str) -> list[Any]:
    return [new_code_cell(source) for source in sources]


def sample(path: Path) -> Path:
    """The full sample, not executed."""
    return write(
        path,
        new_markdown_cell(INTRO),
        parameters(PARAMETERS),
        *code(SETUP, HEAD, WARN),
        new_markdown_cell(MATH),
        *code(TABLE, FIGURES, FRAME),
        new_markdown_cell(LIMITS),
        *code("print('samples:', samples)", EMIT),
    )
