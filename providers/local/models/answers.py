"""Asking a host for a model, from some byte on: redirects, what the headers tell, the body's bytes.

One GET does. Its redirects carry what a HEAD would tell (`X-Linked-Etag` is the SHA-256 of the file,
`X-Linked-Size` its size), and addresses that are signed for GET refuse a HEAD. Redirects are followed
here and not by the client, so that the token is decided upon anew for every address.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx2

from providers import proxies
from providers.endpoints import Origin
from providers.local.models.errors import ModelFormatError, ModelHostError
from providers.local.models.hub import Hub
from providers.local.models.references import RemoteReference
from providers.local.models.refusals import refusal, transport_error

_PIECE_BYTES = 64 << 10
"""Lost at most when a connection drops."""
_TIMEOUT = httpx2.Timeout(30.0, connect=10.0)
_MAX_REDIRECTS = 5
_RANGE = re.compile(r"bytes (?P<start>\d+)-\d+/(?P<total>\d+|\*)")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_NOT_SATISFIABLE = 416


@dataclass(frozen=True, slots=True)
class Answer:
    """The beginning of an answer; its body has not been read."""

    start: int | None
    """The position of the body's first byte in the file; None: the file does not reach so far."""
    total: int | None
    """The size of the file."""
    sha256: str | None
    validator: str | None
    """The same as long as the host's file is the same."""
    _response: httpx2.Response

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body. Raises `ProviderTransientError` when the host hangs up."""
        try:
            async for piece in self._response.aiter_raw(_PIECE_BYTES):
                yield piece
        except (httpx2.HTTPError, OSError) as error:
            raise transport_error(error, str(self._response.url)) from None


def open_client() -> httpx2.AsyncClient:
    """Blocking for some milliseconds: loads certificates."""
    headers = {"accept-encoding": "identity", "user-agent": "memory-gateway"}
    return proxies.open_client(timeout=_TIMEOUT, headers=headers)


@asynccontextmanager
async def ask(
    client: httpx2.AsyncClient, reference: RemoteReference, hub: Hub, *, start: int = 0
) -> AsyncIterator[Answer]:
    """The host's answer when the file is asked for from byte `start` on. Raises `ProviderError`."""
    url = hub.url_of(reference)
    linked = httpx2.Headers()
    for _ in range(_MAX_REDIRECTS + 1):
        response = await _send(client, url, hub, start)
        try:
            for name in ("x-linked-etag", "x-linked-size", "x-repo-commit"):
                linked.setdefault(name, response.headers.get(name, ""))
            if not response.has_redirect_location:
                yield _read(response, linked, reference, hub)
                return
            url = _next(url, response.headers["location"])
        finally:
            await response.aclose()
    raise ModelHostError(
        f"{Origin.of(hub.url_of(reference))} redirects {reference} in a circle.",
        remedy="Name the final address in memorySearch.local.modelPath.",
    )


async def _send(client: httpx2.AsyncClient, url: str, hub: Hub, start: int) -> httpx2.Response:
    headers = {"range": f"bytes={start}-"} if start else {}
    token = hub.token_for(url)
    if token is not None:
        headers["authorization"] = f"Bearer {token.reveal()}"
    try:
        return await client.send(client.build_request("GET", url, headers=headers), stream=True)
    except (httpx2.HTTPError, OSError) as error:
        raise transport_error(error, url) from None


def _next(url: str, location: str) -> str:
    """Where a redirect leads. Raises `ModelHostError` if that is less safe, or nowhere."""
    try:
        target = httpx2.URL(url).join(location)
    except httpx2.InvalidURL:
        target = httpx2.URL()
    allowed = ("https",) if url.startswith("https:") else ("https", "http")
    if target.scheme not in allowed or not target.host:
        raise ModelHostError(
            f"{Origin.of(url)} redirects to what is no {allowed[0]} address.",
            remedy="Name the final address in memorySearch.local.modelPath.",
        )
    return str(target)


def _read(
    response: httpx2.Response, linked: httpx2.Headers, reference: RemoteReference, hub: Hub
) -> Answer:
    status, headers = response.status_code, response.headers
    if status not in (200, 206, _NOT_SATISFIABLE):
        raise refusal(response, reference, hub)
    if headers.get("content-type", "").startswith("text/html"):
        raise ModelFormatError(
            f"{Origin.of(str(response.url))} sent a web page instead of {reference}.",
            remedy="Name the address of the file itself, not of a page about it.",
        )
    ranged = _RANGE.fullmatch(headers.get("content-range", ""))
    if status == 200:
        start, total = 0, headers.get("content-length", "")
    elif status == 206 and ranged:
        start, total = int(ranged["start"]), ranged["total"]
    else:
        start, total = None, ""
    total = linked["x-linked-size"] or total
    etag = linked["x-linked-etag"] or headers.get("etag", "")
    tag = etag.removeprefix("W/").strip('"')
    known = linked["x-linked-etag"] or linked["x-repo-commit"]
    return Answer(
        start=start,
        total=int(total) if total.isascii() and total.isdigit() else None,
        sha256=tag if known and _SHA256.fullmatch(tag) else None,
        validator=tag or headers.get("last-modified"),
        _response=response,
    )
