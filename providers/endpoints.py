"""Base URLs, their origins, and which origin a credential may be sent to.

The binding rule. `remote.apiKey` was written for `remote.baseUrl` and goes there. Any
other key belongs to its vendor: it goes to the vendor's own origin, to the origin of the vendor's
`models.providers.<name>.baseUrl` (unless that block names its own key), and to this machine or a
private address (a proxy of the user's own) that has no key of its own in that block, but never to
another public host, whatever `remote.baseUrl` says.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from functools import cache
from typing import Self
from urllib.parse import SplitResult, urlsplit

import msgspec

from config.keys.kinds import address_fault
from config.vendors import Vendor
from providers.provider_interface import ProviderUnavailableError

_NUMBERS = re.compile(r"[0-9a-fx.]+", re.IGNORECASE)
_DEFAULT_PORTS = {"http": 80, "https": 443}


class Origin(msgspec.Struct, frozen=True):
    """Scheme, host and port, to which a credential is bound."""

    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> Self:
        parts = urlsplit(url)
        return cls(parts.scheme.lower(), (parts.hostname or "").lower(), _port(parts))

    @property
    def private(self) -> bool:
        """True if the host is this machine or an address that the public network cannot reach."""
        address = _address(self.host)
        return self.local if address is None else self.local or address.is_private

    @property
    def local(self) -> bool:
        """True if the host is this machine by its name alone."""
        name = self.host.rstrip(".")
        return name == "localhost" or name.endswith(".localhost") or is_this_machine(self.host)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


def is_this_machine(host: str) -> bool:
    """Returns whether this is an address, however it is spelled, that leads back to this machine.

    The unspecified address (`0.0.0.0`, `::`) does.
    """
    address = _address(host)
    return address is not None and (address.is_loopback or address.is_unspecified)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Returns the address, if a connection would read the host as one: `127.1` and `0x7f.1` are addresses, too."""
    name = host.rstrip(".").partition("%")[0]
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        if not _NUMBERS.fullmatch(name):
            return None
        try:
            return ipaddress.IPv4Address(socket.inet_aton(name))
        except OSError:
            return None
    return getattr(address, "ipv4_mapped", None) or address


class Endpoint(msgspec.Struct, frozen=True):
    """A base URL (no trailing slash) and its origin."""

    base_url: str
    origin: Origin

    @classmethod
    def parse(cls, raw: str, *, cut_from: str | None = None, ends_in: str = "") -> Self:
        """Checks and normalises a base URL.

        The path is cut off where `cut_from` begins; `ends_in` is added if the path does not end in it.

        Raises `ProviderUnavailableError` for anything that is not a plain http(s) address. The
        message never repeats the address, which may hold credentials anywhere.
        """
        text = raw.strip()
        fault = address_fault(text)
        if fault is not None:
            raise ProviderUnavailableError(
                f"The embedding endpoint cannot be used: {fault}.",
                remedy="Correct remote.baseUrl; credentials belong in remote.apiKey or remote.headers.",
            )
        parts = urlsplit(text)
        path = parts.path.split(cut_from, 1)[0] if cut_from is not None else parts.path
        path = path.rstrip("/")
        if not path.endswith(ends_in):
            path += ends_in
        text = f"{text.partition(':')[0]}://{parts.netloc}{path}"
        return cls(text, Origin.of(text))


def may_receive(origin: Origin, homes: frozenset[Origin]) -> bool:
    """Returns whether a credential that belongs to `homes` may be sent to this origin (the binding rule)."""
    return origin in homes or origin.private


def _port(parts: SplitResult) -> int:
    try:
        return parts.port or _DEFAULT_PORTS.get(parts.scheme.lower(), 0)
    except ValueError:  # somebody else sent the address, as in a redirect: it has no usable origin
        return 0


def endpoint_at(vendor: Vendor, base_url: str) -> Endpoint:
    """Returns a configured base URL as this vendor's wire needs it. Raises `ProviderUnavailableError`."""
    return Endpoint.parse(base_url, cut_from=vendor.cut_from, ends_in=vendor.ends_in)


@cache
def home_of(vendor: Vendor) -> Endpoint | None:
    """Returns the vendor's own address; None for a server of the user's."""
    return endpoint_at(vendor, vendor.base_url) if vendor.base_url else None
