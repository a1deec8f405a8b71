"""``evalkit keys``: the user's own signing and unsealing keys."""

from __future__ import annotations

from pathlib import Path

import click

from evalkit.cli.options import trust_option
from evalkit.errors import EvalkitError


@click.group()
def keys() -> None:
    """Make and show the keys that sign and open your runs."""


@keys.command()
@trust_option
@click.option(
    "--no-passphrase", is_flag=True, help="Leave the key unprotected (for machines without a person)."
)
def init(trust: Path | None, no_passphrase: bool) -> None:
    """Make a signing key (OpenSSH Ed25519, passphrase by bcrypt) and an unsealing key, and pin the former.

    The passphrase is asked for at the terminal and nowhere else.  For batches, unlock the key once with
    ssh-add: evalkit signs through the agent.
    """
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
            roles=("evaluator", "instructor"),
            predicate_types=tuple(PREDICATES[name] for name in SIGNED_PHASES),
            custody="self",
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
