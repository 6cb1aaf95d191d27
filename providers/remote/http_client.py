"""The HTTP client for every vendor; it adds the key and decides where it may go.

A vendor's own library, if one sends through the client, never sees a key. The client's documented request hook removes
every header that is neither configured nor part of the transport (so nothing comes from a library's own environment
variables), checks that the request goes to the bound origin, also after a redirect, and only then
adds the credential. The response hook turns every answer that is not a success into a typed error.
"""

from __future__ import annotations

import ssl
import time
import traceback
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from typing import Final

import anyio.lowlevel
import httpx2
import msgspec

from config.errors import MemoryGatewayError
from config.runtime.logs import Log
from providers import proxies
from providers.endpoints import Origin
from providers.provider_interface import (
    CHECK_CERTIFICATE,
    UNTRUSTED,
    ProviderBadResponseError,
    ProviderError,
    ProviderRedirectError,
    ProviderTimeoutError,
    ProviderTransientError,
    ProviderUnavailableError,
    causes,
)
from providers.remote.answers import Refusal, error_for, most_values, values_in
from providers.remote.spec import RemoteSpec

_log = Log()

_KEPT_HEADERS = frozenset(
    {"host", "connection", "content-length", "content-type", "transfer-encoding"}
    | {"accept", "user-agent"}
)
_KEPT_PREFIX = "x-goog-upload-"
"""The start of the headers by which Google's resumable uploads say which part of a file is sent."""
_MAX_REDIRECTS = 3
_METHOD_CHANGING = frozenset({301, 302, 303})
"""Following these would ask for a page instead of sending the texts."""
_MAX_BODY_BYTES = 64 << 20
_MAX_REFUSAL_BYTES = 64 << 10
"""The most bytes that are read of an error."""
_CONNECT_TIMEOUT_S = 10.0


ENCODING: Final = "gzip"
"""The one compression that hosts are asked for."""
_PLAIN: Final = frozenset({"", "identity"})
_GZIP: Final = frozenset({"gzip", "x-gzip"})
_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS
_PIECE_BYTES: Final = 64 << 10


def open_client(spec: RemoteSpec, *, max_lines_bytes: int | None = None) -> httpx2.AsyncClient:
    """Opens a client bound to the spec's endpoint. Blocking for some milliseconds: may load certificates.

    An answer that is too large ends in an error: it is JSON, or, with `max_lines_bytes`, lines of it that are
    read one after the other.
    """
    guard = _Guard(spec, max_lines_bytes)
    is_encrypted = spec.endpoint.origin.scheme == "https"  # and nothing is sent to another origin
    return proxies.open_client(
        is_encrypted=is_encrypted,
        follow_redirects=True,
        max_redirects=_MAX_REDIRECTS,
        timeout=httpx2.Timeout(spec.request_timeout_s, connect=_CONNECT_TIMEOUT_S),
        event_hooks={"request": [guard.on_request], "response": [guard.on_response]},
    )


class _Guard:
    def __init__(self, spec: RemoteSpec, max_lines_bytes: int | None) -> None:
        self._spec = spec
        self._outgoing = spec.outgoing
        self._max_lines_bytes = max_lines_bytes

    async def on_request(self, request: httpx2.Request) -> None:
        target = Origin.of(str(request.url))
        if target != self._spec.endpoint.origin:
            raise self._redirected(str(target))
        for name in [name for name in request.headers if not _is_kept(name.lower())]:
            del request.headers[name]
        request.headers["accept-encoding"] = ENCODING
        request.headers.update(self._outgoing)

    async def on_response(self, response: httpx2.Response) -> None:
        limited(response, self._limits)
        if response.has_redirect_location:
            if response.status_code in _METHOD_CHANGING:
                raise self._redirected(f"a page ({response.status_code})")
            return
        if not response.is_success:
            raise error_for(await self._refusal(response))
        if "html" in response.headers.get("content-type", ""):
            raise ProviderBadResponseError(
                f"{self._spec.place} answered with a web page instead of JSON.",
                remedy="Check remote.baseUrl: it usually ends in /v1.",
                status=response.status_code,
            )

    @property
    def _limits(self) -> Limits:
        if self._max_lines_bytes is not None:
            return Limits(self._spec.place, self._max_lines_bytes, None)
        return Limits(self._spec.place, _MAX_BODY_BYTES, most_values())

    def _redirected(self, target: str) -> ProviderRedirectError:
        return ProviderRedirectError(
            f"{self._spec.place} redirected the request to {target}, which was not followed.",
            remedy="Set remote.baseUrl to the final address if that one is right.",
        )

    async def _refusal(self, response: httpx2.Response) -> Refusal:
        return Refusal(
            status=response.status_code,
            headers=dict(response.headers),
            body=await beginning(response, _MAX_REFUSAL_BYTES),
            request=_sent(response.request),
            place=self._spec.place,
            key_source=self._spec.key_source,
            secrets=self._spec.secrets,
            now_s=time.time(),
        )


