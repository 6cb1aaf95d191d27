"""The interface of every provider of embeddings to the floor above: vectors, batch jobs, reports; the identity of a
vector space; and the ways in which embedding can fail, as types for the retry policy and the caller.
"""

from __future__ import annotations

import hashlib
import re
from array import array
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import IO, ClassVar, Final, Literal, Protocol, TypeAlias

import msgspec

from config.errors import ErrorKind, MemoryGatewayError
from config.settings import Settings


class Fingerprint(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that decides which vector a document gets."""

    provider: str
    model: str
    endpoint: str
    """Base URL without credentials; for a local model its own description."""
    headers: str = ""
    """`digest_headers` of the configured headers that are no secrets."""
    dimensions: int | None = None
    """The configured number; None lets the model decide."""
    input_type: str | None = None
    """The mark of documents: task type, input type."""
    variant: tuple[str, ...] = ()
    """Everything else that changes vectors: a document prompt, the hash of a model file, pooling ..."""

    def digest(self) -> bytes:
        """Returns 32 bytes, the same in every process and on every machine."""
        return hashlib.sha256(msgspec.json.encode(self)).digest()


def digest_headers(headers: Mapping[str, str]) -> str:
    """Returns a short hash of header names (without case) and values; empty for no headers."""
    if not headers:
        return ""
    pairs = sorted((name.lower(), value) for name, value in headers.items())
    return hashlib.sha256(msgspec.json.encode(pairs)).hexdigest()[:16]


Vector: TypeAlias = "array[float]"
"""One embedding: finite numbers in single precision ("f"), of length (L2 norm) 1.

No array of numpy's, whose import takes longer than the first search of a process should wait; numpy reads these as
they are.
"""


class QueryVector(msgspec.Struct, frozen=True):
    vector: Vector
    fingerprint: Fingerprint


Purpose = Literal["query", "document"]
Role = Literal["primary", "fallback"]
"""A fallback takes over no setting that was made for the primary."""


class ItemError(msgspec.Struct, frozen=True, kw_only=True):
    """The reason why one text of a request got no vector, although the request as a whole succeeded."""

    kind: ErrorKind
    message: str


class InputLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one request. Tokens are estimates (`providers.embedding.sizing.estimate_tokens`)."""

    max_input_tokens: int
    """The limit of one text. A longer one is still sent, alone, and the host decides."""
    max_items: int
    max_request_tokens: int
    max_request_bytes: int
    """The limit of all texts together, in UTF-8."""


class EmbeddedBatch(msgspec.Struct, frozen=True):
    """The answer to one request: one item for each text, in the order of the texts."""

    items: tuple[Vector | ItemError, ...]
    tokens: int = 0
    """The tokens that the host counted; 0 if it does not say."""


class Embedder(Protocol):
    """One model behind one endpoint.

    Both embedding calls raise `providers.provider_interface.ProviderError` and may be cancelled at any time,
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
        """True if `prepare` has nothing left to do."""

    async def prepare(self) -> None:
        """Does work that may take longer than a request, such as a download. Raises `ProviderError`."""

    async def run(self) -> None:
        """Runs the work that the requests need beside them, until cancelled; it must run when they are made."""

    def report(self) -> LocalState | None:
        """Returns the part of `status` that only this kind of provider has. May be called from any thread."""

    async def embed_documents(self, texts: Sequence[str]) -> EmbeddedBatch: ...

    async def embed_query(self, text: str) -> Vector: ...

    async def aclose(self) -> None: ...


Outcome = Literal["completed", "failed", "expired", "cancelled"]
"""The end of a batch job. Any of them may have left results."""


class RemoteJob(msgspec.Struct, frozen=True, kw_only=True):
    """One batch job as its vendor describes it."""

    id: str
    state: str
    """The vendor's own name of the state."""
    outcome: Outcome | None
    """None while it is under way."""
    done: int = 0
    result_files: tuple[str, ...] = ()
    """Files with its results, errors included; we delete them when they have been read."""
    reason: str | None = None
    """The reason why it failed, in words that may be shown."""
    too_large: bool = False
    """True if it failed because it contained more than the vendor accepts at once."""


class BatchResult(msgspec.Struct, frozen=True):
    """The result for one text; `key` is the one its line was written with."""

    key: str
    item: Vector | ItemError


OnResults = Callable[[Sequence[BatchResult]], Awaitable[None]]


class BatchHost(Protocol):
    """One vendor's batch endpoint. All calls raise `ProviderError` and may be cancelled."""

    def line(self, key: str, text: str) -> bytes:
        """Returns the request for one text, as a line of the file that is uploaded."""

    async def find_upload(self, name: str) -> str | None:
        """Returns the file that was uploaded under this name, if there is one."""

    async def upload(self, name: str, file: IO[bytes]) -> str:
        """Uploads the lines; returns the file's id."""

    async def find(self, file_id: str) -> RemoteJob | None:
        """Returns the job that was made from an uploaded file, if there is one."""

    async def create(self, file_id: str, label: str) -> RemoteJob: ...

    async def look(self, job_id: str) -> RemoteJob: ...

    async def cancel(self, job_id: str) -> None: ...

    async def read(self, file_id: str, on_results: OnResults) -> None:
        """Streams a file of results; `on_results` is awaited for every slice of it."""

    async def delete(self, file_id: str) -> None:
        """Deletes a file; it may have been deleted already."""

    async def aclose(self) -> None: ...


class ProviderRequest(msgspec.Struct, frozen=True):
    """The settings that a provider is made from, and the role it is to have."""

    settings: Settings
    role: Role


class ProviderCandidate(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One provider that was considered: whether it can be used, why or why not, and the remedy."""

    provider: str
    usable: bool
    reason: str
    remedy: str | None = None
    model: str | None = None
    endpoint: str | None = None
    key_source: str | None = None
    """None: no key is sent. If it is set for an unusable provider, only the library is missing."""
    lacks: str | None = None
    """The part that is still missing before its first vector; None: nothing."""


def unusable(
    name: str, error: ProviderError, *, key_source: str | None = None
) -> ProviderCandidate:
    return ProviderCandidate(
        provider=name,
        usable=False,
        reason=error.message,
        remedy=error.remedy,
        key_source=key_source,
    )


class FingerprintState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A `Fingerprint` under the names of `status`; the index stores one under its own names."""

    provider: str
    model: str
    endpoint: str
    headers: str
    dimensions: int | None
    input_type: str | None
    variant: tuple[str, ...]


class Statistics(msgspec.Struct, kw_only=True, rename="camel"):
    """Running counts. A caller gets a copy of the present ones."""

    requests: int = 0
    """Every one that was sent, repeated and refused ones included."""
    retries: int = 0
    failures: int = 0
    """Requests given up, after their retries."""
    documents: int = 0
    """Texts that got a vector."""
    item_errors: int = 0
    """Texts that got no vector although their request succeeded, or that were refused alone."""
    queries: int = 0
    """Query embeddings that were requested, cached ones included."""
    query_cache_hits: int = 0
    tokens: int = 0
    """The tokens as the host counted them."""


class WorkerState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The process in which a local model runs."""

    status: Literal["off", "loading", "running"]
    pid: int | None = None
    resident_bytes: int | None = None
    """The memory of the worker process; None if the system does not report it."""
    deaths: int = 0
    """The number of workers that ended without being asked to."""
    last_death: str | None = None
    cut_texts: int = 0
    """The number of texts of which the model has read only the beginning."""


class LocalModelState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    file: str
    engine: str
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
    """The part of `status` that only a local model has."""

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
    """The providers of vectors: the one in use, the one that is preferred, and its fallback."""

    active: ServiceState
    primary: ServiceState
    fallback: ServiceState | None
    fell_back: FallbackRecord | None


class Provider(Protocol):
    def assess(self, request: ProviderRequest) -> ProviderCandidate:
        """Returns whether it could be made. Blocks only briefly: no network, no slow import."""

    def create(self, request: ProviderRequest) -> Embedder:
        """Makes the embedder. Call it only after a successful `assess`. Raises `ProviderError`."""


def without_lone_surrogates(text: str) -> str:
    """Replaces lone surrogates (halves of broken emoji), which UTF-8 cannot hold."""
    return text if text.isascii() else re.sub("[\ud800-\udfff]", "\ufffd", text)


SizeReason = Literal["items", "tokens", "bytes", "input"]
"""The quantity that was too large: the number of texts, their tokens, the body's bytes, or one single text."""
# --- Errors ---------------------------------------------------------------------------------------

UNTRUSTED: Final = "has a certificate that is invalid or not trusted on this machine."
CHECK_CERTIFICATE: Final = (
    "Check the address and the clock; SSL_CERT_FILE names further authorities."
)
LONGEST_PAUSE_S: Final = 86_400.0
"""The longest pause, whatever number a host sends."""


class ProviderError(MemoryGatewayError):
    """Base of this floor's errors.

    `retryable`: the same request may succeed when it is sent again soon.
    `final`: only a change on the user's or the host's side will help; the circuit opens at once.
    `status` is the HTTP status, if there was one; `retry_after_s` the wait that the host asked for, a day
    at most.
    """

    kind = ErrorKind.PROVIDER_TRANSIENT
    retryable: ClassVar[bool] = False
    final: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        remedy: str | None = None,
        status: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.status = status
        self.retry_after_s = None if retry_after_s is None else min(retry_after_s, LONGEST_PAUSE_S)


class ProviderAuthError(ProviderError):
    """No key was found, or the host refused the one it got."""

    kind = ErrorKind.PROVIDER_AUTH
    final = True


class ProviderQuotaError(ProviderError):
    """The account has no credit or daily allowance left. Waiting some seconds does not help."""

    kind = ErrorKind.PROVIDER_QUOTA
    final = True


class ProviderRateLimitError(ProviderError):
    """Too many requests at a time; the host is healthy and accepts more later."""

    kind = ErrorKind.PROVIDER_RATE_LIMITED
    retryable = True


class ProviderTransientError(ProviderError):
    """The host, or the connection to it, fails at the moment."""

    kind = ErrorKind.PROVIDER_TRANSIENT
    retryable = True


class ProviderTimeoutError(ProviderTransientError):
    """No complete answer came in time."""


class ProviderNotReadyError(ProviderError):
    """The provider is still being prepared and cannot answer yet; nothing is wrong with it."""


class ProviderInputTooLargeError(ProviderError):
    """The request was refused for its size. `limit` is the number that the host named, if any."""

    kind = ErrorKind.PROVIDER_INPUT_TOO_LARGE

    def __init__(
        self,
        message: str,
        *,
        reason: SizeReason,
        limit: int | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(message, status=status)
        self.reason: SizeReason = reason
        self.limit = limit


class ProviderBadResponseError(ProviderError):
    """The host answered, but without the requested content."""

    kind = ErrorKind.PROVIDER_BAD_RESPONSE
    retryable = True


class ProviderRedirectError(ProviderBadResponseError):
    """The host redirected us. Redirects are not followed, so that no key or text goes elsewhere."""

    retryable = False
    final = True


class ProviderUnavailableError(ProviderError):
    """The provider cannot be used as configured: library, model, address, certificate."""

    kind = ErrorKind.PROVIDER_UNAVAILABLE
    final = True


class ProviderRejectedError(ProviderError):
    """The host rejects this request because of one of its texts, or of the settings."""

    kind = ErrorKind.PROVIDER_UNAVAILABLE


class CircuitOpenError(ProviderError):
    """Nothing was sent, because the host failed earlier. `cause` is that failure."""

    kind = ErrorKind.PROVIDER_UNAVAILABLE

    def __init__(self, cause: ProviderError, *, wait_s: float) -> None:
        when = f"The next attempt is in {wait_s:.0f} s" if wait_s > 0 else "It is being tried now"
        super().__init__(
            f"{when}; the last failure was: {cause.message}",
            remedy=cause.remedy,
            status=cause.status,
            retry_after_s=wait_s,
        )
        self.cause = cause


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yields the error itself, then the errors that caused it or were being handled, each once."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__
