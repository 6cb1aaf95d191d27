"""Addresses: base URL rules, origins, and which origin a credential may be sent to.

The binding rule. `memorySearch.remote.apiKey` was written for `remote.baseUrl` and goes there. Any
other key belongs to its vendor: it goes to the vendor's own origin, to the origin of the vendor's
`models.providers.<name>.baseUrl` (unless that block names its own key), and to this machine or a
private address (a proxy of the user's own) that has no key of its own in that block, but never to
another public host, whatever `remote.baseUrl` says.
"""

from __future__ import annotations

import ipaddress
from typing import Self
from urllib.parse import SplitResult, urlsplit

import msgspec

from providers.errors import ProviderUnavailableError

_DEFAULT_PORTS = {"http": 80, "https": 443}


class Origin(msgspec.Struct, frozen=True):
    """Scheme, host and port: what a credential is bound to."""

    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> Self:
        parts = urlsplit(url)
        return cls(parts.scheme.lower(), (parts.hostname or "").lower(), _port(parts))

    @property
    def private(self) -> bool:
        """Whether the host is this machine or an address that the public network cannot reach."""
        address = self._address()
        return self.local if address is None else address.is_private

    @property
    def local(self) -> bool:
        """Whether the host is this machine."""
        address = self._address()
        if address is None:
            return self.host == "localhost" or self.host.endswith(".localhost")
        return address.is_loopback

    def _address(self) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
        try:
            return ipaddress.ip_address(self.host)
        except ValueError:
            return None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


class Endpoint(msgspec.Struct, frozen=True):
    """A base URL (no trailing slash) and its origin."""

    base_url: str
    origin: Origin

    @classmethod
    def parse(cls, raw: str, *, cut_from: str | None = None, ends_in: str = "") -> Self:
        """Checks and normalises a base URL.

        From `cut_from` on its path is dropped, and `ends_in` is added unless it stands there.

        Raises `ProviderUnavailableError` for anything that is not a plain http(s) address. The
        message never repeats the address, which may hold credentials anywhere.
        """
        text = raw.strip()
        parts = urlsplit(text)
        if "@" in parts.netloc:
            raise _bad_url("a base URL holds a user name or password", "remote.headers")
        if parts.scheme.lower() not in _DEFAULT_PORTS or not parts.hostname:
            raise _bad_url("a base URL is not an http or https address", "remote.baseUrl")
        if parts.query or parts.fragment:
            raise _bad_url("a base URL carries a query or fragment", "remote.baseUrl")
        _port(parts)
        path = parts.path.split(cut_from, 1)[0] if cut_from is not None else parts.path
        path = path.rstrip("/")
        if not path.endswith(ends_in):
            path += ends_in
        text = f"{text.partition(':')[0]}://{parts.netloc}{path}"
        return cls(text, Origin.of(text))


def may_receive(origin: Origin, homes: frozenset[Origin]) -> bool:
    """Whether a credential whose homes these are may be sent to this origin (the binding rule)."""
    return origin in homes or origin.private


def _port(parts: SplitResult) -> int:
    try:
        return parts.port or _DEFAULT_PORTS.get(parts.scheme.lower(), 0)
    except ValueError:
        raise _bad_url(f"{parts.netloc!r} has no valid port", "remote.baseUrl") from None


def _bad_url(cause: str, key: str) -> ProviderUnavailableError:
    return ProviderUnavailableError(
        f"The embedding endpoint cannot be used: {cause}.",
        remedy=f"Correct it; credentials belong in remote.apiKey or remote.headers ({key}).",
    )
