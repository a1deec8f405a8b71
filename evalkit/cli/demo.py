"""``evalkit demo``: the main job on real cases, from the precommit to one HTML report."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("runs"),
    show_default=True,
    help="Where runs and report go.",
)
@click.option("--pdf", is_flag=True, help="Also print the report to PDF (needs Chromium).")
@click.option("--no-progress", is_flag=True, help="Say nothing until it is done.")
def demo(out: Path, pdf: bool, no_progress: bool) -> None:
    """Evaluate both pairs of cases that come with evalkit, reveal them, and write one report.

    The analyst is the deterministic baseline: no network, no service, no key of yours is needed. Keys are
    made for these runs outside OUT, and the report says what that does not prove.
    """
    from evalkit.reports.demo import run_demo

    report = run_demo(out, progress=not no_progress)
    click.echo(f"sealed runs in {out / 'decisions'}; check one with: evalkit verify RUN")
    click.echo(f"report: {report}")
    if pdf:
        from evalkit.reports.export import export_pdf

        click.echo(f"pdf: {export_pdf(report, report.with_suffix('.pdf'))}")
