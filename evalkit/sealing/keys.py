"""Key files: Ed25519 for signing, X25519 for opening sealed packets.

Rules
1. A signing key is an OpenSSH private key file: encrypted it uses bcrypt, which costs an attacker
   far more per guess than the 2,048 PBKDF2 rounds of an encrypted PKCS#8 file.
2. Files are created with ``O_EXCL`` and mode 0600, outside every workspace, and are refused when
   another user owns them, when others may read them, or when they are links.
3. A key's id is the digest of its public key as DER SubjectPublicKeyInfo (RFC 8410), which names
   the algorithm along with the 32 raw bytes.
4. Public keys of small order are refused: for those, signatures exist that anybody can compute
   (RFC 8032 section 8.4; "Taming the many EdDSAs", Chalkias, Garillot, Nikolaenko, 2020).

Formats: PROTOCOL.key of OpenSSH, RFC 5958 (PKCS#8).
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from evalkit.errors import Binding, BindingError, EvalkitError
from evalkit.sealing.canonical import digest
from evalkit.sealing.files import (
    OTHERS_MAY_ANYTHING,
    OTHERS_MAY_WRITE,
    directory,
    make_private_directory,
    read_at,
    refuse_inside,
    sync,
    write_new_at,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

BCRYPT_ROUNDS = 100
_MAX_KEY_FILE = 16 * 1024
_MAGIC = b"openssh-key-v1\0"
_BEGIN = b"-----BEGIN OPENSSH PRIVATE KEY-----"
_END = b"-----END OPENSSH PRIVATE KEY-----"

# SEQUENCE { SEQUENCE { OID 1.3.101.112 }, BIT STRING of 32 bytes }: constant for every Ed25519 key.
_SPKI_ED25519 = bytes.fromhex("302a300506032b6570032100")

_P = 2**255 - 19
# y of the points whose order divides 8, as any decoder may meet them: order 1 (1), 2 (p - 1),
# 4 (0) and 8 (the last two), and beside them p and p + 1, the other spellings of 0 and 1.
_SMALL_ORDER_Y = (
    0,
    1,
    _P - 1,
    _P,
    _P + 1,
    int.from_bytes(
        bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little"
    ),
    int.from_bytes(
        bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"), "little"
    ),
)
SMALL_ORDER = frozenset((y | sign << 255).to_bytes(32, "little") for y in _SMALL_ORDER_Y for sign in (0, 1))


def key_id(public_key: bytes) -> str:
    """``sha256:`` and the hex digest of the SubjectPublicKeyInfo of an Ed25519 public key (raw)."""
    if len(public_key) != 32:
        raise EvalkitError(f"a public key of {len(public_key)} bytes", expected="32 raw bytes")
    return digest(_SPKI_ED25519 + public_key)


def refuse_small_order(public_key: bytes) -> None:
    """Raise where the public key is one of the 14 encodings of a point of small order."""
    if len(public_key) != 32:
        raise BindingError(
            Binding.AUTHORITY, f"a public key of {len(public_key)} bytes", expected="32 raw bytes"
        )
    if bytes(public_key) in SMALL_ORDER:
        raise BindingError(
            Binding.AUTHORITY,
            "this public key has small order: anybody can forge signatures for it",
            where=key_id(public_key),
            expected="a key made by evalkit keys init or ssh-keygen -t ed25519",
            do="remove it, and ask who gave it to you",
        )


def create_signing_key(
    path: Path, passphrase: bytes | None = None, *, workspace: Iterable[Path] = ()
) -> bytes:
    """Make a new Ed25519 key file in OpenSSH format; returns the 32 raw public bytes.

    ``passphrase`` comes from a prompt (`evalkit.sealing.terminal`), never from a command-line
    parameter or the environment.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        KeySerializationEncryption,
        NoEncryption,
        PrivateFormat,
    )

    refuse_inside(path, workspace, what="signing key")
    if passphrase is not None and not passphrase:
        raise EvalkitError("the passphrase is empty", expected="a passphrase, or None for no encryption")
    encryption: KeySerializationEncryption = NoEncryption()
    if passphrase is not None:
        builder = PrivateFormat.OpenSSH.encryption_builder().kdf_rounds(BCRYPT_ROUNDS)
        encryption = builder.build(passphrase)
    key = Ed25519PrivateKey.generate()
    _write(path, key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, encryption))
    return key.public_key().public_bytes_raw()


