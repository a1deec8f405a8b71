"""Signers: the key stays in another process, the passphrase comes from a terminal or not at all."""

from __future__ import annotations

import contextlib
import gc
import os
import pty
import re
import select
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from evalkit.errors import EvalkitError
from evalkit.sealing import (
    AgentSigner,
    HelperSigner,
    Places,
    Signer,
    create_signing_key,
    key_id,
    pae,
    resolve_signer,
)
from evalkit.sealing.keys import ssh_string

AsAnotherUser = Callable[[Callable[[Path], None]], None]

MESSAGE = pae("application/vnd.in-toto+json", b"{}")
ROOT = Path(__file__).resolve().parents[2]


def holds(public: bytes, signature: bytes) -> bool:
    Ed25519PublicKey.from_public_bytes(public).verify(signature, MESSAGE)
    return True


# --- the process ---------------------------------------------------------------------------------


def test_the_process_signs_and_this_one_has_no_private_key(tmp_path: Path) -> None:
    public = create_signing_key(tmp_path / "key")
    gc.collect()
    before = sum(isinstance(thing, Ed25519PrivateKey) for thing in gc.get_objects())
    with HelperSigner(tmp_path / "key") as signer:
        assert isinstance(signer, Signer)
        assert signer.public_key == public
        assert signer.key_id == key_id(public)
        for _ in range(3):
            assert holds(public, signer.sign(MESSAGE))
        assert sum(isinstance(thing, Ed25519PrivateKey) for thing in gc.get_objects()) == before
        assert "PRIVATE" not in repr(vars(signer))
        process = signer._process
    assert process.returncode == 0
    with pytest.raises(EvalkitError, match="ended"):
        signer.sign(MESSAGE)


def test_the_process_signs_envelopes_only(tmp_path: Path) -> None:
    """Algorithm confusion: the key must not sign for another protocol, such as an SSH login."""
    create_signing_key(tmp_path / "key")
    with HelperSigner(tmp_path / "key") as signer:
        with pytest.raises(EvalkitError, match="DSSE envelopes only"):
            signer.sign(b"SSHSIG" + bytes(40))
        assert signer.sign(MESSAGE)  # and it goes on


def test_a_large_message(tmp_path: Path) -> None:
    public = create_signing_key(tmp_path / "key")
    message = pae("x", bytes(3_000_000))
    with HelperSigner(tmp_path / "key") as signer:
        Ed25519PublicKey.from_public_bytes(public).verify(signer.sign(message), message)


def test_a_killed_process_is_a_clear_error(tmp_path: Path) -> None:
    create_signing_key(tmp_path / "key")
    with HelperSigner(tmp_path / "key") as signer:
        signer._process.kill()
        signer._process.wait()
        with pytest.raises(EvalkitError, match="signing process ended"):
            signer.sign(MESSAGE)


def test_a_process_that_does_not_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And waited for: a key must not stay in memory behind a signer that was closed."""
    create_signing_key(tmp_path / "key")
    signer = HelperSigner(tmp_path / "key")
    process, real, limits = signer._process, signer._process.wait, list[float | None]()

    def wait(timeout: float | None = None) -> int:
        limits.append(timeout)
        if timeout is not None:
            raise subprocess.TimeoutExpired("signer", timeout)
        return real()

    monkeypatch.setattr(process, "wait", wait)
    signer.close()
    assert limits == [5, None]
    assert process.returncode is not None


def test_the_environment_cannot_put_code_into_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Environment inherited: PYTHONPATH, PYTHONSTARTUP and the working directory do not count."""
    create_signing_key(tmp_path / "key")
    evil = tmp_path / "evil"
    evil.mkdir()
    for module in ("json", "struct", "sitecustomize", "evalkit"):
        (evil / f"{module}.py").write_text(f"open({str(tmp_path / 'caught')!r}, 'w')\n")
    monkeypatch.setenv("PYTHONPATH", str(evil))
    monkeypatch.chdir(evil)
    with HelperSigner(tmp_path / "key") as signer:
        assert signer.sign(MESSAGE)
        if sys.platform == "linux" and os.geteuid() == 0:
            environment = Path(f"/proc/{signer._process.pid}/environ").read_bytes()
            assert b"PYTHONPATH" not in environment
    assert not (tmp_path / "caught").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux")
