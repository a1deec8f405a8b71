"""Who signs: a process of its own that holds the key, or the user's ssh-agent.

The calling process (often a notebook kernel, whose variables anybody can print) never holds a
private key.  Both signers take a message and return 64 raw bytes of Ed25519 (RFC 8032, the pure
variant); the message is a DSSE pre-authentication encoding.

The agent speaks draft-miller-ssh-agent: SIGN_REQUEST over the message as it is, not an SSHSIG.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from evalkit.errors import EvalkitError
from evalkit.sealing.keys import key_id as id_of
from evalkit.sealing.keys import public_part, ssh_string, take_string
from evalkit.sealing.places import Places
from evalkit.sealing.signing_process import read_frame, write_frame

_REQUEST_IDENTITIES, _IDENTITIES, _SIGN_REQUEST, _SIGN_RESPONSE = 11, 12, 13, 14
_AGENT_TIMEOUT_S = 60.0
_MAX_AGENT_MESSAGE = 256 * 1024
# -I: neither PYTHON* variables, nor the working directory, nor the user's site packages may put
# code into the process that holds the key.  The folder of this package comes last in its path, for
# a checkout that is not installed.
_BOOT = (
    "import sys; sys.path.append(sys.argv.pop(1)); from evalkit.sealing.signing_process import main; main()"
)
_PASSED_ON = ("HOME", "LANG", "LC_ALL", "PATH", "TERM")


@runtime_checkable
class Signer(Protocol):
    """Something that signs with one Ed25519 key."""

    @property
    def public_key(self) -> bytes:
        """32 raw bytes."""

    @property
    def key_id(self) -> str:
        """The id of that key, as `evalkit.sealing.keys.key_id` gives it."""

    def sign(self, message: bytes) -> bytes:
        """64 bytes."""


class _Closing:
    """A signer that is a context manager."""

    def close(self) -> None:
        """Give up what the signer holds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class HelperSigner(_Closing):
    """Signs through a process that opens the key at ``key_path``.

    The process starts here and asks for a passphrase, if the key has one, at the terminal, with
    ``prompt`` and the path.  Close it, or use it as a context manager.
    """

    def __init__(self, key_path: Path, *, workspace: Iterable[Path] = (), prompt: str = "Passphrase") -> None:
        self.key_path = Path(key_path)
        # Early, for a good error: the process checks the file again when it opens the key.
        public_part(self.key_path, workspace=workspace)
        root = Path(__file__).resolve().parents[2]
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _BOOT, str(root), str(self.key_path), prompt],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
            close_fds=True,
        )
        try:
            self._public_key = self._answer()
        except BaseException:
            self.close()
            raise

    @property
    def public_key(self) -> bytes:
        return self._public_key

    @property
    def key_id(self) -> str:
        return id_of(self._public_key)

    def sign(self, message: bytes) -> bytes:
        assert self._process.stdin is not None
        try:
            write_frame(self._process.stdin, message)
        except (BrokenPipeError, ValueError):
            raise self._gone() from None
        return self._answer()

    def close(self) -> None:
        """End the process; the key is gone with it."""
        for stream in (self._process.stdin, self._process.stdout):
            # It may have ended before it read everything; closing is what we want anyway.
            with contextlib.suppress(BrokenPipeError):
                if stream is not None:
                    stream.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _answer(self) -> bytes:
        assert self._process.stdout is not None
        try:
            frame = read_frame(self._process.stdout)
        except ValueError:
            frame = None
        if not frame:
            raise self._gone()
        if frame[:1] == b"\0":
            return frame[1:]
        parts = json.loads(frame[1:])
        raise EvalkitError(parts["what"], where=parts["where"], expected=parts["expected"], do=parts["do"])

    def _gone(self) -> EvalkitError:
        return EvalkitError(
            "the signing process ended",
            where=str(self.key_path),
            expected="a process that answers",
            do="start again; if it repeats, report what it printed",
        )


