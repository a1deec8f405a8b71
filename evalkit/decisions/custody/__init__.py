"""Custody: somebody else keeps what must stay unseen, and releases it for an attested run only.

Three files that two people exchange (docs/formats/custody.md), and no server::

    custodian   sealing   BUNDLE   ->  evaluator: precommit, evaluate
    evaluator   request   REQUEST  ->  custodian
    custodian   release   OPENING  ->  evaluator: reveal

`bundle` and `opening` are the formats with their checks, which evaluator and verifier share; `claims` says what
follows from them, and what does not.
"""