def _is_kept(name: str) -> bool:
    return name in _KEPT_HEADERS or name.startswith(_KEPT_PREFIX)


def _sent(request: httpx2.Request) -> bytes | None:
    try:
        return request.content
    except httpx2.RequestNotRead:
        return None


@contextmanager
def typed_errors(spec: RemoteSpec) -> Iterator[None]:
    """Turns any exception of the body, also of a vendor's library, into a `ProviderError`, without its text.

    The original is not chained: it may contain the request or the answer in full.
    """
    try:
        yield
    except MemoryGatewayError as error:
        raise error from None
    except Exception as error:  # noqa: BLE001 - a library has a tree of its own
        raise _typed(error, spec) from None


def _typed(error: Exception, spec: RemoteSpec) -> ProviderError:
    chain = list(causes(error))
    for cause in chain:
        if isinstance(cause, ProviderError):
            return cause
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in chain):
        return ProviderUnavailableError(f"{spec.place} {UNTRUSTED}", remedy=CHECK_CERTIFICATE)
    for cause in chain:
        if isinstance(cause, httpx2.TimeoutException):
            return ProviderTimeoutError(f"{spec.place} did not answer in time.")
        if isinstance(cause, httpx2.TooManyRedirects):
            return ProviderRedirectError(f"{spec.place} redirects in a loop.")
        if isinstance(cause, httpx2.TransportError | OSError):
            name = type(cause).__name__
            remedy = "Check the network, the proxy (HTTPS_PROXY) and the address."
            if spec.endpoint.origin.local:
                remedy = "Start it on this machine, or check the port in its address."
            return ProviderTransientError(
                f"{spec.place} cannot be reached or hung up ({name}).", remedy=remedy
            )
    *_, (frame, line) = traceback.walk_tb(error.__traceback__)  # reads no source, which would stay
    _log.debug("embedding.not_understood", file=frame.f_code.co_filename, line=line)
    return ProviderBadResponseError(
        f"{spec.place} sent an answer that cannot be understood ({type(error).__name__})."
    )


class Limits(msgspec.Struct, frozen=True):
    place: str
    """The host, for error messages."""
    max_bytes: int
    max_values: int | None
    """None: the reader of the body's lines counts them."""


def limited(response: httpx2.Response, limits: Limits) -> None:
    """Has the body of a response decompressed; beyond the limits reading it raises `ProviderBadResponseError`."""
    encoding = response.headers.pop("content-encoding", "").strip().lower()
    if encoding not in _PLAIN | _GZIP:
        raise ProviderBadResponseError(
            f"{limits.place} compressed its answer in a way that was not asked for.",
            remedy=f"Only {ENCODING}, once, is accepted: see to the host, or to the proxy before it.",
            status=response.status_code,
        )
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _Limited(response.stream, limits, is_compressed=encoding in _GZIP)


class _Limited(httpx2.AsyncByteStream):
    def __init__(
        self, inner: httpx2.AsyncByteStream, limits: Limits, *, is_compressed: bool
    ) -> None:
        self._inner = inner
        self._limits = limits
        self._is_compressed = is_compressed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        limits, size, values = self._limits, 0, 0
        pieces = self._decompressed() if self._is_compressed else aiter(self._inner)
        async for piece in pieces:
            size += len(piece)
            if size > limits.max_bytes:
                raise ProviderBadResponseError(
                    f"{limits.place} sent more than {limits.max_bytes >> 20} MiB in one answer."
                )
            if limits.max_values is not None:
                values += values_in(piece)
                if values > limits.max_values:
                    raise ProviderBadResponseError(
                        f"{limits.place} sent more than {limits.max_values:,} values in one answer."
                    )
            yield piece
            await anyio.lowlevel.checkpoint()  # many small pieces must not block the event loop

    async def _decompressed(self) -> AsyncIterator[bytes]:
        decoder = zlib.decompressobj(_GZIP_WINDOW)
        try:
            async for part in self._inner:
                rest, is_more = part, True
                while is_more:
                    piece = decoder.decompress(rest, _PIECE_BYTES)
                    rest = decoder.unconsumed_tail
                    is_more = bool(rest) or len(piece) == _PIECE_BYTES
                    if piece:
                        yield piece
                if decoder.unused_data:
                    raise self._not_gzip()
        except zlib.error:
            raise self._not_gzip() from None
        if not decoder.eof:
            raise self._not_gzip()

    def _not_gzip(self) -> ProviderBadResponseError:
        return ProviderBadResponseError(
            f"{self._limits.place} sent an answer that cannot be decompressed."
        )

    async def aclose(self) -> None:
        await self._inner.aclose()


async def beginning(response: httpx2.Response, size: int) -> bytes:
    """Returns the first bytes of a body, of which there may be more."""
    begun = bytearray()
    async with aclosing(response.aiter_bytes()) as pieces:
        async for piece in pieces:
            begun += piece
            if len(begun) >= size:
                break
    return bytes(begun[:size])
