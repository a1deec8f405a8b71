"""Keys: files that only their owner reads, and public keys that nobody can forge for."""

from __future__ import annotations

import base64
import json
import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from evalkit.errors import Binding, BindingError, EvalkitError
from evalkit.sealing import Places, create_signing_key, create_unsealing_key, key_id, load_unsealing_key
from evalkit.sealing.keys import (
    SMALL_ORDER,
    load_signing_key,
    public_part,
    read_private_file,
    refuse_small_order,
    ssh_string,
    take_string,
)


def test_small_order_key_is_refused(shared_data: Path) -> None:
    cases = json.loads((shared_data / "sealing/evalkit_own/ed25519_small_order_keys.json").read_text())
    assert {bytes.fromhex(case["public_key_hex"]) for case in cases} == SMALL_ORDER
    assert len(SMALL_ORDER) == 14
    for public in SMALL_ORDER:
        with pytest.raises(BindingError, match="small order") as caught:
            refuse_small_order(public)
        assert caught.value.binding is Binding.AUTHORITY


def test_small_order_keys_really_let_a_signature_without_secret_verify(shared_data: Path) -> None:
    """Why the refusal is needed: the library accepts these."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    for case in json.loads((shared_data / "sealing/evalkit_own/ed25519_small_order_keys.json").read_text()):
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(case["public_key_hex"]))
        example = case["example"]
        key.verify(bytes.fromhex(example["sig_hex"]), example["message_utf8"].encode())


def test_a_signing_key_is_an_openssh_file_of_mode_0600(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "signing"
    public = create_signing_key(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert path.read_bytes().startswith(b"-----BEGIN OPENSSH PRIVATE KEY-----")
    assert public_part(path) == (public, False)
    assert load_signing_key(path, None).public_key().public_bytes_raw() == public
    assert key_id(public).startswith("sha256:")


def test_a_passphrase_means_bcrypt_with_100_rounds(tmp_path: Path) -> None:
    path = tmp_path / "signing"
    public = create_signing_key(path, b"correct horse")
    assert public_part(path) == (public, True)
    lines = path.read_bytes().split(b"\n")[1:-2]
    blob = base64.b64decode(b"".join(lines))
    at = blob.index(b"bcrypt") + len(b"bcrypt")
    # kdf options: string salt(16), uint32 rounds
    assert blob[at : at + 8] == b"\0\0\0\x18\0\0\0\x10"
    assert int.from_bytes(blob[at + 24 : at + 28], "big") == 100
    assert load_signing_key(path, b"correct horse").public_key().public_bytes_raw() == public
    with pytest.raises(EvalkitError, match="does not open"):
        load_signing_key(path, b"wrong")
    with pytest.raises(EvalkitError, match="does not open"):
        load_signing_key(path, None)
    with pytest.raises(EvalkitError, match="empty"):
        create_signing_key(tmp_path / "other", b"")


def test_ssh_keygen_reads_the_key(tmp_path: Path) -> None:
    path = tmp_path / "signing"
    public = create_signing_key(path)
    try:
        line = subprocess.run(
            ["ssh-keygen", "-y", "-f", str(path)], capture_output=True, check=True, text=True
        ).stdout
    except FileNotFoundError:
        pytest.skip("ssh-keygen is not installed")
    assert base64.b64decode(line.split()[1])[-32:] == public


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    for create in (create_signing_key, create_unsealing_key):
        path = tmp_path / create.__name__
        create(path)
        before = path.read_bytes()
        with pytest.raises(EvalkitError, match="there is a file already"):
            create(path)
        assert path.read_bytes() == before


def test_unsealing_key_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "unsealing.pem"
    public = create_unsealing_key(path)
    assert load_unsealing_key(path).public_key().public_bytes_raw() == public
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    create_signing_key(tmp_path / "signing")
    with pytest.raises(EvalkitError, match="not an unsealing key"):
        load_unsealing_key(tmp_path / "signing")


def _loosen(path: Path) -> None:
    path.chmod(0o640)


def _symlink(path: Path) -> None:
    path.rename(path.with_name("real"))
    path.symlink_to("real")


def _hard_link(path: Path) -> None:
    os.link(path, path.with_name("second"))


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def _open_folder(path: Path) -> None:
    path.parent.chmod(0o770)


def _foreign(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(path, 12345, -1)


@pytest.mark.parametrize("spoil", [_loosen, _symlink, _hard_link, _fifo, _open_folder, _foreign])
def test_key_files_prepared_by_others_are_refused(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    """Symlinked file, hard link kept, FIFO as file, loose permissions, foreign owner."""
    folder = tmp_path / "keys"
    create_unsealing_key(folder / "key")
    spoil(folder / "key")
    with pytest.raises(EvalkitError):
        load_unsealing_key(folder / "key")
    with pytest.raises(EvalkitError):
        public_part(folder / "key")


def test_keys_inside_a_workspace_are_refused(tmp_path: Path) -> None:
    run = tmp_path / "project" / "runs" / "r1"
    run.mkdir(parents=True)
    (tmp_path / "project" / ".git").mkdir()
    for inside in (run / "key", tmp_path / "project" / "key", run / ".." / "x" / "key"):
        with pytest.raises(BindingError, match="inside the workspace"):
            create_signing_key(inside, workspace=[run])
        with pytest.raises(BindingError, match="inside the workspace"):
            create_unsealing_key(inside, workspace=[run])
    create_unsealing_key(tmp_path / "elsewhere" / "key", workspace=[run])
    with pytest.raises(BindingError, match="inside the workspace"):
        load_unsealing_key(tmp_path / "elsewhere" / "key", workspace=[tmp_path / "elsewhere"])


def test_a_link_does_not_hide_that_a_key_is_inside(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "k").mkdir(parents=True)
    (tmp_path / "outside").symlink_to(run / "k")
    with pytest.raises(BindingError, match="inside the workspace"):
        create_signing_key(tmp_path / "outside" / "key", workspace=[run])


def test_key_id_is_the_digest_of_the_public_key_info(shared_data: Path) -> None:
    pinned = json.loads((shared_data / "sealing/evalkit_own/dsse_ed25519_cases.json").read_text())["pinned"]
    assert key_id(bytes.fromhex(pinned["public_raw_hex"])) == pinned["keyid"]


def test_places_follow_xdg() -> None:
    places = Places.from_environment({"HOME": "/home/ada"})
    assert places.trust == Path("/home/ada/.config/evalkit/trust.json")
    assert places.signing_key == Path("/home/ada/.config/evalkit/keys/signing")
    assert places.ledgers == Path("/home/ada/.local/state/evalkit/ledgers")
    assert places.ephemeral("r-1") == Path("/home/ada/.local/state/evalkit/ephemeral/r-1")
    moved = Places.from_environment({"HOME": "/h", "XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s"})
    assert (moved.config, moved.state) == (Path("/c/evalkit"), Path("/s/evalkit"))


def test_places_are_made_private(home_of_its_own: Path) -> None:
    places = Places.from_environment()
    places.create()
    places.create()
    made = (places.config, places.signing_key.parent, places.state, places.ledgers)
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in made] == [0o700] * 4


def test_a_relative_xdg_folder_cannot_move_trust_into_the_workspace() -> None:
    """Environment redirecting trust: a value relative to the working directory is ignored."""
    places = Places.from_environment({"HOME": "/home/ada", "XDG_CONFIG_HOME": "runs/r1"})
    assert places.config == Path("/home/ada/.config/evalkit")


@pytest.mark.parametrize("run_id", ["", "../x", "a/b", ".hidden", "é", "e\u0301", "a" * 129, "a\n"])
def test_run_ids_are_ascii_names(run_id: str) -> None:
    """NFC/NFD twins and path tricks."""
    with pytest.raises(EvalkitError, match="not a run id"):
        Places.from_environment({"HOME": "/h"}).ephemeral(run_id)


def test_tests_have_a_home_of_their_own(home_of_its_own: Path) -> None:
    assert str(Places.from_environment().config).startswith(str(home_of_its_own))


def test_ssh_strings_that_end_early_are_refused() -> None:
    assert take_string(ssh_string(b"ab") + b"rest") == (b"ab", b"rest")
    assert take_string(bytes(4)) == (b"", b"")
    for data in (b"", b"\0", b"\0\0\0", b"\0\0\0\1", b"\0\0\0\3ab"):
        with pytest.raises(ValueError, match="ends within"):
            take_string(data)


def test_a_file_with_two_keys_or_another_kind_is_no_signing_key(tmp_path: Path) -> None:
    public = create_signing_key(tmp_path / "key")
    lines = (tmp_path / "key").read_bytes().splitlines()
    blob = base64.b64decode(b"".join(lines[1:-1]))
    spki = ssh_string(ssh_string(b"ssh-ed25519") + ssh_string(public))
    start = blob.index(spki)

    def refused(changed: bytes) -> None:
        (tmp_path / "key").write_bytes(b"\n".join((lines[0], base64.b64encode(changed), lines[-1], b"")))
        with pytest.raises(EvalkitError, match="not a signing key"):
            public_part(tmp_path / "key")

    assert blob[start - 4 : start] == b"\0\0\0\1"
    refused(blob[: start - 4] + b"\0\0\0\2" + spki + blob[start:])
    refused(blob.replace(b"openssh-key-v1", b"openssh-key-v2"))
    for inner in (
        ssh_string(b"ssh-ed25518") + ssh_string(public),
        ssh_string(b"ssh-ed25519") + ssh_string(public[:-1]),
        ssh_string(b"ssh-ed25519") + ssh_string(public) + b"x",
    ):
        refused(blob[:start] + ssh_string(inner) + blob[start + len(spki) :])


def test_the_size_of_a_key_file_is_capped(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"x" * (16 * 1024))
    (tmp_path / "key").chmod(0o600)
    assert len(read_private_file(tmp_path / "key")) == 16 * 1024
    (tmp_path / "key").write_bytes(b"x" * (16 * 1024 + 1))
    with pytest.raises(EvalkitError, match="16385 bytes"):
        read_private_file(tmp_path / "key")


@pytest.mark.parametrize("size", [0, 31, 33, 64])
def test_a_public_key_has_32_bytes(size: int) -> None:
    for use in (key_id, refuse_small_order):
        with pytest.raises(EvalkitError, match=f"a public key of {size} bytes"):
            use(bytes(size))
