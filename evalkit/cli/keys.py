"""``evalkit keys``: the user's own keys, and the keys of others that the user trusts."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evalkit.cli.options import json_option, print_json, trust_option
from evalkit.errors import EvalkitError
from evalkit.visible import visible

if TYPE_CHECKING:
    from evalkit.sealing import Places, Trust, TrustedKey

_HEX = re.compile(r"[0-9a-f]{64}")
COMPARE = "compare this id with the key's owner before you rely on it"


@click.group()
def keys() -> None:
    """Make, show, rotate and revoke the keys that sign and open your runs, and hand them over to verifiers."""


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

    One account has one signing key, with one role.  An unsealing key that is there is kept, and a signing
    key that is there but not pinned is pinned: run it again if it was interrupted.

    The passphrase is asked for at the terminal and nowhere else.  For batches, unlock the key once with
    ssh-add: evalkit signs through the agent.
    """
    from evalkit.decisions.custody.bundle import CUSTODY_PHASES
    from evalkit.decisions.run_keys import SIGNED_PHASES
    from evalkit.sealing import PREDICATES, Places, TrustedKey, key_id, trust_path
    from evalkit.sealing.first_key import begin
    from evalkit.sealing.keys import public_part

    phases: tuple[str, ...] = SIGNED_PHASES if role == "evaluator" else CUSTODY_PHASES
    places = Places.from_environment()
    path = trust_path(trust, places)

    def entry(public: bytes) -> TrustedKey:
        return TrustedKey.of(
            public,
            roles=(role, "instructor"),
            # its own successor as well: evalkit keys rotate
            predicate_types=tuple(PREDICATES[name] for name in (*phases, "trust/rotation")),
            custody="self" if role == "evaluator" else "second_party",
            comment="made by evalkit keys init",
        )

    made = begin(places, path, entry, passphrase=lambda: _new_passphrase(no_passphrase))
    click.echo(f"signing key    {places.signing_key}{', kept' if made.signing_kept else ''}")
    click.echo(f"               {key_id(made.public)}")
    click.echo(f"unsealing key  {places.unsealing_key}{', kept' if made.unsealing_kept else ''}")
    click.echo(f"pinned in      {path}, role {role}")
    if public_part(places.signing_key)[1]:
        click.echo(f"for batches    ssh-add {places.signing_key}")


def _new_passphrase(none: bool) -> bytes | None:
    """A passphrase typed twice, or None where there is to be none."""
    from evalkit.sealing import ask_passphrase
    from evalkit.sealing.terminal import NoTerminal

    if none:
        return None
    try:
        passphrase = ask_passphrase("New passphrase: ")
    except NoTerminal as error:
        raise EvalkitError(
            "a new key needs a passphrase, and there is no terminal to ask for it",
            where=error.where,
            expected="a terminal, or --no-passphrase",
            do="run it in a terminal, or pass --no-passphrase: then only the file's mode guards the key",
        ) from None
    if not passphrase or passphrase != ask_passphrase("Once more: "):
        raise EvalkitError(
            "the passphrase is empty or was not repeated",
            where="terminal",
            expected="the same passphrase twice",
            do="run it again, or pass --no-passphrase; no key was made",
        )
    return passphrase


@keys.command()
@json_option
def show(as_json: bool) -> None:
    """Show your own keys: the signing key, how it is guarded, retired ones, and the unsealing key.

    Retired are keys that were rotated, or moved away by hand; unused are keys that an interrupted rotation
    made and that never signed anything.

    `evalkit keys list` shows the keys that your trust file pins.
    """
    from evalkit.sealing import Places, load_unsealing_key

    places = Places.from_environment()
    signing = _own_key(places.signing_key) if places.signing_key.exists() else None
    folder = places.signing_key.parent
    retired, unused = (
        [
            _own_key(p)
            for p in sorted(folder.glob(f"{prefix}*"))
            if _HEX.fullmatch(p.name.removeprefix(prefix))
        ]
        for prefix in ("signing-", "signing-unused-")
    )
    unsealing = None
    if places.unsealing_key.exists():
        public = load_unsealing_key(places.unsealing_key).public_key().public_bytes_raw()
        unsealing = {"public_key": public.hex(), "path": str(places.unsealing_key)}
    if as_json:
        print_json({"signing": signing, "retired": retired, "unused": unused, "unsealing": unsealing})
        return
    if signing is None:
        click.echo("no signing key: precommit makes an ephemeral one (evalkit keys init makes yours)")
    else:
        click.echo(f"signing key {_own_text(signing)}")
    for word, others in (("retired", retired), ("unused", unused)):
        for key in others:
            click.echo(f"{word} key {_own_text(key)}")
    if unsealing is not None:
        click.echo(f"unsealing key {unsealing['public_key']}, without passphrase\n  {unsealing['path']}")
    click.echo("evalkit keys list shows the keys that you trust")


