"""Honest evaluation of AI agents.

Importing this package loads nothing heavy: reach for the room you need, for example
``evalkit.decisions``, ``evalkit.scoring`` or ``evalkit.sealing``.
"""

__version__ = "0.1.0"
