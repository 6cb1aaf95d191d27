"""What every provider of embeddings offers to the service above it, and the identity of a vector space."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import msgspec

from config.errors import ErrorKind
from config.settings import Settings
from providers.errors import ProviderError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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


Vector: TypeAlias = "NDArray[np.float32]"
"""One embedding: one-dimensional, finite, float32, of length (L2 norm) 1."""


class QueryVector(msgspec.Struct, frozen=True):
    vector: Vector
    fingerprint: Fingerprint


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


class EmbeddedBatch(msgspec.Struct, frozen=True):
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

    def report(self) -> LocalState | None:
        """For `status`, from any thread: what only this kind of provider has to tell."""
        ...

    async def embed_documents(self, texts: Sequence[str]) -> EmbeddedBatch: ...

    async def embed_query(self, text: str) -> Vector: ...

    async def aclose(self) -> None: ...


class ProviderRequest(msgspec.Struct, frozen=True):
    """What a provider may look at: the settings, and the role it is wanted for."""

    settings: Settings
    role: Role


class Candidate(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
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


class FingerprintState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A `Fingerprint` as `status` spells it; the index stores one under its own names."""

    provider: str
    model: str
    endpoint: str
    headers: str
    dimensions: int | None
    input_type: str | None
    variant: tuple[str, ...]


class Statistics(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One snapshot. `requests` counts every request sent, also repeated and refused ones."""

    requests: int
    retries: int
    failures: int
    """Requests given up, after their retries."""
    documents: int
    """Texts that got a vector."""
    item_errors: int
    """Texts that got none although their request succeeded, or that were refused alone."""
    queries: int
    """Query embeddings asked for, cached ones included."""
    query_cache_hits: int
    tokens: int
    """As counted by the host."""


class WorkerState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The process in which a local model runs."""

    status: Literal["off", "loading", "running"]
    pid: int | None = None
    resident_bytes: int | None = None
    """Memory of the worker process; None where the system does not tell."""
    deaths: int = 0
    """Ends that nobody asked for."""
    last_death: str | None = None
    cut_texts: int = 0
    """Texts of which the model read only the beginning."""


class LocalModelState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    file: str
    sha256: str | None
    quantisation: str | None
    dimensions: int | None
    context_tokens: int | None
    max_tokens: int | None
    query_prompt: str | None
    document_prompt: str | None


class Download(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    bytes: int
    total_bytes: int | None


class LocalState(msgspec.Struct, frozen=True, kw_only=True):
    """What only a local model has to tell."""

    reference: str
    worker: WorkerState
    model: LocalModelState | None
    download: Download | None


class ServiceState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One provider, for `status`.

    `degraded`: the last request failed; `open`: nothing is sent until `next_probe_in_s` seconds have
    passed; `waiting`: it cannot give its first vector yet.
    """

    provider: str
    model: str
    endpoint: str
    status: Literal["ready", "degraded", "open", "waiting"]
    reason: str | None
    next_probe_in_s: float | None
    dimensions: int | None
    fingerprint: FingerprintState
    learned_limits: Mapping[str, Mapping[str, float]]
    """`LearnedLimits.to_dict`."""
    statistics: Statistics
    details: LocalState | None = None


class FallbackRecord(msgspec.Struct, frozen=True, kw_only=True):
    origin: str
    """The provider that was meant to answer."""
    reason: str


class EmbeddingsState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Who gives vectors: the provider in use, the one that is asked first, and its fallback."""

    active: ServiceState
    primary: ServiceState
    fallback: ServiceState | None
    fell_back: FallbackRecord | None


class Provider(Protocol):
    def assess(self, request: ProviderRequest) -> Candidate:
        """Whether it could be made. Blocking, but never for long: no network, no heavy import."""
        ...

    def create(self, request: ProviderRequest) -> Embedder:
        """Makes it. Only after a successful `assess`; raises `ProviderError`."""
        ...


_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def without_lone_surrogates(text: str) -> str:
    """Halves of broken emoji, which UTF-8 cannot hold, become replacement characters."""
    return _LONE_SURROGATE.sub("\ufffd", text)
