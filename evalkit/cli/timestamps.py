"""``evalkit timestamps``: proof by others of when an attestation was there (RFC 3161)."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evalkit.cli.options import json_option, print_json, run_argument, say, trust_option
from evalkit.errors import BindingError, EvalkitError

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

    from evalkit.sealing import TimestampAuthority

_FILE = click.Path(path_type=Path, dir_okay=False)
#: what `TimestampAuthority` finds wrong, and the option that brought it
_OPTION_OF = (
    ("names no authority", "--name"),
    ("is no policy", "--policy"),
    ("a root that", "--root"),
    ("chain does not end", "--root, --leaf"),
    ("leaf", "--leaf"),
    ("intermediate", "--leaf"),
)
_PHASES = click.Choice(["precommit", "ex-ante", "reveal"])

tsa_option = click.option(
    "--tsa", metavar="URL", help="Then have the attestation stamped by this timestamp authority."
)


@click.group()
def timestamps() -> None:
    """Have attestations stamped by a timestamp authority, and pin the authorities that count for you.

    Needs the extra: pip install 'evalkit-sealed[timestamps]', or pip install -e '.[timestamps]' in a clone.
    """


@timestamps.command()
@click.option("--name", required=True, help="Your name for it: a-z 0-9 . _ -")
@click.option(
    "--root", "roots", required=True, multiple=True, type=_FILE, help="Root certificate, PEM or DER."
)
@click.option("--leaf", required=True, type=_FILE,
              help="The certificate that signs its tokens; in PEM, intermediates may follow.")  # fmt: skip
@click.option("--policy", "policies", multiple=True, metavar="OID", help="Accept tokens of this policy only.")
@click.option("--comment", default="")
@trust_option
def pin(
    name: str,
    roots: tuple[Path, ...],
    leaf: Path,
    policies: tuple[str, ...],
    comment: str,
    trust: Path | None,
) -> None:
    """Trust a timestamp authority by the exact certificate that signs its tokens.

    Compare the fingerprint that is printed with what the authority publishes.  A new certificate of the
    same authority is pinned under a name of its own.
    """
    import hashlib

    from evalkit.sealing import Places, TimestampAuthority, pin_authority, trust_path

    anchors = [_der(c) for path in roots for c in _certificates(path)]
    first, *behind = (_der(c) for c in _certificates(leaf))
    try:
        authority = TimestampAuthority(
            name=name,
            leaf=first,
            roots=tuple(dict.fromkeys(anchors)),
            intermediates=tuple(c for c in dict.fromkeys(behind) if c not in anchors),
            policies=policies,
            comment=comment,
        )
    except BindingError as error:
        raise _bad_parameter(error) from None
    path = trust_path(trust, Places.from_environment())
    if not pin_authority(path, authority):
        click.echo(f"pinned already, nothing changed: {name} in {path}")
        return
    click.echo(f"pinned {name} in {path}\nleaf SHA-256 {hashlib.sha256(first).hexdigest()}")
    click.echo("compare this fingerprint with the authority's before you rely on it")


def _bad_parameter(error: BindingError) -> EvalkitError:
    """The same, as it looks from the command line: the trust file has nothing to do with it."""
    what = error.what.removeprefix(f"{error.binding.value}: ")
    option = next((option for words, option in _OPTION_OF if words in what), "--root, --leaf")
    return EvalkitError(
        what, where=option, expected=error.expected, do="nothing was pinned; correct the option and try again"
    )


@timestamps.command("list")
@trust_option
@json_option
def list_authorities(trust: Path | None, as_json: bool) -> None:
    """The timestamp authorities that your trust file pins."""
    import hashlib

    from evalkit.sealing import Places, Trust, trust_path

    loaded = Trust.load(trust_path(trust, Places.from_environment()), [])
    if as_json:
        print_json(
            {
                "trust": {"path": str(loaded.path), "digest": loaded.digest},
                "timestamp_authorities": [_listed(authority) for authority in loaded.timestamp_authorities],
            }
        )
        return
    if not loaded.timestamp_authorities:
        click.echo(f"no timestamp authority in {loaded.path}")
    for authority in loaded.timestamp_authorities:
        leaf = authority.chain()[0]
        say(f"{authority.name}  {leaf.subject.rfc4514_string()}")
        click.echo(f"    leaf SHA-256 {hashlib.sha256(authority.leaf).hexdigest()}")
        click.echo(f"    valid {leaf.not_valid_before_utc:%Y-%m-%d} to {leaf.not_valid_after_utc:%Y-%m-%d}")
        click.echo(f"    policies {', '.join(authority.policies) or 'any'}")


def _listed(authority: TimestampAuthority) -> dict[str, Any]:
    import hashlib

    from evalkit.sealing.times import short_text

    leaf = authority.chain()[0]
    return {
        "name": authority.name,
        "subject": leaf.subject.rfc4514_string(),
        "leaf_sha256": hashlib.sha256(authority.leaf).hexdigest(),
        "valid_from": short_text(leaf.not_valid_before_utc),
        "valid_until": short_text(leaf.not_valid_after_utc),
        "policies": list(authority.policies),
        "comment": authority.comment,
    }


@timestamps.command()
@run_argument
@click.option("--tsa", required=True, metavar="URL", help="Address of the timestamp authority.")
@click.option("--phase", type=_PHASES, help="This phase only; by default every one without a token.")
@trust_option
def stamp(run: Path, tsa: str, phase: str | None, trust: Path | None) -> None:
    """Have what is committed in RUN stamped.  The authority learns a digest and nothing else."""
    from evalkit.decisions.stamping import stamp as stamp_run

    done = stamp_run(run, tsa, phase=phase, trust=trust)
    for stamped in done:
        click.echo(f"{stamped.phase}: existed at {stamped.timestamp}")
    if not done:
        click.echo("nothing to do: every committed phase has a token")


@timestamps.command()
@run_argument
@click.option("--out", required=True, type=click.Path(path_type=Path, file_okay=False),
              help="Folder for the requests, outside of RUN.")  # fmt: skip
def request(run: Path, out: Path) -> None:
    """Write a request a phase, to be sent from another machine; attach takes the answers."""
    from evalkit.decisions.stamping import write_requests

    written = write_requests(run, out)
    for phase, path in written.items():
        click.echo(f"{phase}: {path}")
        click.echo(
            f"    evalkit timestamps attach {shlex.quote(str(run))} ANSWER.tsr --phase {phase}"
            f" --request {shlex.quote(str(path))}"
        )
    if not written:
        click.echo("nothing to do: every committed phase has a token")


@timestamps.command()
@run_argument
@click.argument("token", type=_FILE, metavar="FILE.tsr")
@click.option("--phase", type=_PHASES, required=True, help="What the token is for.")
@click.option("--request", type=_FILE, help="The request that it answers: its nonce must match.")
@trust_option
def attach(run: Path, token: Path, phase: str, request: Path | None, trust: Path | None) -> None:
    """Verify the token in FILE.tsr and put it into RUN.  Of two tokens the earlier one stays."""
    from evalkit.decisions.stamping import attach as attach_token

    stamped = attach_token(run, token, phase=phase, request=request, trust=trust)
    there = "" if stamped.added else "this token is there already, nothing changed; "
    click.echo(f"{stamped.phase}: {there}existed at {stamped.timestamp}")


def prepare(
    url: str | None, run: Path, trust: Path | None, *, written: bool = True, option: str = ""
) -> None:
    """Refuse, before a phase begins, a ``--tsa`` that could not be used after it."""
    if url is None:
        return
    from evalkit.decisions.stamping import authorities_to_ask
    from evalkit.sealing.tsa_http import check_url

    check_url(url)
    if not written:
        raise EvalkitError(
            "nothing is written that could be stamped",
            where="--tsa",
            expected=f"{option} beside it",
            do=f"add {option}, or leave --tsa out",
        )
    authorities_to_ask(run, trust)


def stamp_phase(
    url: str | None,
    run: Path,
    phase: str,
    trust: Path | None,
    report: Callable[[dict[str, Any]], None],
    *,
    as_json: bool,
) -> None:
    """Report a committed phase with its timestamp, if one was asked for; then raise what went wrong with it."""
    if url is None:
        report({})
        return
    from evalkit.decisions.stamping import stamp as stamp_run

    try:
        done = stamp_run(run, url, phase=phase, trust=trust)
    except EvalkitError as error:
        report({"timestamp": None})
        click.echo(
            f"the {phase} phase is committed and stands; only its timestamp is missing, and can be had later:\n"
            f"  evalkit timestamps stamp {shlex.quote(str(run))} --tsa {shlex.quote(url)} --phase {phase}",
            err=True,
        )
        raise error
    report({"timestamp": done[0].record()})
    click.echo(f"timestamp: existed at {done[0].timestamp}", err=as_json)


def _certificates(path: Path) -> list[Certificate]:
    """All certificates of a PEM file, or the one of a DER file."""
    from cryptography.x509 import load_der_x509_certificate, load_pem_x509_certificates

    from evalkit.sealing.exchange import read_named

    try:
        data = read_named(path, max_bytes=1024 * 1024)
        return (
            load_pem_x509_certificates(data) if b"-----BEGIN" in data else [load_der_x509_certificate(data)]
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it holds none"
        raise EvalkitError(
            f"cannot read a certificate ({reason})",
            where=str(path),
            expected="certificates in PEM, or one in DER",
            do="take the file that the authority publishes",
        ) from None


def _der(certificate: Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.DER)
