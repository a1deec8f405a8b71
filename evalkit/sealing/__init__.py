"""Sealing: canonical bytes, signed statements, sealed packets, a ledger, and commits that are whole.

Every protocol of evalkit stands on this package.  Nothing heavy is imported until it is used; the
names below are all that the other packages need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evalkit.lazy import lazy_attributes

if TYPE_CHECKING:
    from evalkit.sealing.canonical import CanonicalError as CanonicalError
    from evalkit.sealing.canonical import canonical_json as canonical_json
    from evalkit.sealing.canonical import digest as digest
    from evalkit.sealing.canonical import load_canonical as load_canonical
    from evalkit.sealing.canonical import load_strict as load_strict
    from evalkit.sealing.commit import Committed as Committed
    from evalkit.sealing.commit import commit_directory as commit_directory
    from evalkit.sealing.commit import commit_phase as commit_phase
    from evalkit.sealing.envelope import Verified as Verified
    from evalkit.sealing.envelope import pae as pae
    from evalkit.sealing.envelope import sign as sign
    from evalkit.sealing.envelope import verify as verify
    from evalkit.sealing.hash_chain import Entry as Entry
    from evalkit.sealing.hash_chain import Head as Head
    from evalkit.sealing.hash_chain import verify_chain as verify_chain
    from evalkit.sealing.keys import create_signing_key as create_signing_key
    from evalkit.sealing.keys import create_unsealing_key as create_unsealing_key
    from evalkit.sealing.keys import key_id as key_id
    from evalkit.sealing.keys import load_unsealing_key as load_unsealing_key
    from evalkit.sealing.ledger import Attempt as Attempt
    from evalkit.sealing.ledger import Ledger as Ledger
    from evalkit.sealing.packet import Opening as Opening
    from evalkit.sealing.packet import SealedPacket as SealedPacket
    from evalkit.sealing.phase import Phase as Phase
    from evalkit.sealing.phase import read_phase as read_phase
    from evalkit.sealing.pinning import pin as pin
    from evalkit.sealing.pinning import pin_authority as pin_authority
    from evalkit.sealing.pinning import revoke as revoke
    from evalkit.sealing.places import Places as Places
    from evalkit.sealing.places import check_run_id as check_run_id
    from evalkit.sealing.predicates import PREDICATES as PREDICATES
    from evalkit.sealing.recovery import Recovered as Recovered
    from evalkit.sealing.recovery import recover as recover
    from evalkit.sealing.rename import TargetExists as TargetExists
    from evalkit.sealing.signer import AgentSigner as AgentSigner
    from evalkit.sealing.signer import HelperSigner as HelperSigner
    from evalkit.sealing.signer import Signer as Signer
    from evalkit.sealing.signer import resolve_signer as resolve_signer
    from evalkit.sealing.terminal import ask_passphrase as ask_passphrase
    from evalkit.sealing.timestamp import Timestamp as Timestamp
    from evalkit.sealing.timestamp import verify_token as verify_token
    from evalkit.sealing.timestamp_authority import TimestampAuthority as TimestampAuthority
    from evalkit.sealing.timestamp_folder import read_tokens as read_tokens
    from evalkit.sealing.timestamp_folder import write_token as write_token
    from evalkit.sealing.trust import Trust as Trust
    from evalkit.sealing.trust import trust_path as trust_path
    from evalkit.sealing.trusted_key import TrustedKey as TrustedKey

_HOME = {
    "CanonicalError": "canonical",
    "canonical_json": "canonical",
    "digest": "canonical",
    "load_canonical": "canonical",
    "load_strict": "canonical",
    "Committed": "commit",
    "commit_directory": "commit",
    "commit_phase": "commit",
    "Verified": "envelope",
    "pae": "envelope",
    "sign": "envelope",
    "verify": "envelope",
    "Entry": "hash_chain",
    "Head": "hash_chain",
    "verify_chain": "hash_chain",
    "create_signing_key": "keys",
    "create_unsealing_key": "keys",
    "key_id": "keys",
    "load_unsealing_key": "keys",
    "Attempt": "ledger",
    "Ledger": "ledger",
    "Opening": "packet",
    "SealedPacket": "packet",
    "Phase": "phase",
    "read_phase": "phase",
    "pin": "pinning",
    "pin_authority": "pinning",
    "revoke": "pinning",
    "Places": "places",
    "check_run_id": "places",
    "PREDICATES": "predicates",
    "Recovered": "recovery",
    "recover": "recovery",
    "TargetExists": "rename",
    "AgentSigner": "signer",
    "HelperSigner": "signer",
    "Signer": "signer",
    "resolve_signer": "signer",
    "ask_passphrase": "terminal",
    "Timestamp": "timestamp",
    "TimestampAuthority": "timestamp_authority",
    "verify_token": "timestamp",
    "read_tokens": "timestamp_folder",
    "write_token": "timestamp_folder",
    "Trust": "trust",
    "trust_path": "trust",
    "TrustedKey": "trusted_key",
}

__all__ = sorted(_HOME)
__getattr__ = lazy_attributes(__name__, _HOME)