def create_unsealing_key(path: Path, *, workspace: Iterable[Path] = ()) -> bytes:
    """Make a new X25519 key file (PKCS#8 PEM, 0600); returns the 32 raw public bytes."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    refuse_inside(path, workspace, what="unsealing key")
    key = X25519PrivateKey.generate()
    _write(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return key.public_key().public_bytes_raw()


def load_unsealing_key(path: Path, *, workspace: Iterable[Path] = ()) -> X25519PrivateKey:
    """The X25519 private key at ``path``, after the checks of rule 2."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    data = read_private_file(path, workspace=workspace)
    try:
        key = load_pem_private_key(data, password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, X25519PrivateKey):
        raise EvalkitError(
            "this is not an unsealing key",
            where=str(path),
            expected="an unencrypted X25519 key in PKCS#8 PEM",
            do="restore the file that evalkit keys init made",
        )
    return key


def load_signing_key(path: Path, passphrase: bytes | None) -> Ed25519PrivateKey:
    """The Ed25519 private key at ``path``.  Only the signing process calls this."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key

    data = read_private_file(path)
    try:
        key = load_ssh_private_key(data, password=passphrase)
    except (ValueError, TypeError):
        raise EvalkitError(
            "the signing key does not open",
            where=str(path),
            expected="its passphrase" if passphrase is not None else "an unencrypted OpenSSH key",
            do="try again; a lost passphrase cannot be recovered",
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise _not_signing_key(path)
    return key


def read_private_file(path: Path, *, workspace: Iterable[Path] = ()) -> bytes:
    """The bytes of a private key file, refused unless only its owner has access (rule 2)."""
    refuse_inside(path, workspace, what="private key")
    with directory(path.parent, binding=None, forbidden_mode=OTHERS_MAY_WRITE) as parent:
        return read_at(
            parent,
            path.name,
            where=str(path),
            binding=None,
            max_bytes=_MAX_KEY_FILE,
            forbidden_mode=OTHERS_MAY_ANYTHING,
        )


def public_part(path: Path, *, workspace: Iterable[Path] = ()) -> tuple[bytes, bool]:
    """(raw public key, needs a passphrase) of an OpenSSH key file, without opening the private part."""
    data = read_private_file(path, workspace=workspace).strip()
    try:
        if not (data.startswith(_BEGIN) and data.endswith(_END)):
            raise ValueError("armor")
        blob = base64.b64decode(b"".join(data[len(_BEGIN) : -len(_END)].split()), validate=True)
        if not blob.startswith(_MAGIC):
            raise ValueError("magic")
        cipher, rest = take_string(blob[len(_MAGIC) :])
        _kdf, rest = take_string(rest)
        _options, rest = take_string(rest)
        if rest[:4] != struct.pack(">I", 1):
            raise ValueError("number of keys")
        public, _ = take_string(rest[4:])
        kind, rest = take_string(public)
        raw, rest = take_string(rest)
        if kind != b"ssh-ed25519" or len(raw) != 32 or rest:
            raise ValueError("kind of key")
    except ValueError:
        raise _not_signing_key(path) from None
    return raw, cipher != b"none"


def ssh_string(data: bytes) -> bytes:
    """``data`` with its length before it, as every SSH format writes it (RFC 4251 section 5)."""
    return struct.pack(">I", len(data)) + data


def take_string(data: bytes) -> tuple[bytes, bytes]:
    """(first SSH string, the rest); ValueError where the data ends early."""
    if len(data) < 4:
        raise ValueError("the data ends within a length")
    (size,) = struct.unpack(">I", data[:4])
    if len(data) < 4 + size:
        raise ValueError("the data ends within a string")
    return data[4 : 4 + size], data[4 + size :]


def _not_signing_key(path: Path) -> EvalkitError:
    return EvalkitError(
        "this is not a signing key",
        where=str(path),
        expected="one Ed25519 key in OpenSSH format",
        do="make one with evalkit keys init",
    )


def _write(path: Path, data: bytes) -> None:
    make_private_directory(path.parent)
    with directory(path.parent, binding=None, forbidden_mode=OTHERS_MAY_WRITE) as parent:
        write_new_at(parent, path.name, data, where=str(path))
        sync(parent, str(path.parent))