class AgentSigner(_Closing):
    """Signs through ssh-agent, which must hold the key."""

    def __init__(self, public_key: bytes, *, environ: Mapping[str, str] = os.environ) -> None:
        self._public_key = bytes(public_key)
        self._socket = environ.get("SSH_AUTH_SOCK", "")

    @property
    def public_key(self) -> bytes:
        return self._public_key

    @property
    def key_id(self) -> str:
        return id_of(self._public_key)

    def holds_key(self) -> bool:
        """Whether an agent is there and holds this key; no agent means no."""
        if not self._socket:
            return False
        try:
            kind, body = self._ask(bytes([_REQUEST_IDENTITIES]))
            if kind != _IDENTITIES:
                return False
            (count,) = struct.unpack(">I", body[:4])
            rest = body[4:]
            for _ in range(count):
                blob, rest = take_string(rest)
                _comment, rest = take_string(rest)
                if blob == self._blob():
                    return True
        except (OSError, ValueError, struct.error):
            return False
        return False

    def sign(self, message: bytes) -> bytes:
        request = bytes([_SIGN_REQUEST]) + ssh_string(self._blob()) + ssh_string(message) + bytes(4)
        try:
            kind, body = self._ask(request)
            if kind != _SIGN_RESPONSE:
                raise ValueError("the agent refused")
            outer, rest = take_string(body)
            algorithm, inner = take_string(outer)
            signature, inner = take_string(inner)
            if rest or inner or algorithm != b"ssh-ed25519" or len(signature) != 64:
                raise ValueError("the agent answered with something else than an Ed25519 signature")
        except (OSError, ValueError, struct.error) as error:
            raise EvalkitError(
                f"ssh-agent did not sign ({error})",
                where=self._socket or "SSH_AUTH_SOCK is not set",
                expected=f"an agent that holds {self.key_id} and may use it",
                do="check ssh-add -l and unlock the agent, or remove the key from it",
            ) from None
        return signature

    def _blob(self) -> bytes:
        return ssh_string(b"ssh-ed25519") + ssh_string(self._public_key)

    def _ask(self, request: bytes) -> tuple[int, bytes]:
        if not self._socket:
            raise ValueError("there is no agent")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(_AGENT_TIMEOUT_S)
            connection.connect(self._socket)
            connection.sendall(ssh_string(request))
            with connection.makefile("rb") as stream:
                head = stream.read(4)
                size = struct.unpack(">I", head)[0] if len(head) == 4 else 0
                if not 1 <= size <= _MAX_AGENT_MESSAGE:
                    raise ValueError("the agent closed the connection")
                answer = stream.read(size)
        if len(answer) != size:
            raise ValueError("the agent's answer is cut off")
        return answer[0], answer[1:]


def signing_key_file(places: Places, key_id: str | None = None) -> Path:
    """The file of the user's signing key: the rotated one with that id, if there is one, else the current."""
    if key_id is not None and os.path.lexists(places.retired_signing_key(key_id)):
        return places.retired_signing_key(key_id)
    return places.signing_key


def resolve_signer(
    places: Places,
    *,
    key_path: Path | None = None,
    key_id: str | None = None,
    workspace: Iterable[Path] = (),
    environ: Mapping[str, str] = os.environ,
    prompt: str = "Passphrase",
) -> HelperSigner | AgentSigner:
    """The signer for the user's key (or for ``key_path``): the agent if it holds it, else a process.

    With ``key_id`` a key that was rotated is taken, if that is its id: a run goes on with the key
    that its plan names.
    """
    path = key_path if key_path is not None else signing_key_file(places, key_id)
    if not os.path.lexists(path):
        raise EvalkitError(
            "there is no signing key",
            where=str(path),
            expected="an Ed25519 key in OpenSSH format",
            do="make one with evalkit keys init",
        )
    public, _encrypted = public_part(path, workspace=workspace)
    agent = AgentSigner(public, environ=environ)
    return agent if agent.holds_key() else HelperSigner(path, workspace=workspace, prompt=prompt)


if __name__ == "__main__":
    from evalkit.sealing.signing_process import main

    main()
