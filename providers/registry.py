"""Which providers there are, and how each is assessed and made. The seam for further providers.

A provider is an object with `assess` and `create`. Remote vendors share one class; `local` is the
module `providers.local.provider`, imported only when it is needed.
"""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from typing import Protocol, cast

import msgspec

from config.settings import ProviderName, Settings
from providers.errors import ProviderError
from providers.interface import Embedder
from providers.remote.embedder import RemoteEmbedder, library_missing
from providers.remote.spec import RemoteSpec, Role, resolve_spec
from providers.remote.vendors import VENDORS, Vendor


@dataclass(frozen=True, slots=True)
class ProviderRequest:
    """What a provider may look at: the settings, and the role it is wanted for."""

    settings: Settings
    role: Role


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """One provider that was considered: whether it can be used, why (not), and what to do."""

    provider: ProviderName
    usable: bool
    reason: str
    remedy: str | None = None
    model: str | None = None
    endpoint: str | None = None
    key_source: str | None = None
    lacks: str | None = None
    """What has to come before it gives its first vector; None: nothing."""


class Provider(Protocol):
    def assess(self, request: ProviderRequest) -> Candidate:
        """Whether it could be made. Blocking, but never for long: no network, no heavy import."""
        ...

    def create(self, request: ProviderRequest) -> Embedder:
        """Makes it. Only after a successful `assess`; raises `ProviderError`."""
        ...


def provider(name: ProviderName) -> Provider:
    if name == "local":
        return cast(Provider, importlib.import_module("providers.local.provider"))
    return _Remote(VENDORS[name])


class _Remote:
    def __init__(self, vendor: Vendor) -> None:
        self._vendor = vendor

    def assess(self, request: ProviderRequest) -> Candidate:
        try:
            spec = self._spec(request)
        except ProviderError as error:
            return unusable(self._vendor.name, error)
        return Candidate(
            provider=self._vendor.name,
            usable=True,
            reason=f"The key comes from {spec.key_source}.",
            model=spec.model,
            endpoint=spec.endpoint.base_url,
            key_source=spec.key_source,
        )

    def create(self, request: ProviderRequest) -> Embedder:
        return RemoteEmbedder(self._spec(request), lambda: self._spec(request))

    def _spec(self, request: ProviderRequest) -> RemoteSpec:
        spec = resolve_spec(request.settings, self._vendor, request.role)
        missing = _missing(self._vendor)
        if missing is not None:
            raise library_missing(self._vendor.label, self._vendor.name, missing)
        return spec


def unusable(name: ProviderName, error: ProviderError) -> Candidate:
    return Candidate(provider=name, usable=False, reason=error.message, remedy=error.remedy)


def provider_is_installed(vendor: Vendor) -> bool:
    """Whether the library of a remote vendor could be imported."""
    return _missing(vendor) is None


def _missing(vendor: Vendor) -> str | None:
    return next((name for name in vendor.modules if not _installed(name)), None)


def _installed(module: str) -> bool:
    """Whether a module could be imported, without importing it."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
