"""What the files of a report's runs prove, their digests, and how to make them again."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import evalkit
from evalkit.decisions.claims import Status, Topic
from evalkit.decisions.verification import VerificationReport
from evalkit.reports.decisions.cases import ex_ante_of
from evalkit.reports.tables import Column, Html, Kind, Table, badge
from evalkit.visible import visible


@dataclass(frozen=True)
class ProofView:
    """Claims, digests and commands."""

    runs: tuple[VerificationReport, ...]
    paths: tuple[Path, ...]

    def table(self) -> Table:
        """What verification found, claim by claim, with the particulars of each run; custody stands apart."""
        return self._claims(
            "run", "What these files prove, what was declared, and what they do not prove", self._all_runs()
        )

    def custody(self) -> Table:
        """Who could see the outcomes, and how they came to the evaluator."""
        return self._claims("custody", "Custody: who kept the outcomes, and what shows it", self._all_runs())

    def _all_runs(self) -> str:
        if len(self.runs) == 1:
            return ""
        return f"Each line holds for all {len(self.runs)} runs, unless it names those for which it holds."

    def _claims(self, topic: Topic, caption: str, note: str) -> Table:
        kinds: dict[Status, Kind] = {"proven": "ok", "policy": "info", "not proven": "warn"}
        rows: list[list[Any]] = []
        for status, kind in kinds.items():
            found: dict[str, list[tuple[str, str]]] = {}
            for run in self.runs:
                for line in run.lines:
                    if (line.status, line.topic) == (status, topic):
                        pair = run.evidence.opened.plan.pair.pair_id
                        found.setdefault(line.text, []).append((pair, visible(line.detail)))
            rows += [[badge(status, kind), self._claim(text, held)] for text, held in found.items()]
        return Table(
            [Column("Status", heading=False), Column("Claim", heading=True)],
            rows,
            caption=caption,
            note=note,
            stack=True,
        )

    def _claim(self, text: str, held: list[tuple[str, str]]) -> Html:
        """The claim, and below it what is particular to each run (pair, detail) for which it holds."""
        details = {detail for _, detail in held}
        if len({pair for pair, _ in held}) == len(self.runs) and len(details) == 1:
            said = sorted(details - {""})
        else:
            said = [f"{pair}: {detail}" if detail else pair for pair, detail in held]
        lines = "".join(f'<span class="particulars">{_with_codes(line)}</span>' for line in said)
        return Html(escape(text) + lines, "; ".join([text, *said]))

    def digests(self) -> Table:
        """Identity, digests and times, one column a run."""
        columns = []
        for run in self.runs:
            e, plan = ex_ante_of(run), run.evidence.opened.plan
            columns.append(
                {
                    "Run": _code(run.run_id),
                    "Model": e["configuration"]["model"],
                    "Precommit": _code(e["precommit_digest"]),
                    "Model configuration": _code(e["configuration_digest"]),
                    "Scorer": _code(e["scorer_digest"]),
                    "Signing key": _code(plan.signing_key_id),
                    "Custody": plan.custody,
                    "Custodian's key": _code(plan.custodian.key_id) if plan.custodian else "none",
                    "Trust file used here": _code(run.trust_digest),
                    "Attempt": f"{e['attempt']} of {run.attempts}",
                    "Planned": _seconds(plan.created_at),
                    "Ex-ante run final": _seconds(e["finalized_at"]),
                    "Revealed": _seconds(run.calibration["revealed_at"]) if run.calibration else "no",
                }
            )
        return Table(
            ["", *[run.evidence.opened.plan.pair.pair_id for run in self.runs]],
            [[name, *[column[name] for column in columns]] for name in columns[0]],
            caption="Identity, digests and times (UTC, by the signer's own clock)",
        )

    def reproduce(self) -> Html:
        """Commands that verify these runs and make them again."""
        lines = [f"evalkit verify {shlex.quote(str(p))}" for p in self.paths]
        for path, run in zip(self.paths, self.runs, strict=True):
            plan = run.evidence.opened.plan
            model = _model_options(plan.model, path)
            if plan.custodian is None:
                lines += [
                    f"evalkit decisions precommit CASES --pair {plan.pair.pair_id}{model} --out NEW",
                    "evalkit decisions evaluate NEW --write-run",
                    "evalkit decisions reveal NEW --write-calibration",
                ]
            else:
                lines += [
                    "# the custodian",
                    f"evalkit custodian seal CASES --pair {plan.pair.pair_id} \\",
                    f"    --custody {plan.custody} --out BUNDLE",
                    "# the evaluator",
                    f"evalkit decisions precommit BUNDLE{model} --out NEW",
                    "evalkit decisions evaluate NEW --write-run",
                    "evalkit custodian request NEW --out REQUEST",
                    "# the custodian",
                    "evalkit custodian open REQUEST --out OPENING",
                    "# the evaluator",
                    "evalkit decisions reveal NEW --opening OPENING --write-calibration",
                ]
        text = "\n".join(lines)
        return Html(
            f"<p>With evalkit {escape(evalkit.__version__)} and your own trust file; CASES is the folder of cases, or"
            f" <code>shipped</code> for those that come with evalkit:</p><pre><code>{escape(text)}</code></pre>",
            text,
        )


def _model_options(model: dict[str, Any], run: Path) -> str:
    """The options with which a precommit seals this model again."""
    if model["adapter"] == "openai":
        options = f" --model openai:{model['model']} --base-url {model['base_url']}"
        return options + (
            f" --temperature {model['temperature']}" if model["temperature"] is not None else ""
        )
    if model["adapter"] == "replay":
        return f" --replay {shlex.quote(str(run / 'model/replay.json'))}"
    return ""


def _code(text: str) -> Html:
    """A digest that may break anywhere."""
    pieces = [escape(text[i : i + 8]) for i in range(0, len(text), 8)]
    return Html(f'<code class="digest">{"<wbr>".join(pieces)}</code>', text)


def _with_codes(text: str) -> str:
    """Text as markup, its digests as code."""
    pieces = re.split(r"(sha256:[0-9a-f]{64})", text)
    return "".join(_code(piece).markup if n % 2 else escape(piece) for n, piece in enumerate(pieces))


def _seconds(stamp: str) -> str:
    """A time to the second, for the eye."""
    return stamp[:19].replace("T", " ")
