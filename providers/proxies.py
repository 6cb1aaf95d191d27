"""The HTTP client for every host: the user's proxies are for the network, never for this machine.

Whether a name means this machine is decided by what it resolves to, not by how it is spelled. It is asked
anew before a request when the last answer is older than `_KEPT_S`. A name that cannot be resolved here in
time belongs to a network that only the proxy knows, and goes there. Between our look and the connection a
hostile name server may change its answer: then a request goes to the host that was configured without the
proxy, or through the proxy to a name that was not this machine's when it was asked for. Neither hands
anything to somebody who was not configured.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from contextlib import suppress
from functools import cache
from typing import Any, Final
from urllib.request import getproxies

import anyio
import httpx2
from anyio import from_thread
from anyio.lowlevel import current_token

from providers.endpoints import Origin, is_this_machine

_PATIENCE_S: Final = 2.0
_KEPT_S: Final = 30.0


def open_client(*, is_encrypted: bool = True, **options: Any) -> httpx2.AsyncClient:
    """A client that heeds HTTP_PROXY, NO_PROXY and their like for all that is not this machine.

    One that only sends unencrypted requests trusts no certificate. Others are blocking for some milliseconds: they
    load those of the authorities.
    """
    if not getproxies():
        trusted = certificates() if is_encrypted else _no_certificates()
        return httpx2.AsyncClient(trust_env=False, verify=trusted, **options)
    return httpx2.AsyncClient(transport=_Chosen(), **options)


@cache
def certificates() -> ssl.SSLContext:
    """The authorities that are trusted, read once."""
    return httpx2.create_ssl_context()


@cache
def _no_certificates() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class _Chosen(httpx2.AsyncBaseTransport):
    """Directly to this machine, and everywhere else as the environment says."""

    def __init__(self) -> None:
        self._direct = httpx2.AsyncHTTPTransport(verify=certificates())
        # A client of its own: which proxy the environment names for an address is its business. The
        # time limits come with each request.
        self._usual = httpx2.AsyncClient(verify=certificates(), timeout=None)
        self._known: dict[str, tuple[float, bool]] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if await self._is_local(Origin.of(str(request.url))):
            return await self._direct.handle_async_request(request)
        return await self._usual.send(request, stream=True, follow_redirects=False)

    async def aclose(self) -> None:
        await self._direct.aclose()
        await self._usual.aclose()

    async def _is_local(self, origin: Origin) -> bool:
        if origin.local:
            return True
        until, is_local = self._known.get(origin.host, (0.0, False))
        if time.monotonic() >= until:
            is_local = await _resolves_to_this_machine(origin)
            self._known[origin.host] = (time.monotonic() + _KEPT_S, is_local)
        return is_local


async def _resolves_to_this_machine(origin: Origin) -> bool:
    """Whether any of its addresses leads to this machine."""
    addresses: list[str] = []
    done, token = anyio.Event(), current_token()

    def resolve() -> None:
        with suppress(OSError, UnicodeError):
            found = socket.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)
            addresses.extend(str(one[4][0]) for one in found)
        with suppress(RuntimeError):  # nobody waits any more
            from_thread.run_sync(done.set, token=token)

    try:
        # A daemon: a name server that hangs must not hold up the end of the process.
        threading.Thread(target=resolve, name="resolver", daemon=True).start()
    except RuntimeError as error:
        raise httpx2.ConnectError("No thread is left to resolve the name.") from error
    with anyio.move_on_after(_PATIENCE_S):
        await done.wait()
    return any(map(is_this_machine, addresses))
