"""The HTTP client for every host: the user's proxies are for the network, never for this machine.

Whether a name means this machine is decided by what it resolves to, not by how it is spelled. It is resolved
again before a request if the last answer is older than `_KEPT_S`. A name that cannot be resolved here in
time belongs to a network that only the proxy knows, and the request goes there. Between our look-up and the
connection a hostile name server may change its answer: then a request goes to the configured host without the
proxy, or through the proxy to a name that was not this machine's when it was resolved. Neither sends anything
to a host that was not configured.
"""

from __future__ import annotations

import os
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
from providers.provider_interface import ProviderUnavailableError

_PATIENCE_S: Final = 2.0
_KEPT_S: Final = 30.0


def open_client(*, is_encrypted: bool = True, **options: Any) -> httpx2.AsyncClient:
    """Opens a client that follows HTTP_PROXY, NO_PROXY and their like for all hosts but this machine.

    One that only sends unencrypted requests trusts no certificate. Others block for some milliseconds: they load the
    authorities' certificates. Raises ProviderUnavailableError if these cannot be read.
    """
    trusted = certificates() if is_encrypted else _no_certificates()
    if not getproxies():
        return httpx2.AsyncClient(trust_env=False, verify=trusted, **options)
    return httpx2.AsyncClient(transport=_Chosen(trusted), **options)


@cache
def certificates() -> ssl.SSLContext:
    """Returns the trusted authorities, read once. Raises ProviderUnavailableError."""
    try:
        return httpx2.create_ssl_context()
    except OSError as error:
        named = os.environ.get("SSL_CERT_FILE")
        if not named:
            raise
        raise ProviderUnavailableError(
            f"The certificates in {named} (SSL_CERT_FILE) cannot be read: {error.strerror or error}.",
            remedy="Correct SSL_CERT_FILE, or unset it for the authorities that this machine trusts.",
        ) from None


@cache
def _no_certificates() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class _Chosen(httpx2.AsyncBaseTransport):
    """Sends directly to this machine, and everywhere else as the environment says."""

    def __init__(self, trusted: ssl.SSLContext) -> None:
        self._direct = httpx2.AsyncHTTPTransport(verify=trusted)
        self._usual: httpx2.AsyncClient | None = None
        """Made for the first request that needs it: a proxy that cannot be used is no problem for this machine."""
        self._known: dict[str, tuple[float, bool]] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if await self._is_local(Origin.of(str(request.url))):
            return await self._direct.handle_async_request(request)
        self._usual = self._usual or _client_of_environment()
        return await self._usual.send(request, stream=True, follow_redirects=False)

    async def aclose(self) -> None:
        await self._direct.aclose()
        if self._usual is not None:
            await self._usual.aclose()

    async def _is_local(self, origin: Origin) -> bool:
        if origin.local:
            return True
        until, is_local = self._known.get(origin.host, (0.0, False))
        if time.monotonic() >= until:
            is_local = await _resolves_to_this_machine(origin)
            self._known[origin.host] = (time.monotonic() + _KEPT_S, is_local)
        return is_local


def _client_of_environment() -> httpx2.AsyncClient:
    """Opens a client that chooses the proxy for each address by the environment.

    Raises ProviderUnavailableError, without the proxy's address, which may contain a password.
    """
    try:
        # The time limits come with each request.
        return httpx2.AsyncClient(verify=certificates(), timeout=None)
    except ImportError:
        cause = "The environment names a SOCKS proxy, which takes a library (socksio) that is not installed."
    except (ValueError, httpx2.InvalidURL):
        cause = "The environment names a proxy by an address that is none of an HTTP proxy."
    raise ProviderUnavailableError(
        cause,
        remedy="Name an HTTP proxy, as in http://proxy.example:3128, in each of HTTPS_PROXY, HTTP_PROXY and ALL_PROXY "
        "that is set, or unset it.",
    )


async def _resolves_to_this_machine(origin: Origin) -> bool:
    """Returns whether any of its addresses leads to this machine."""
    addresses: list[str] = []
    done, token = anyio.Event(), current_token()

    def resolve() -> None:
        with suppress(OSError, UnicodeError):
            found = socket.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)
            addresses.extend(str(one[4][0]) for one in found)
        with suppress(RuntimeError):  # nobody waits any more
            from_thread.run_sync(done.set, token=token)

    try:
        # A daemon: a name server that hangs must not delay the end of the process.
        threading.Thread(target=resolve, name="resolver", daemon=True).start()
    except RuntimeError as error:
        raise httpx2.ConnectError("No thread is left to resolve the name.") from error
    with anyio.move_on_after(_PATIENCE_S):
        await done.wait()
    return any(map(is_this_machine, addresses))
