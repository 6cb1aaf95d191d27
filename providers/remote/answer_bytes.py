"""The bytes of a host's answer, decompressed in small parts: some hundred of them may become gigabytes.

What they become is counted before anybody holds it.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Final

import anyio.lowlevel
import httpx2
import msgspec

from providers.errors import ProviderBadResponseError
from providers.remote.answers import values_in

ENCODING: Final = "gzip"
"""The one way in which hosts are asked to compress their answers."""
_PLAIN: Final = frozenset({"", "identity"})
_GZIP: Final = frozenset({"gzip", "x-gzip"})
_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS
_PIECE_BYTES: Final = 64 << 10


class Limits(msgspec.Struct, frozen=True):
    place: str
    """The host, for error messages."""
    max_bytes: int
    max_values: int | None
    """None: they are counted by whoever reads the lines of the body."""


def limited(response: httpx2.Response, limits: Limits) -> None:
    """Has the body of a response come decompressed, and end in a `ProviderBadResponseError` beyond the limits."""
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
            await anyio.lowlevel.checkpoint()  # many small pieces must not keep the event loop

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
    """The first bytes of a body, of which there may be more."""
    begun = bytearray()
    async with aclosing(response.aiter_bytes()) as pieces:
        async for piece in pieces:
            begun += piece
            if len(begun) >= size:
                break
    return bytes(begun[:size])