def _own_key(path: Path) -> dict[str, Any]:
    from evalkit.sealing import AgentSigner, key_id
    from evalkit.sealing.keys import public_part

    public, encrypted = public_part(path)
    return {
        "key_id": key_id(public),
        "public_key": public.hex(),
        "path": str(path),
        "encrypted": encrypted,
        "in_agent": AgentSigner(public).holds_key(),
    }


def _own_text(key: dict[str, Any]) -> str:
    guard = "with passphrase" if key["encrypted"] else "without passphrase"
    agent = ", ssh-agent holds it" if key["in_agent"] else ""
    return f"{key['key_id']}, {guard}{agent}\n  {key['path']}"


@keys.command("list")
@trust_option
@json_option
def list_keys(trust: Path | None, as_json: bool) -> None:
    """List every key that your trust file pins, what it may sign and what it is worth now."""
    loaded = _load(trust)
    now = datetime.now(UTC)
    if as_json:
        print_json(
            {
                "trust": {"path": str(loaded.path), "digest": loaded.digest},
                "keys": [_listed(loaded, key, now) for key in loaded.keys],
            }
        )
        return
    click.echo(f"trust {loaded.path} {loaded.digest}")
    for key in loaded.keys:
        kind = "ephemeral, " if key.ephemeral else ""
        for name, value in (
            (key.key_id, ""),
            ("  status", loaded.status(key, now).text),
            ("  roles", ", ".join(key.roles) or "none"),
            ("  may sign", "\n            ".join(key.predicate_types) or "nothing"),
            ("  runs", "every run" if key.runs is None else ", ".join(key.runs) or "none"),
            ("  custody", f"{kind}{key.custody}"),
            ("  comment", visible(key.comment)),
        ):
            if value or not name.startswith(" "):
                click.echo(f"{name:<11} {value}".rstrip())


def _listed(trust: Trust, key: TrustedKey, now: datetime) -> dict[str, Any]:
    from evalkit.sealing.times import short_text

    end, rotation, revocation = trust.end(key), trust.rotation_from(key.key_id), trust.revocation(key.key_id)
    status = trust.status(key, now)
    return key.record() | {
        "status": status.word,
        "status_text": status.text,
        "ends": None if end is None else short_text(end),
        "rotated_to": None if rotation is None else rotation.next.key_id,
        "revocation": None if revocation is None else revocation.record(),
    }


def _load(trust: Path | None) -> Trust:
    from evalkit.sealing import Places, Trust, trust_path

    return Trust.load(trust_path(trust, Places.from_environment()), [])


@keys.command()
@click.argument("key", required=False, metavar="[KEY]")
@trust_option
def export(key: str | None, trust: Path | None) -> None:
    """Print the entry of your own key, or of KEY, for a verifier.

    KEY is a key id or its beginning, or the id of a run that you planned or sealed.

    The entry holds the public key and what it may sign; it is no secret, and no proof of whose it is.
    For a key that was rotated, the first entry and the signed rotations are printed: who has pinned a
    key of that chain can check the ones after it.
    """
    from evalkit.sealing import canonical_json
    from evalkit.sealing.pinning import chain_record

    loaded = _load(trust)
    for entry in _to_export(loaded, key):
        chained = loaded.rotation_from(entry.key_id) or loaded.rotation_to(entry.key_id)
        # a chain from a key that does not count would be refused; the entry may still be pinned by decision
        chain = chained is not None and not loaded.suspension(entry.key_id)
        click.echo(canonical_json(chain_record(loaded, entry) if chain else entry.record()).decode())


