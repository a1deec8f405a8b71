"""The numbers that the format pages and the documents promise (docs/formats, docs/threat-model.md).

Other versions read what this one writes: a limit that moves is a change of the format.
"""

from __future__ import annotations

from evalkit.sealing import canonical, envelope, hash_chain, keys, ledger, packet, signer, trust


def test_the_limits() -> None:
    kib, mib = 1024, 1024 * 1024
    assert {
        "document": canonical.MAX_BYTES,
        "nesting": canonical.MAX_DEPTH,
        "integer": canonical.MAX_INTEGER,
        "envelope": envelope.MAX_ENVELOPE,
        "ledger line": hash_chain.MAX_LINE,
        "seconds between clocks": ledger.CLOCK_TOLERANCE.total_seconds(),
        "trust file": trust.MAX_TRUST_FILE,
        "bcrypt rounds": keys.BCRYPT_ROUNDS,
        "buckets": (packet.SMALLEST_BUCKET, packet.LARGEST_BUCKET),
        "salt": packet.SALT_BYTES,
        "agent": signer._MAX_AGENT_MESSAGE,
    } == {
        "document": 64 * mib,
        "nesting": 64,
        "integer": 9007199254740991,
        "envelope": 64 * mib,
        "ledger line": mib,
        "seconds between clocks": 5,
        "trust file": 16 * mib,
        "bcrypt rounds": 100,
        "buckets": (4 * kib, 64 * mib),
        "salt": 32,
        "agent": 256 * kib,  # as OpenSSH's own
    }
