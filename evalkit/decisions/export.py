"""Manual rehearsal: one ``part-a/`` folder for a person or an agent outside evalkit (W10).

It holds the packet, its rendering and the prompt byte for byte.  Catalog, episode, quality control, pair,
role, Part B and the run's own path stay behind.
"""

from __future__ import annotations

from pathlib import Path

from evalkit.decisions.chain import load_trust, open_evidence, open_plan, run_directory
from evalkit.decisions.layout import check_parent
from evalkit.errors import EvalkitError
from evalkit.sealing import Places, commit_directory


def export_part_a(
    run_dir: Path, *, case_id: str, out: Path, trust: Path | None = None, places: Places | None = None
) -> Path:
    """Write ``out/part-a``; ``out`` must not exist.  Raises as `open_plan` and `open_evidence` do."""
    check_parent(out)
    run_dir = run_directory(run_dir)
    evidence = open_evidence(open_plan(run_dir, load_trust(run_dir, trust, places)))
    if case_id not in evidence.parts:
        raise EvalkitError(
            f"the run has no case {case_id!r}",
            where=str(run_dir),
            expected=" or ".join(evidence.parts),
            do="name one of these with --case",
        )
    part = evidence.parts[case_id]

    def build(root: Path) -> None:
        folder = root / "part-a"
        folder.mkdir()
        (folder / "packet.json").write_bytes(part.packet_bytes)
        (folder / "report.md").write_bytes(part.report_bytes)
        (folder / "prompt.txt").write_bytes(evidence.prompts[case_id])

    return commit_directory(out, build)
