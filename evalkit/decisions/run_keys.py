"""The keys of a run: the user's own, or ephemeral ones that are made for it, and end with it.

Ephemeral keys lie outside the workspace and are pinned for their run only.  They go again where no run
comes of them, and once their run is revealed: then nothing is left for them to sign or open, and a key
that is gone can be stolen no more.  Their pin stays, for the run is verified with it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from evalkit.errors import Binding, BindingError
from evalkit.sealing import PREDICATES, Places, Trust, trust_path

SIGNED_PHASES = ("decisions/precommit", "decisions/ex-ante", "decisions/reveal")


@dataclass(frozen=True)
class RunKeys:
    """Public halves of the keys of a run, and where their private halves lie.

    ``signing_path`` is None for the user's own key, ``unsealing_public`` where a custodian keeps that key.
    """

    signing_path: Path | None
    unsealing_public: bytes | None
    ephemeral: bool


def unsealing_public_key(places: Places, workspace: list[Path]) -> bytes:
    """The public half of the configured unsealing key, which is made if there is none (32 raw bytes)."""
    from evalkit.sealing import create_unsealing_key, load_unsealing_key

    if not os.path.lexists(places.unsealing_key):
        return create_unsealing_key(places.unsealing_key, workspace=workspace)
    private = load_unsealing_key(places.unsealing_key, workspace=workspace)
    return private.public_key().public_bytes_raw()


@contextmanager
def keys_for_run(
    places: Places, run_id: str, workspace: list[Path], trust: Path | None, out: Path, *, sealing: bool
) -> Iterator[RunKeys]:
    """The configured keys, or ephemeral ones that are pinned for this run only.

    ``sealing``: the run has an unsealing key of its own, since no custodian keeps one.  Where the block
    fails before there is a run at ``out``, the ephemeral keys and their pin go again.
    """
    from evalkit.sealing import TrustedKey, create_signing_key, create_unsealing_key, pin
    from evalkit.sealing.pinning import unpin

    trust_file = trust_path(trust, places)
    if os.path.lexists(places.signing_key):
        yield RunKeys(None, unsealing_public_key(places, workspace) if sealing else None, ephemeral=False)
        return
    signing_path, unsealing_path = _ephemeral(places, run_id)
    with ExitStack() as undo:  # holds what was made here, never the keys of an older run of that id
        signing = create_signing_key(signing_path, workspace=workspace)
        undo.callback(signing_path.parent.rmdir)
        undo.callback(signing_path.unlink)
        unsealing = None
        if sealing:
            unsealing = create_unsealing_key(unsealing_path, workspace=workspace)
            undo.callback(unsealing_path.unlink)
        key = TrustedKey.of(
            signing,
            roles=("evaluator", "instructor"),
            predicate_types=tuple(PREDICATES[name] for name in SIGNED_PHASES),
            custody="self",
            ephemeral=True,
            runs=(run_id,),
            comment="made by precommit because no signing key was configured",
        )
        pin(trust_file, key, workspace=workspace)
        undo.callback(unpin, trust_file, key, workspace=workspace)
        try:
            yield RunKeys(signing_path, unsealing, ephemeral=True)
        except BaseException:
            if os.path.lexists(out):  # the run is there, and only what came after it failed
                undo.pop_all()
            raise
        undo.pop_all()


def require_role(key_id: str, phase: str, role: str, *, trust: Trust, run_id: str, at: datetime) -> None:
    """Refuse, before a passphrase is asked for and anything is signed, a key that may not sign ``phase``.

    ``role`` is what `evalkit keys init` calls it.  Raises `BindingError` ``authority``.
    """
    predicate_type = PREDICATES[phase]
    key = trust.key(key_id)
    objection = "it is not pinned" if key is None else trust.objection(key, predicate_type, run_id, at)
    if not objection:
        return
    what, do = f"your key cannot sign as {role}: {objection}", "see evalkit keys list"
    if key is not None and predicate_type not in key.predicate_types:
        made = f"made for the role {key.roles[0]}" if key.roles else "pinned for something else"
        what = f"your key is {made}; this step needs the key of a {role}"
        do = f"run this in the {role}'s account; a {role} without keys makes them there: evalkit keys init --role {role}"
    raise BindingError(
        Binding.AUTHORITY,
        what,
        where=key_id,
        expected=f"a key that {trust.path} pins for {predicate_type}",
        do=f"{do}; nothing was signed",
    )


def discard_ephemeral(places: Places, run_id: str) -> None:
    """Delete the private keys that were made for a run; what is gone already is no error."""
    for path in _ephemeral(places, run_id):
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # not there, or somebody has put something into it
        places.ephemeral(run_id).rmdir()


def _ephemeral(places: Places, run_id: str) -> tuple[Path, Path]:
    folder = places.ephemeral(run_id)
    return folder / "signing", folder / "unsealing.pem"
