"""``evalkit keys``: the user's own signing and unsealing keys."""

from __future__ import annotations

from pathlib import Path

import click

from evalkit.cli.options import trust_option
from evalkit.errors import EvalkitError


@click.group()
def keys() -> None:
    """Make and show the keys that sign and open your runs, and hand them over to verifiers."""


@keys.command()
@trust_option
@click.option(
    "--no-passphrase", is_flag=True, help="Leave the key unprotected (for machines without a person)."
)
@click.option(
    "--role", type=click.Choice(["evaluator", "custodian"]), default="evaluator", show_default=True,
    help="What the key may sign: runs, or what a custodian seals and releases.",
)  # fmt: skip
def init(trust: Path | None, no_passphrase: bool, role: str) -> None:
    """Make a signing key (OpenSSH Ed25519, passphrase by bcrypt) and an unsealing key, and pin the former.

    The passphrase is asked for at the terminal and nowhere else.  For batches, unlock the key once with
    ssh-add: evalkit signs through the agent.
    """
    from evalkit.decisions.custody.bundle import CUSTODY_PHASES
    from evalkit.decisions.precommitment import SIGNED_PHASES
    from evalkit.sealing import (
        PREDICATES,
        Places,
        TrustedKey,
        ask_passphrase,
        create_signing_key,
        create_unsealing_key,
        key_id,
        pin,
        trust_path,
    )

    phases: tuple[str, ...] = SIGNED_PHASES if role == "evaluator" else CUSTODY_PHASES
    places = Places.from_environment()
    passphrase = None if no_passphrase else ask_passphrase("New passphrase: ")
    if passphrase is not None and (not passphrase or passphrase != ask_passphrase("Once more: ")):
        raise EvalkitError(
            "the passphrase is empty or was not repeated",
            where="terminal",
            expected="the same passphrase twice",
            do="run it again, or pass --no-passphrase; no key was made",
        )
    public = create_signing_key(places.signing_key, passphrase)
    create_unsealing_key(places.unsealing_key)
    path = trust_path(trust, places)
    pin(
        path,
        TrustedKey.of(
            public,
            roles=(role, "instructor"),
            predicate_types=tuple(PREDICATES[name] for name in phases),
            custody="self" if role == "evaluator" else "second_party",
            comment="made by evalkit keys init",
        ),
    )
    click.echo(f"signing key    {places.signing_key}\n               {key_id(public)}")
    click.echo(f"unsealing key  {places.unsealing_key}\npinned in      {path}")
    if passphrase is not None:
        click.echo(f"for batches    ssh-add {places.signing_key}")


@keys.command()
@trust_option
def show(trust: Path | None) -> None:
    """Show your signing key and the keys that your trust file pins."""
    from evalkit.sealing import Places, Trust, key_id, trust_path
    from evalkit.sealing.keys import public_part

    places = Places.from_environment()
    if places.signing_key.exists():
        public, encrypted = public_part(places.signing_key)
        guard = "with passphrase" if encrypted else "without passphrase"
        click.echo(f"signing key {key_id(public)}, {guard}\n  {places.signing_key}")
    else:
        click.echo("no signing key: precommit makes an ephemeral one (evalkit keys init makes yours)")
    path = trust_path(trust, places)
    if not path.exists():
        click.echo(f"no trust file at {path}")
        return
    loaded = Trust.load(path, [])
    click.echo(f"trust {path} {loaded.digest}")
    for key in loaded.keys:
        scope = f"runs {', '.join(key.runs)}" if key.runs is not None else "every run"
        kind = "ephemeral, " if key.ephemeral else ""
        click.echo(f"  {key.key_id}  {kind}custody {key.custody}, {scope}")


@keys.command()
@click.argument("key")
@trust_option
def export(key: str, trust: Path | None) -> None:
    """Print the entry of KEY (a key id, or the id of the run it was made for), to hand to a verifier.

    The entry holds the public key and what it may sign; it is no secret, and no proof of whose it is.
    """
    from evalkit.sealing import Places, Trust, canonical_json, trust_path

    loaded = Trust.load(trust_path(trust, Places.from_environment()), [])
    found = [k for k in loaded.keys if k.key_id == key or (k.runs is not None and key in k.runs)]
    if not found:
        raise EvalkitError(
            f"no pinned key has the id {key!r} or was made for such a run",
            where=str(loaded.path),
            expected="a key id or run id that `evalkit keys show` lists",
            do="evalkit keys show",
        )
    for entry in found:
        click.echo(canonical_json(entry.record()).decode())


@keys.command("pin")
@click.argument("entry", type=click.Path(path_type=Path, dir_okay=False))
@trust_option
def pin_entry(entry: Path, trust: Path | None) -> None:
    """Trust the key in the file ENTRY, which its owner made with `evalkit keys export`.

    Compare the key id that is printed with its owner by another way before you rely on it.
    """
    from evalkit.decisions.packet import load_user_json
    from evalkit.sealing import Places, TrustedKey, pin, trust_path

    try:
        data = entry.read_bytes()
    except OSError as error:
        raise EvalkitError(
            f"cannot read the entry ({error.strerror})",
            where=str(entry),
            expected="a file made with `evalkit keys export`",
            do="check the path",
        ) from None
    key = TrustedKey.from_record(load_user_json(data, str(entry)), where=str(entry))
    path = trust_path(trust, Places.from_environment())
    pin(path, key)
    click.echo(
        f"pinned {key.key_id}\n    in {path}\ncompare this id with the key's owner before you rely on it"
    )
