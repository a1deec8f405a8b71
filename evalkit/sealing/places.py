"""Where a user's keys, trust file and ledgers live: never in a project, never in a run folder.

The folders follow the XDG Base Directory specification.  A relative ``XDG_*`` value is ignored, as
that specification demands: it would move the trust file with the working directory.  The
environment is read at the edge only, by `Places.from_environment`; everything else takes paths.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evalkit.errors import EvalkitError
from evalkit.sealing.files import make_private_directory

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_KEY_ID = re.compile(r"sha256:[0-9a-f]{64}")


def check_run_id(run_id: str) -> str:
    """``run_id`` itself, if it is an ASCII name that can stand in a path (no NFC/NFD twins)."""
    if type(run_id) is not str or not _RUN_ID.fullmatch(run_id):
        raise EvalkitError(
            f"{run_id!a} is not a run id",
            expected="1-128 ASCII letters, digits, '.', '_' or '-', beginning with a letter or digit",
            do="use the id that evalkit made for the run",
        )
    return run_id


@dataclass(frozen=True)
class Places:
    """The two folders of one user: ``config`` for keys and trust, ``state`` for ledgers."""

    config: Path
    state: Path

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Places:
        """``$XDG_CONFIG_HOME/evalkit`` and ``$XDG_STATE_HOME/evalkit``, with the usual defaults."""
        home = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
        return cls(
            config=_base(environ, "XDG_CONFIG_HOME", home / ".config") / "evalkit",
            state=_base(environ, "XDG_STATE_HOME", home / ".local" / "state") / "evalkit",
        )

    def create(self) -> None:
        """Make the folders that are missing, all 0700; what exists stays as it is."""
        for folder in (self.signing_key.parent, self.ledgers):
            make_private_directory(folder)

    @property
    def trust(self) -> Path:
        return self.config / "trust.json"

    @property
    def signing_key(self) -> Path:
        return self.config / "keys" / "signing"

    @property
    def next_signing_key(self) -> Path:
        """Where a rotation makes the new key before it takes the old one's place."""
        return self.config / "keys" / "signing.next"

    def retired_signing_key(self, key_id: str) -> Path:
        """Where a rotation keeps the old key: ``keys/signing-<hex of its id>``."""
        return self.config / "keys" / f"signing-{_hex(key_id)}"

    def unused_signing_key(self, key_id: str) -> Path:
        """Where a rotation puts the key that an interrupted one made and that nothing names."""
        return self.config / "keys" / f"signing-unused-{_hex(key_id)}"

    @property
    def unsealing_key(self) -> Path:
        return self.config / "keys" / "unsealing.pem"

    @property
    def ledgers(self) -> Path:
        return self.state / "ledgers"

    def ledger(self, key_id: str) -> Path:
        """The ledger of one signer: ``ledgers/<hex of its key id>.jsonl``."""
        return self.ledgers / f"{_hex(key_id)}.jsonl"

    def ephemeral(self, run_id: str) -> Path:
        """The folder of the keys that live only as long as one run."""
        return self.state / "ephemeral" / check_run_id(run_id)


def _hex(key_id: str) -> str:
    if not _KEY_ID.fullmatch(key_id):
        raise EvalkitError(f"{key_id!a} is not a key id", expected="sha256: and 64 hex digits")
    return key_id.removeprefix("sha256:")


def _base(environ: Mapping[str, str], name: str, default: Path) -> Path:
    value = environ.get(name, "")
    return Path(value) if value.startswith("/") else default
