"""What every test of evalkit gets: a home of its own, and the folder of test vectors."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from evalkit.sealing.keys import key_id

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def home_of_its_own(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """HOME and the XDG folders of this test: nothing may touch the user's keys, trust or ledgers."""
    home = tmp_path_factory.mktemp("home")
    for name, folder in (("HOME", "."), ("XDG_CONFIG_HOME", "config"), ("XDG_STATE_HOME", "state")):
        path = (home / folder).resolve()
        path.mkdir(exist_ok=True, mode=0o700)
        monkeypatch.setenv(name, str(path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return home


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of vectors beside the project, or where EVALKIT_SHARED_DATA says."""
    named = os.environ.get("EVALKIT_SHARED_DATA")
    folder = Path(named) if named else (ROOT / ".." / "shared" / "data").resolve()
    if not folder.is_dir():
        pytest.skip(f"no test vectors at {folder}: set EVALKIT_SHARED_DATA to their folder")
    return folder


@pytest.fixture(scope="session")
def strace() -> str:
    """The path of strace, where it is there and may trace."""
    path = shutil.which("strace")
    if path is None:
        pytest.skip("strace is not installed")
    if subprocess.run([path, "-o", "/dev/null", "true"], capture_output=True).returncode:
        pytest.skip("strace may not trace here (ptrace is forbidden)")
    return path


class MemorySigner:
    """A signer for tests, whose key lies in this process; the product has none on purpose."""

    def __init__(self, seed: bytes | None = None) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        self._key = (
            Ed25519PrivateKey.generate() if seed is None else Ed25519PrivateKey.from_private_bytes(seed)
        )
        self.public_key = self._key.public_key().public_bytes_raw()
        self.key_id = key_id(self.public_key)

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)


@pytest.fixture
def make_signer() -> Callable[..., MemorySigner]:
    """``make_signer(seed=None)``: an Ed25519 signer in memory."""
    return MemorySigner