def test_the_process_cannot_be_inspected_by_the_same_user(tmp_path: Path) -> None:
    """No debugger of the same user and no core dump may show the key."""
    program = (
        "import ctypes; from evalkit.sealing.signing_process import forbid_inspection; "
        "before = ctypes.CDLL(None).prctl(3, 0, 0, 0, 0); forbid_inspection(); "
        "print(before, ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, cwd=ROOT)
    assert done.stdout.split() == [b"1", b"0"]
    create_signing_key(tmp_path / "key")
    with HelperSigner(tmp_path / "key") as signer:
        limits = Path(f"/proc/{signer._process.pid}/limits").read_text()
        assert re.search(r"Max core file size\s+0\s+0", limits)


def test_an_unreadable_key_is_a_clear_error(as_another_user: AsAnotherUser) -> None:
    def attempt(folder: Path) -> None:
        create_signing_key(folder / "key")
        (folder / "key").chmod(0)
        with pytest.raises(EvalkitError, match="cannot be opened"):
            HelperSigner(folder / "key")

    as_another_user(attempt)


def test_not_a_key_is_a_clear_error(tmp_path: Path) -> None:
    for content in (b"", b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n"):
        (tmp_path / "key").write_bytes(content)
        (tmp_path / "key").chmod(0o600)
        with pytest.raises(EvalkitError, match="not a signing key"):
            HelperSigner(tmp_path / "key")


# --- the passphrase ------------------------------------------------------------------------------

PROGRAM = """
import sys
from pathlib import Path
from evalkit.sealing import HelperSigner, pae
with HelperSigner(Path(sys.argv[1])) as signer:
    print("SIGNED", signer.sign(pae("application/vnd.in-toto+json", b"{}")).hex(), flush=True)
"""


def in_a_terminal(arguments: list[str], answers: list[bytes], *, timeout: float = 20) -> tuple[int, bytes]:
    """Run a program with a controlling terminal; give the next answer at each passphrase prompt."""
    pid, master = pty.fork()
    if pid == 0:
        try:
            os.execv(arguments[0], arguments)
        finally:
            os._exit(127)
    output, seen = b"", 0
    end = time.monotonic() + timeout
    try:
        while time.monotonic() < end:
            ready, _, _ = select.select([master], [], [], 0.1)
            if ready:
                try:
                    part = os.read(master, 4096)
                except OSError:
                    break
                if not part:
                    break
                output += part
            if output.count(b"Passphrase for") > seen and answers:
                seen += 1
                os.write(master, answers.pop(0) + b"\n")
        _, status = os.waitpid(pid, 0)
    finally:
        os.close(master)
    return os.waitstatus_to_exitcode(status), output


def test_passphrase_key_through_a_pty(tmp_path: Path) -> None:
    public = create_signing_key(tmp_path / "key", b"correct horse")
    arguments = [sys.executable, "-c", PROGRAM, str(tmp_path / "key")]
    code, output = in_a_terminal(arguments, [b"wrong", b"correct horse"])
    assert code == 0, output
    assert output.count(b"Passphrase for") == 2
    assert b"correct horse" not in output  # no echo
    assert holds(public, bytes.fromhex(output.split(b"SIGNED ")[1].split()[0].decode()))


def test_three_wrong_passphrases_end_it(tmp_path: Path) -> None:
    create_signing_key(tmp_path / "key", b"correct horse")
    arguments = [sys.executable, "-c", PROGRAM, str(tmp_path / "key")]
    code, output = in_a_terminal(arguments, [b"a", b"b", b"c", b"correct horse"])
    assert code != 0
    assert b"does not open" in output
    assert b"SIGNED" not in output


def test_without_a_terminal_the_passphrase_is_not_taken_from_anywhere(tmp_path: Path) -> None:
    """Passphrase by prompt only: neither standard input nor the environment is asked."""
    create_signing_key(tmp_path / "key", b"correct horse")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "key")],
        input=b"correct horse\n",
        env=os.environ | {"SSH_ASKPASS": "/bin/true", "EVALKIT_PASSPHRASE": "correct horse"},
        capture_output=True,
        start_new_session=True,
        timeout=30,
        check=False,
    )
    assert done.returncode != 0
    assert b"no terminal" in done.stderr
    assert b"ssh-add" in done.stderr


# --- the agent -----------------------------------------------------------------------------------


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    if shutil.which("ssh-agent") is None or shutil.which("ssh-add") is None:
        pytest.skip("ssh-agent or ssh-add is not installed")
    socket = tmp_path / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    try:
        for _ in range(100):
            if socket.exists():
                break
            time.sleep(0.02)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        yield socket
    finally:
        process.terminate()
        process.wait()


def add(key: Path) -> None:
    subprocess.run(["ssh-add", "-q", str(key)], check=True, capture_output=True)


def test_the_agent_signs_the_message_itself(agent: Path, tmp_path: Path) -> None:
    public = create_signing_key(tmp_path / "key")
    signer = AgentSigner(public)
    assert not signer.holds_key()
    with pytest.raises(EvalkitError, match="did not sign"):
        signer.sign(MESSAGE)
    add(tmp_path / "key")
    assert signer.holds_key()
    assert isinstance(signer, Signer)
    assert holds(public, signer.sign(MESSAGE))


def test_no_agent_is_a_clear_error() -> None:
    for environ in ({}, {"SSH_AUTH_SOCK": "/nonexistent/socket"}):
        signer = AgentSigner(bytes(32), environ=environ)
        assert not signer.holds_key()
        with pytest.raises(EvalkitError, match="ssh-agent did not sign") as caught:
            signer.sign(MESSAGE)
        assert caught.value.where


