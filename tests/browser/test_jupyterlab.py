"""A notebook run by hand in JupyterLab: opened, run from the menu command, outputs there."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ("report-decisions", "report-forecasts", "tutorial-calibration")
TOKEN = "local-test"  # a server for this test only, on the loopback interface
pytestmark = [pytest.mark.browser, pytest.mark.slow]


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[str]:
    """A JupyterLab server over a folder with the notebooks; yields its address."""
    pytest.importorskip("jupyterlab", reason="the extra 'lab' is not installed")
    work = tmp_path / "work"
    work.mkdir()
    for name in NOTEBOOKS:
        shutil.copy(ROOT / "notebooks" / f"{name}.ipynb", work)
    port = free_port()
    log = (tmp_path / "lab.log").open("wb")
    server = subprocess.Popen(
        [
            sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--expose-app-in-browser",
            "--ip=127.0.0.1", f"--port={port}", "--ServerApp.port_retries=0",
            f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={work}",
            "--LabApp.news_url=", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        ],
        stdout=log, stderr=log, cwd=work, env=os.environ | {"JUPYTER_CONFIG_DIR": str(tmp_path / "jc")},
    )  # fmt: skip
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(150):
            try:
                urllib.request.urlopen(f"{address}/api?token={TOKEN}", timeout=1).close()
                break
            except OSError:
                assert server.poll() is None, (tmp_path / "lab.log").read_text()
                time.sleep(0.2)
        yield address
    finally:
        server.terminate()
        server.wait(20)
        log.close()


RUN_ALL = """async () => {
  const app = window.jupyterapp;
  await app.restored;
  const panel = app.shell.currentWidget;
  await panel.context.ready;
  await panel.sessionContext.ready;
  for (let i = 0; i < 300 && panel.sessionContext.session?.kernel?.status !== 'idle'; i++)
    await new Promise(done => setTimeout(done, 100));
  await app.commands.execute('notebook:run-all-cells');
  for (let i = 0; i < 600 && panel.sessionContext.session.kernel.status !== 'idle'; i++)
    await new Promise(done => setTimeout(done, 100));
  return panel.content.model.toJSON().cells.map(cell => [cell.cell_type, cell.execution_count,
    (cell.outputs || []).map(output => output.output_type)]);
}"""


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_runs_in_jupyterlab(lab: str, chromium: Any, name: str) -> None:
    page = chromium.new_page(viewport={"width": 1200, "height": 1600})
    page.goto(f"{lab}/lab/tree/{name}.ipynb?token={TOKEN}")
    page.wait_for_function("() => window.jupyterapp?.shell?.currentWidget?.context", timeout=60_000)
    cells = page.evaluate(RUN_ALL)
    if os.environ.get("EVALKIT_SCREENSHOTS"):
        page.screenshot(path=Path(os.environ["EVALKIT_SCREENSHOTS"]) / f"jupyterlab-{name}.png")
    page.close()
    code = [c for c in cells if c[0] == "code"]
    assert len(code) > 10
    assert all(count is not None for _, count, _ in code)
    assert [c for c in code if "error" in c[2]] == []
    assert sum("display_data" in c[2] or "execute_result" in c[2] for c in code) > 10
