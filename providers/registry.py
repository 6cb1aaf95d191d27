"""Which providers there are: `local`, and every remote one by its id. The seam for further providers.

Remote ones share one class, since they differ in their row of `providers.remote.vendors` only. An id
that nobody knows is a provider too: one that says why it cannot be used.
"""

from __future__ import annotations

import importlib.util

from providers.errors import ProviderError
from providers.interface import Candidate, Embedder, Provider, ProviderRequest, unusable
from providers.remote.embedder import RemoteEmbedder, library_missing
from providers.remote.spec import RemoteSpec, resolve_spec
from providers.remote.vendors import Vendor, find_vendor


def provider(name: str) -> Provider:
    if name == "local":
        from providers.local import provider as local  # noqa: PLC0415 - loaded when it is needed

        return local
    return _Remote(name)


class _Remote:
    def __init__(self, name: str) -> None:
        self._name = name

    def assess(self, request: ProviderRequest) -> Candidate:
        try:
            vendor, spec = self._resolved(request)
        except ProviderError as error:
            return unusable(self._name, error)
        source = spec.key_source
        if (missing := _missing(vendor)) is not None:
            return unusable(self._name, library_missing(vendor, missing), key_source=source)
        return Candidate(
            provider=self._name,
            usable=True,
            reason=f"The key comes from {source}." if source else "It is asked without a key.",
            model=spec.model,
            endpoint=spec.endpoint.base_url,
            key_source=source,
        )

    def create(self, request: ProviderRequest) -> Embedder:
        return RemoteEmbedder(self._spec(request), lambda: self._spec(request))

    def _spec(self, request: ProviderRequest) -> RemoteSpec:
        vendor, spec = self._resolved(request)
        missing = _missing(vendor)
        if missing is not None:
            raise library_missing(vendor, missing)
        return spec

    def _resolved(self, request: ProviderRequest) -> tuple[Vendor, RemoteSpec]:
        vendor = find_vendor(self._name, request.settings, request.role)
        return vendor, resolve_spec(request.settings, vendor, request.role)


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