def _to_export(trust: Trust, key: str | None) -> list[TrustedKey]:
    """The keys that are meant: one's own, those made for a run, that of a run's ledger, or by their id."""
    from evalkit.sealing import Places, key_id
    from evalkit.sealing.keys import public_part

    places = Places.from_environment()
    if key is not None:
        made_for = [k for k in trust.keys if k.runs is not None and key in k.runs]
        return made_for or [trust.find(_signer_of_run(places, key) or key)]
    if not places.signing_key.exists():
        raise EvalkitError(
            "you have no signing key",
            where=str(places.signing_key),
            expected="a key of your own, or the name of another one",
            do="for a run whose key was made for it: evalkit keys export RUN_ID; for others: evalkit keys list",
        )
    own = key_id(public_part(places.signing_key)[0])
    entry = trust.key(own)
    if entry is None:
        raise EvalkitError(
            "your signing key is not pinned, so it has no entry",
            where=f"{trust.path}: {own}",
            expected="an entry for it",
            do="evalkit keys init pins it",
        )
    return [entry]


def _signer_of_run(places: Places, run_id: str) -> str | None:
    """The key in whose ledger that run was planned, or sealed for another; None where none of yours knows it."""
    from evalkit.sealing import Ledger

    for path in sorted(places.ledgers.glob("*.jsonl")):
        if _HEX.fullmatch(path.stem):
            for entry in Ledger(path).entries():
                if entry.record["event"] in ("precommit", "sealed") and entry.record.get("run_id") == run_id:
                    return f"sha256:{path.stem}"
    return None


@keys.command("pin")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@trust_option
@click.option("--again", is_flag=True, help="Decide anew to trust a key whose rotation does not count.")
@json_option
def pin_entry(file: Path, trust: Path | None, again: bool, as_json: bool) -> None:
    """Trust the key in FILE, which its owner made with `evalkit keys export`.

    A key that is new to you: compare the id that is printed with its owner by another way before you rely
    on it.  A chain of rotations from a key that you have pinned needs no decision: that key signed it.
    """
    from evalkit.decisions.packet import load_user_json
    from evalkit.sealing import Places, pin, trust_path
    from evalkit.sealing.exchange import read_named
    from evalkit.sealing.pinning import entry_from_another, pin_chain

    try:
        data = read_named(file)
    except OSError as error:
        raise EvalkitError(
            f"cannot read the entry ({error.strerror})",
            where=str(file),
            expected="a file made with `evalkit keys export`",
            do="check the path",
        ) from None
    record = load_user_json(data, str(file))
    path = trust_path(trust, Places.from_environment())
    if not isinstance(record, dict) or not ("rotations" in record or {"key_id", "public_key"} <= set(record)):
        raise EvalkitError(
            "this is no key entry",
            where=str(file),
            expected="what evalkit keys export prints",
            do="nothing was pinned; check the path, or ask the key's owner for the entry",
        )
    if "rotations" not in record:
        key = entry_from_another(record, where=str(file))
        added = [key.key_id] if pin(path, key, again=again) else []
        result = {"key_id": key.key_id, "trust": str(path), "proven_by": None, "added": added}
        text = f"pinned {key.key_id}\n    in {path}\n{COMPARE}"
        if not added:
            text = f"pinned already, nothing changed: {key.key_id}\n    in {path}"
    else:
        followed = pin_chain(path, record, where=str(file), again=again)
        result = {
            "key_id": followed.newest.key_id,
            "trust": str(path),
            "proven_by": followed.proven_by,
            "added": list(followed.added),
        }
        text = f"pinned {followed.newest.key_id}\n    in {path}\n"
        if not followed.added:
            text = f"pinned already, nothing changed: {followed.newest.key_id}\n    in {path}\n"
        if followed.proven_by is not None:
            text += f"proven by the key you pinned before, {followed.proven_by}"
        elif not followed.added:
            text += "the chain adds nothing"
        else:
            text += (
                "this cannot be checked by its rotations: no key before it in the chain is pinned here and counts,\n"
                f"so it is as new to you as any other key: {COMPARE}"
            )
    if as_json:
        print_json(result)
    else:
        click.echo(text)


