"""How a model is called and what is kept of the call.

A `Provider` gets a `Request` (prompt bytes and an output limit) and returns a `Response`.  It holds no
retry and no concurrency code, has no tools, and sees no path.  `call` makes one fresh call and returns a
`LiveTrace`, the only thing from which an attestation can be issued.
"""

from evalkit.models.provider import Provider, ProviderError, Request, Response
from evalkit.models.trace import LiveTrace, call

__all__ = ["LiveTrace", "Provider", "ProviderError", "Request", "Response", "call"]