@contextlib.contextmanager
def answering(path: Path, *answers: bytes) -> Iterator[list[bytes]]:
    """An agent at ``path`` that gives these answers, one for each connection, whatever it is asked."""
    seen: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            for answer in answers:
                connection, _ = listener.accept()
                with connection:
                    seen.append(connection.recv(1 << 20))
                    with contextlib.suppress(BrokenPipeError):
                        connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield seen
        thread.join()


def test_what_an_agent_is_asked_and_what_is_taken_from_it(tmp_path: Path) -> None:
    public, raw = bytes(range(32)), bytes(64)
    blob = ssh_string(b"ssh-ed25519") + ssh_string(public)
    right = ssh_string(b"\x0e" + ssh_string(ssh_string(b"ssh-ed25519") + ssh_string(raw)))
    wrong = {
        "failure": ssh_string(b"\x05"),
        "closed": b"",
        "half a length": right[:3],
        "cut off": right[:-1],
        "of no length": bytes(4),
        "too long": (256 * 1024 + 1).to_bytes(4, "big") + bytes(100),
        "long and cut off": (256 * 1024).to_bytes(4, "big") + bytes(100),
        "another algorithm": ssh_string(b"\x0e" + ssh_string(ssh_string(b"ssh-rsa") + ssh_string(raw))),
        "63 bytes": ssh_string(b"\x0e" + ssh_string(ssh_string(b"ssh-ed25519") + ssh_string(raw[:63]))),
        "more after it": ssh_string(right[4:] + b"x"),
        "more in it": ssh_string(b"\x0e" + ssh_string(ssh_string(b"ssh-ed25519") + ssh_string(raw) + b"x")),
        "no string": ssh_string(b"\x0e\0\0"),
    }
    said = dict.fromkeys(wrong, "")
    signer = AgentSigner(public, environ={"SSH_AUTH_SOCK": str(tmp_path / "agent")})
    with answering(tmp_path / "agent", right, *wrong.values()) as seen:
        assert signer.sign(MESSAGE) == raw
        for name in wrong:
            with pytest.raises(EvalkitError, match="ssh-agent did not sign") as caught:
                signer.sign(MESSAGE)
            said[name] = caught.value.what
    assert seen == [ssh_string(b"\x0d" + ssh_string(blob) + ssh_string(MESSAGE) + bytes(4))] * 13
    assert "closed" in said["too long"]
    assert "cut off" in said["long and cut off"]


def test_which_keys_an_agent_says_it_holds(tmp_path: Path) -> None:
    public = bytes(range(32))
    blob = ssh_string(b"ssh-ed25519") + ssh_string(public)
    other = ssh_string(ssh_string(b"ssh-rsa") + b"x") + ssh_string(b"comment")
    mine = ssh_string(blob) + ssh_string(b"comment")
    cases = [
        (b"\x0c" + b"\0\0\0\2" + other + mine, True),
        (b"\x0c" + b"\0\0\0\1" + mine, True),
        (b"\x0c" + b"\0\0\0\0", False),
        (b"\x0c" + b"\0\0\0\1" + other + mine, False),  # one key, it says
        (b"\x0c" + b"\0\0\0\1" + other, False),
        (b"\x0c" + b"\0\0\0\3" + other, False),
        (b"\x0d" + b"\0\0\0\1" + mine, False),
        (b"\x0c", False),
    ]
    signer = AgentSigner(public, environ={"SSH_AUTH_SOCK": str(tmp_path / "agent")})
    with answering(tmp_path / "agent", *(ssh_string(answer) for answer, _ in cases)) as seen:
        assert [signer.holds_key() for _ in cases] == [held for _, held in cases]
    assert seen == [b"\0\0\0\1\x0b"] * len(cases)


def test_resolve_prefers_the_agent_and_falls_back_to_the_process(agent: Path) -> None:
    places = Places.from_environment()
    with pytest.raises(EvalkitError, match="no signing key"):
        resolve_signer(places)
    public = create_signing_key(places.signing_key)
    with resolve_signer(places) as signer:
        assert isinstance(signer, HelperSigner)
        assert holds(public, signer.sign(MESSAGE))
    add(places.signing_key)
    with resolve_signer(places) as signer:
        assert isinstance(signer, AgentSigner)
        assert holds(public, signer.sign(MESSAGE))


def test_resolve_refuses_a_key_in_the_workspace(tmp_path: Path) -> None:
    create_signing_key(tmp_path / "run" / "key")
    with pytest.raises(EvalkitError, match="inside the workspace"):
        resolve_signer(
            Places.from_environment(), key_path=tmp_path / "run" / "key", workspace=[tmp_path / "run"]
        )


def test_importing_the_package_is_cheap() -> None:
    program = (
        "import time; before = time.process_time(); import evalkit.sealing, sys; "
        "print(time.process_time() - before, 'cryptography' in sys.modules, 'pydantic' in sys.modules)"
    )
    cost, cryptography, pydantic = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()
    assert float(cost) < 0.15
    assert cryptography == pydantic == "False"
