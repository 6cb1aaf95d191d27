"""The model that was in use before: it goes on reading queries until the new one has read all notes.

Owns making an embedder for the fingerprint of stored vectors, when today's configuration still has
the endpoint and a key for it. Sends queries only; no note is embedded with a model of the past.
"""

from __future__ import annotations

import dataclasses

from config.settings import Settings
from providers.embedding.service import EmbeddingService
from providers.errors import ProviderError
from providers.fingerprint import Fingerprint
from providers.interface import Role
from providers.registry import provider_is_installed
from providers.remote.embedder import RemoteEmbedder
from providers.remote.spec import RemoteSpec, resolve_spec
from providers.remote.vendors import Vendor, find_vendor


def open_predecessor(settings: Settings, fingerprint: Fingerprint) -> EmbeddingService | None:
    """Reads queries as the notes of this fingerprint were read; None if that is impossible now.

    Blocking: reads the auth profiles. The keys of `memorySearch.remote` are offered only to the
    provider they are configured for, any other uses its own.
    """
    requested = settings.search.provider
    role: Role = "primary" if requested in {fingerprint.provider, "auto"} else "fallback"
    try:
        vendor = find_vendor(fingerprint.provider, settings, role)
    except ProviderError:
        return None
    if not provider_is_installed(vendor):
        return None

    def spec() -> RemoteSpec:
        return _as_before(settings, vendor, role, fingerprint)

    try:
        embedder = RemoteEmbedder(spec(), spec)
    except ProviderError:
        return None
    return EmbeddingService(embedder) if embedder.fingerprint == fingerprint else None


def _as_before(
    settings: Settings, vendor: Vendor, role: Role, fingerprint: Fingerprint
) -> RemoteSpec:
    today = resolve_spec(settings, vendor, role)
    return dataclasses.replace(today, model=fingerprint.model, dimensions=fingerprint.dimensions)
