"""Making the user's own keys for the first time, so that no mistake and no crash ends in a dead end.

The steps of `begin`, under the lock of the keys folder
1. Read what is there: trust file, signing key, unsealing key.  A signing key that is pinned is refused:
   it changes by a rotation (`evalkit.sealing.successor`).
2. Ask for the passphrase.  Until here nothing was made.
3. Make the unsealing key, if there is none.  One that is there opens what was sealed to it, and stays.
4. Make the signing key, if there is none.
5. Pin it.

A crash leaves at most a signing key that nobody knows, and the next `begin` pins it.  So does a trust
file that was lost: the key in the folder is the user's own, which owner and mode of the file say.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from evalkit.errors import EvalkitError
from evalkit.sealing.files import (
    OTHERS_MAY_WRITE,
    directory,
    locked,
    make_private_directory,
    silent,
)
from evalkit.sealing.keys import (
    create_signing_key,
    create_unsealing_key,
    key_id,
    load_unsealing_key,
    public_part,
)
from evalkit.sealing.pinning import pin
from evalkit.sealing.places import Places
from evalkit.sealing.trust import Trust
from evalkit.sealing.trusted_key import TrustedKey


@dataclass(frozen=True)
class Begun:
    """The pinned signing key (32 raw bytes), and which files were there before."""

    public: bytes
    signing_kept: bool
    unsealing_kept: bool


def begin(
    places: Places,
    trust_file: Path,
    entry: Callable[[bytes], TrustedKey],
    *,
    passphrase: Callable[[], bytes | None],
    observe: Callable[[str], None] = silent,
) -> Begun:
    """Make the keys that are missing and pin the signing key, by the steps of the module.

    ``entry`` makes the entry to pin from the 32 raw bytes of the public key.  ``passphrase`` is asked only
    where a signing key is made (None: no protection).  Raises `EvalkitError` where a signing key is pinned
    already, and `BindingError` ``authority`` where the trust file is refused.
    """
    trust = Trust.load(trust_file, []) if os.path.lexists(trust_file) else None
    folder = places.signing_key.parent
    make_private_directory(folder)
    with directory(folder, binding=None, forbidden_mode=OTHERS_MAY_WRITE) as fd, locked(fd):
        public = public_part(places.signing_key)[0] if os.path.lexists(places.signing_key) else None
        if public is not None and trust is not None:
            _refuse_pinned(places, trust, key_id(public))
        unsealing_kept = os.path.lexists(places.unsealing_key)
        if unsealing_kept:
            load_unsealing_key(places.unsealing_key)
        signing_kept = public is not None
        protection = None if signing_kept else passphrase()
        observe("unsealing")
        if not unsealing_kept:
            create_unsealing_key(places.unsealing_key)
        observe("signing")
        if public is None:
            public = create_signing_key(places.signing_key, protection)
        observe("pin")
        pin(trust_file, entry(public))
    return Begun(public, signing_kept, unsealing_kept)


def _refuse_pinned(places: Places, trust: Trust, own: str) -> None:
    key = trust.key(own)
    if key is None:
        return
    status = trust.status(key, datetime.now(UTC))
    do = "evalkit keys show shows it, evalkit keys rotate changes it; one account has one key and one role"
    if status.word in ("revoked", "suspended", "expired"):
        away = (str(places.signing_key), str(places.retired_signing_key(own)))
        do = f"it counts no more ({status.text}): mv {shlex.join(away)}, then evalkit keys init again"
    raise EvalkitError(
        "you have a signing key already",
        where=str(places.signing_key),
        expected="no signing key, or one that your trust file does not pin yet",
        do=do,
    )
