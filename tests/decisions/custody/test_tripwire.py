"""The evaluator's steps never open what the custodian keeps: sealed files are bytes, and no key is loaded."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from faults.test_tripwire import CLI, environment, forbidden, opened_by, traced

from decisions.support import World

from .people import Two

#: what nobody but the custodian may open; ciphertexts in a run may be copied and measured
KEPT = re.compile(
    r"/part-b/|mapping\.json$|catalog\.json$|episode\.json$|outcome\.json$|teaching-note|unsealing"
)


def kept(paths: list[str]) -> list[str]:
    return [p for p in paths if KEPT.search(p)]


def opened(two: Two, who: World, tmp_path: Path, *arguments: str | Path) -> list[str]:
    paths, code = opened_by(who, tmp_path, CLI, *map(str, arguments))
    assert code == 0
    return paths


def test_precommit_of_a_bundle_opens_nothing_kept(sealed: Two, tmp_path: Path) -> None:
    paths = opened(
        sealed, sealed.evaluator, tmp_path, "decisions", "precommit", sealed.bundle, "--out", sealed.run
    )
    assert [p for p in paths if p.endswith("mapping.sealed")], "the hook sees what is opened"
    assert not kept(paths)


def test_evaluate_opens_nothing_sealed(planned: Two, tmp_path: Path) -> None:
    paths = opened(planned, planned.evaluator, tmp_path, "decisions", "evaluate", planned.run, "--write-run")
    assert [p for p in paths if p.endswith("packet.json")]
    assert not forbidden(paths)


def test_request_opens_sealed_files_as_bytes_only(evaluated: Two, tmp_path: Path) -> None:
    paths = opened(
        evaluated,
        evaluated.evaluator,
        tmp_path,
        "custodian",
        "request",
        evaluated.run,
        "--out",
        evaluated.request,
    )
    assert [p for p in paths if p.endswith("mapping.sealed")]
    assert not kept(paths)


def test_reveal_with_an_opening_loads_no_key(answered: Two, tmp_path: Path) -> None:
    arguments = ("decisions", "reveal", answered.run, "--opening", answered.opening, "--write-calibration")
    paths = opened(answered, answered.evaluator, tmp_path, *arguments)
    assert str(answered.opening) in paths or answered.opening.name in paths
    assert not kept(paths)


def test_a_refused_reveal_does_not_open_the_opening(answered: Two, tmp_path: Path) -> None:
    path = answered.run / "instructions" / "rubric.json"
    path.write_bytes(path.read_bytes().replace(b"15", b"16", 1))
    arguments = ("decisions", "reveal", answered.run, "--opening", answered.opening, "--write-calibration")
    paths, code = opened_by(answered.evaluator, tmp_path, CLI, *map(str, arguments))
    assert code == 17
    assert not [p for p in paths if p.endswith("opening")]
    assert not forbidden(paths)


def test_the_tripwire_fires_at_the_custodian(asked: Two, strangers: Two, tmp_path: Path) -> None:
    arguments = ("custodian", "open", asked.request, "--out", asked.opening)
    assert [p for p in kept(opened(asked, asked.custodian, tmp_path, *arguments)) if "unsealing" in p]
    arguments = (
        "custodian", "seal", "shipped", "--pair", "pair-1-video-rental-2007", "--out", strangers.bundle
    )  # fmt: skip
    names = {Path(p).name for p in kept(opened(strangers, strangers.custodian, tmp_path, *arguments))}
    assert names >= {"mapping.json", "catalog.json", "outcome.json", "unsealing.pem"}


def test_a_refused_request_opens_nothing_kept(asked: Two, tmp_path: Path) -> None:
    """The custodian's unsealing key is not touched before the run is verified."""
    data = bytearray(asked.request.read_bytes())
    data[len(data) // 2] ^= 1
    asked.request.write_bytes(bytes(data))
    arguments = ("custodian", "open", asked.request, "--out", asked.opening)
    paths, code = opened_by(asked.custodian, tmp_path, CLI, *map(str, arguments))
    assert code not in (0, 1)
    assert not [p for p in paths if "unsealing" in p]


@pytest.mark.parametrize("step", ["precommit", "evaluate", "request"])
def test_the_evaluators_process_does_not_load_what_reads_part_b(
    sealed: Two, planned: Two, evaluated: Two, tmp_path: Path, step: str
) -> None:
    two = {"precommit": sealed, "evaluate": planned, "request": evaluated}[step]
    code = {
        "precommit": f"from evalkit.decisions import precommit; precommit({str(two.bundle)!r}, out={str(two.run)!r})",
        "evaluate": f"from evalkit.decisions import evaluate; evaluate({str(two.run)!r})",
        "request": f"from evalkit.decisions import write_request; write_request({str(two.run)!r}, out={str(two.request)!r})",
    }[step]
    code += "; import sys; print([m for m in sys.modules if m.startswith('evalkit.decisions.')])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(two.evaluator),
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    for module in ("preparation", "importing", "custody.sealing", "custody.release", "calibration"):
        assert f"evalkit.decisions.{module}'" not in done.stdout


def test_the_kernel_sees_nothing_kept_opened_by_the_evaluator(
    sealed: Two, tmp_path: Path, strace: str
) -> None:
    for arguments in (
        ("decisions", "precommit", sealed.bundle, "--out", sealed.run),
        ("decisions", "evaluate", sealed.run, "--write-run"),
        ("custodian", "request", sealed.run, "--out", sealed.request),
    ):
        paths, code = traced(strace, sealed.evaluator, tmp_path, *map(str, arguments))
        assert code == 0
        assert "signing" in {Path(p).name for p in paths} or arguments[1] == "request"
        assert not kept(paths)
