"""What every provider of embeddings offers to the service above it, in types.

Owns the protocols and the values that travel through them: `Provider`, which assesses itself against
the settings and makes an embedder, and `Embedder`. One call of an embedder is one request: sizing,
retrying, pacing and the circuit belong to `providers.embedding.service`, for every provider alike,
remote or local.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import msgspec

from config.errors import ErrorKind
from config.settings import Settings
from providers.errors import ProviderError
from providers.fingerprint import Fingerprint

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Vector: TypeAlias = "NDArray[np.float32]"
"""One embedding: one-dimensional, finite, float32, of length (L2 norm) 1."""

Purpose = Literal["query", "document"]
Role = Literal["primary", "fallback"]
"""A fallback takes nothing of what was configured for the primary."""


class ItemError(msgspec.Struct, frozen=True, kw_only=True):
    """Why one text of a request got no vector, although the request as a whole succeeded."""

    kind: ErrorKind
    message: str


class InputLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one request may hold. Tokens are estimates (`providers.embedding.batching.estimate_tokens`)."""

    max_input_tokens: int
    """Of one text. A longer one is still sent, alone: the host decides."""
    max_items: int
    max_request_tokens: int
    max_request_bytes: int
    """Of all texts together, UTF-8."""


@dataclass(frozen=True, slots=True)
class EmbeddedBatch:
    """The answer to one request: one item for each text, in the order of the texts."""

    items: tuple[Vector | ItemError, ...]
    tokens: int = 0
    """What the host says it counted; 0 when it does not say."""


class Embedder(Protocol):
    """One model behind one endpoint.

    Both embedding calls raise `providers.errors.ProviderError` and may be cancelled at any time,
    which aborts the request that is under way. `dimensions` is None until the first answer unless
    it is configured.
    """

    @property
    def fingerprint(self) -> Fingerprint: ...

    @property
    def dimensions(self) -> int | None: ...

    @property
    def limits(self) -> InputLimits: ...

    @property
    def is_prepared(self) -> bool:
        """Whether `prepare` would have nothing to do."""
        ...

    async def prepare(self) -> None:
        """Does what may take longer than a request: a download. Raises `ProviderError`."""
        ...

    async def run(self) -> None:
        """What goes on beside the requests, until cancelled; must be running for them."""
        ...

    def report(self) -> Mapping[str, Any] | None:
        """For `status`, from any thread: what only this kind of provider has to tell."""
        ...

    async def embed_documents(self, texts: Sequence[str]) -> EmbeddedBatch: ...

    async def embed_query(self, text: str) -> Vector: ...

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ProviderRequest:
    """What a provider may look at: the settings, and the role it is wanted for."""

    settings: Settings
    role: Role


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """One provider that was considered: whether it can be used, why (not), and what to do."""

    provider: str
    usable: bool
    reason: str
    remedy: str | None = None
    model: str | None = None
    endpoint: str | None = None
    key_source: str | None = None
    """None: no key is sent. Of one that cannot be used: there is a key, and only the library is missing."""
    lacks: str | None = None
    """What has to come before it gives its first vector; None: nothing."""


def unusable(name: str, error: ProviderError, *, key_source: str | None = None) -> Candidate:
    return Candidate(
        provider=name,
        usable=False,
        reason=error.message,
        remedy=error.remedy,
        key_source=key_source,
    )


class Provider(Protocol):
    def assess(self, request: ProviderRequest) -> Candidate:
        """Whether it could be made. Blocking, but never for long: no network, no heavy import."""
        ...

    def create(self, request: ProviderRequest) -> Embedder:
        """Makes it. Only after a successful `assess`; raises `ProviderError`."""
        ...
