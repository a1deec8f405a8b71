"""The kernel that a batch run starts: this interpreter, a private socket, and no slow start.

Rules
- A run belongs to the environment that starts it.  A ``python3`` kernel that a user once installed for
  another environment would silently run other versions, so its command is replaced by ours.
- Messages travel over Unix sockets in a directory that only the user can enter (ipykernel >= 7.3 warns
  about TCP, rightly).  The directory is short because such a path may have about 100 bytes.
- PYTHONDONTWRITEBYTECODE is not handed on: without byte code every kernel start costs a second of CPU.
- papermill is imported when it is first needed: rfc3987_syntax, an optional part of jsonschema that
  nothing here uses, takes 2 of its 2.6 seconds, and is kept out during that import.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evalkit.progress import BATCH

KERNEL = "python3"
# What the kernel process itself writes (a crash, a failure to start); removed if there is nothing in it.
LOG = "kernel.log"
# sun_path holds 104 bytes on the BSDs, 108 on Linux; the socket's own name needs a few.
_LONGEST_SOCKET_DIR = 80

_importing = threading.Lock()


def papermill() -> Any:
    """The papermill module, without its import tax."""
    with _importing:
        if "papermill" not in sys.modules:
            blocked = "rfc3987_syntax" not in sys.modules
            if blocked:
                sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]
            try:
                import papermill
            finally:
                if blocked:
                    del sys.modules["rfc3987_syntax"]
        import papermill

        return papermill


def kernel_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The environment of a kernel: ours and ``extra``, in batch, with byte code."""
    env = {**os.environ, BATCH: "1", **extra}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    # Colours would end up as escape codes in error outputs that people read as text.
    env.setdefault("NO_COLOR", "1")
    return env


@contextlib.contextmanager
def batch_kernel(environ: Mapping[str, str], log: Path) -> Iterator[dict[str, Any]]:
    """Arguments for nbclient that start the kernel described above; cleans its sockets up.

    ``log`` receives what the kernel process writes, which would else be our own stderr.
    """
    from jupyter_client.manager import AsyncKernelManager
    from traitlets.config import Config

    env = kernel_environment(environ)

    class BatchKernelManager(AsyncKernelManager):
        @property
        def kernel_spec(self) -> Any:
            spec = super().kernel_spec
            if spec is not None and self.kernel_name == KERNEL:
                spec.argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
            return spec

        async def start_kernel(self, **kw: Any) -> Any:  # type: ignore[override]
            with log.open("ab") as file:
                return await super().start_kernel(**{**kw, "env": env, "stdout": file, "stderr": file})

    root = Path(tempfile.mkdtemp(prefix="evalkit-", dir=_socket_root()))
    try:
        config = Config()
        config.KernelManager.transport = "ipc"
        config.KernelManager.ip = str(root / "k")
        yield {"kernel_manager_class": BatchKernelManager, "config": config}
    finally:
        shutil.rmtree(root, ignore_errors=True)
        if log.exists() and not log.stat().st_size:
            log.unlink()


def _socket_root() -> str | None:
    """None for the usual temporary directory, or /tmp where that has too long a name."""
    return None if len(tempfile.gettempdir()) < _LONGEST_SOCKET_DIR else "/tmp"