@keys.command()
@click.argument("key")
@click.option(
    "--reason",
    required=True,
    type=click.Choice(["compromised", "superseded", "lost"]),
    help="Why the key no longer counts.",
)
@click.option("--since", help="From when on, for example 2026-11-30T12:00:00Z; now by default.")
@click.option("--comment", default="", help="A note for yourself.")
@trust_option
@json_option
def revoke(key: str, reason: str, since: str | None, comment: str, trust: Path | None, as_json: bool) -> None:
    """Revoke KEY (a key id, or at least the first 8 digits of it) in your trust file.

    What it signed then counts only where a timestamp authority saw it before that time.  A revocation can be
    made wider later (an earlier time; compromised) and never narrower.
    """
    from evalkit.sealing import Trust
    from evalkit.sealing import revoke as revoke_key

    loaded = _load(trust)
    found = loaded.find(key)
    made = revoke_key(loaded.path, found.key_id, reason=reason, since=_moment(since), comment=comment)
    after = Trust.load(loaded.path, [])
    hanging = [k.key_id for k in after.keys if after.suspension(k.key_id)]
    if as_json:
        print_json({"revocation": made.record(), "trust": str(after.path), "suspended": hanging})
        return
    click.echo(f"{after.status(found, datetime.now(UTC)).text}\n  {found.key_id}\n  in {after.path}")
    click.echo("what it signed counts only with a timestamp from before; runs signed with it fail to verify")
    for suspended in hanging:
        click.echo(f"suspended {suspended}\n  {after.suspension(suspended)}")
    if hanging:
        click.echo("to trust one of these all the same, by your own decision: evalkit keys pin --again FILE")


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise EvalkitError(
            f"{text!a} is not a time with an offset",
            where="--since",
            expected="for example 2026-11-30T12:00:00Z",
            do="correct it, or leave it out for now",
        )
    return moment.astimezone(UTC)


@keys.command()
@trust_option
@click.option(
    "--overlap-days",
    type=click.IntRange(0, 366),
    default=0,
    show_default=True,
    help="How long the old key stays valid, to finish runs that were planned with it.",
)
@click.option(
    "--no-passphrase", is_flag=True, help="Leave the new key unprotected (for machines without a person)."
)
@json_option
def rotate(trust: Path | None, overlap_days: int, no_passphrase: bool, as_json: bool) -> None:
    """Make a new signing key, signed for by the old one, and put it in the old one's place.

    The old key is kept for unfinished runs and as long as the overlap lasts.  Run it again if it was
    interrupted: it finishes what it began.
    """
    from evalkit.sealing import Places, trust_path
    from evalkit.sealing.successor import rotate as rotate_key
    from evalkit.sealing.times import short_text

    places = Places.from_environment()
    path = trust_path(trust, places)
    done = rotate_key(
        places,
        path,
        passphrase=lambda: _new_passphrase(no_passphrase),
        overlap=timedelta(days=overlap_days),
    )
    rotation = done.rotation
    ends = short_text(rotation.ends_previous)
    if as_json:
        print_json(
            {
                "previous": rotation.previous,
                "next": rotation.next.key_id,
                "serial": rotation.serial,
                "ends_previous": ends,
                "envelope": rotation.digest,
                "signing_key": str(places.signing_key),
                "retired_key": str(done.retired),
                "trust": str(path),
                "resumed": done.resumed,
            }
        )
        return
    if done.resumed:
        click.echo("a rotation that was interrupted is finished")
    click.echo(f"signing key    {places.signing_key}\n               {rotation.next.key_id}")
    click.echo(f"retired key    {done.retired}\n               {rotation.previous}\npinned in      {path}")
    if rotation.ends_previous > rotation.signed_at:
        click.echo(
            f"runs planned with the retired key can be finished until {ends}; new plans use the new key"
        )
    else:
        click.echo(
            f"the retired key ended on {ends}: runs planned with it cannot be finished any more, what it signed"
            " before stays valid (--overlap-days leaves time)"
        )
    click.echo(f"for verifiers  evalkit keys export {rotation.next.key_id} > chain.json")
    click.echo("               they run evalkit keys pin chain.json")
