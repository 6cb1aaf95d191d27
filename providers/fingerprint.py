"""The identity of a vector space: two vectors may be compared only if their fingerprints agree.

Owns the value and its digest, under which vectors are stored. Secrets never enter it, so changing a
key embeds nothing anew; how queries are marked is left out too, since no query vector is stored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec


class Fingerprint(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that decides which vector a document gets."""

    provider: str
    model: str
    endpoint: str
    """Base URL without credentials; for a local model its own description."""
    headers: str = ""
    """`digest_headers` of the configured headers that are no secrets."""
    dimensions: int | None = None
    """As configured; None lets the model decide."""
    input_type: str | None = None
    """How documents are marked: task type, input type."""
    variant: tuple[str, ...] = ()
    """Whatever else changes vectors: a document prompt, a model file's hash, pooling ..."""

    def digest(self) -> bytes:
        """32 bytes, the same in every process and on every machine."""
        return hashlib.sha256(msgspec.json.encode(self)).digest()


def digest_headers(headers: Mapping[str, str]) -> str:
    """A short hash of header names (without case) and values; empty for no headers."""
    if not headers:
        return ""
    pairs = sorted((name.lower(), value) for name, value in headers.items())
    return hashlib.sha256(msgspec.json.encode(pairs)).hexdigest()[:16]
