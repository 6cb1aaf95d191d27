"""Choosing a provider from the configuration, with a reason for or against each candidate, and making it.

Unset or "auto": local if its model file exists, then OpenAI, Gemini, Voyage, by key, then local with the suggested
model if that was downloaded; else keywords only. Named: that one; if it cannot be made, its fallback; else keywords
only. Failures of a chosen provider are handled in `providers.embedding.service`.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from config.errors import ConfigNotFoundError
from config.settings import LocalSettings, Settings
from config.vendors import Vendor
from providers.installing import library_missing
from providers.local.models import configured_models, downloaded_suggestion
from providers.provider_interface import (
    Embedder,
    FallbackRecord,
    Fingerprint,
    Provider,
    ProviderCandidate,
    ProviderError,
    ProviderRequest,
    ProviderUnavailableError,
    Role,
    unusable,
)
from providers.remote.spec import RemoteSpec, find_vendor, resolve_spec

if TYPE_CHECKING:
    from providers.embedding.service import Embeddings, EmbeddingService


def provider(name: str) -> Provider:
    if name == "local":
        from providers.local import embedder as local  # noqa: PLC0415 - loaded when it is needed

        return local
    return _Remote(name)


class _Remote:
    def __init__(self, name: str) -> None:
        self._name = name

    def assess(self, request: ProviderRequest) -> ProviderCandidate:
        try:
            vendor, spec = self._resolved(request)
        except ProviderError as error:
            return unusable(self._name, error)
        source = spec.key_source
        if (missing := _missing()) is not None:
            return unusable(self._name, library_missing(vendor, missing), key_source=source)
        return ProviderCandidate(
            provider=self._name,
            usable=True,
            reason=f"The key comes from {source}." if source else "It is used without a key.",
            model=spec.model,
            endpoint=spec.endpoint.base_url,
            key_source=source,
        )

    def create(self, request: ProviderRequest) -> Embedder:
        from providers.remote.embedder import RemoteEmbedder  # noqa: PLC0415 - not for words only

        return RemoteEmbedder(self._spec(request), lambda: self._spec(request))

    def _spec(self, request: ProviderRequest) -> RemoteSpec:
        vendor, spec = self._resolved(request)
        if (missing := _missing()) is not None:
            raise library_missing(vendor, missing)
        return spec

    def _resolved(self, request: ProviderRequest) -> tuple[Vendor, RemoteSpec]:
        vendor = find_vendor(self._name, request.settings, request.role)
        return vendor, resolve_spec(request.settings, vendor, request.role)


def is_installed(module: str) -> bool:
    """Returns whether a module could be imported, without importing it."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _missing() -> str | None:
    """Returns a library that every remote vendor needs and that is not installed."""
    return next((name for name in ("httpx2", "numpy") if not is_installed(name)), None)


_AUTOMATIC = ("local", "openai", "gemini", "voyage")
_KEYWORDS_ONLY = "Notes are searched by keywords only"


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome. Without a `primary`, search goes by keywords only, and `reason` says why."""

    requested: str
    primary: ProviderCandidate | None
    fallback: ProviderCandidate | None = None
    """Another usable provider, for when the primary fails."""
    fell_back: FallbackRecord | None = None
    """Set when the primary is the configured fallback, because the requested one cannot be made."""
    candidates: tuple[ProviderCandidate, ...] = ()
    """All candidates, in the order in which they were considered."""
    reason: str

    @property
    def keys_in_vain(self) -> tuple[ProviderCandidate, ...]:
        """Candidates that have a key but lack their library, if no other provider is used instead."""
        return () if self.primary is not None else _in_vain(self.candidates)

    @property
    def reasons_in_vain(self) -> tuple[str, ...]:
        """A message about each of them, with its remedy."""
        return tuple(f"{_words_only(one)} {one.remedy or ''}".rstrip() for one in self.keys_in_vain)

    @property
    def remedy(self) -> str | None:
        """The step that would make a provider usable; any one of several is enough."""
        if self.keys_in_vain:
            return self.keys_in_vain[0].remedy
        if len({one.provider for one in self.candidates}) > 2:
            return (
                "Set a vendor's key, or `provider`; without a key: `memory-gateway models suggest`."
            )
        return next((one.remedy for one in self.candidates if not one.usable), None)


def _in_vain(candidates: Iterable[ProviderCandidate]) -> tuple[ProviderCandidate, ...]:
    return tuple(one for one in candidates if not one.usable and one.key_source)


def _words_only(one: ProviderCandidate) -> str:
    """Returns a message on why there are no vectors although this provider has a key."""
    return f"{_KEYWORDS_ONLY}, although there is a key for {one.provider} ({one.key_source}): {one.reason}"


def choose(settings: Settings) -> Choice:
    """Chooses a provider. Blocking (reads the auth profiles): run it in a worker thread. Never raises."""
    requested = settings.search.provider
    if requested == "none":
        reason = f'{_KEYWORDS_ONLY}, because the configured provider is "none".'
        return Choice(requested=requested, primary=None, reason=reason)
    if requested == "auto":
        return _automatic(settings)
    return _named(requested, settings)


def open_embeddings(
    settings: Settings,
    choice: Choice,
    *,
    learned: Mapping[bytes, Mapping[str, object]] | None = None,
    dimensions: Mapping[bytes, int] | None = None,
) -> Embeddings | None:
    """Returns the chosen providers, ready to use; None for keywords only.

    Nothing is sent and no library imported before the first text. Blocking like `choose`. `learned`
    contains `LearnedLimits.to_dict` by `Fingerprint.digest`, from an earlier process, and `dimensions` those of its
    vectors. Raises `ProviderError` if the configuration's surroundings changed since `choose`.
    """
    if choice.primary is None:
        return None
    from providers.embedding.service import (  # noqa: PLC0415 - not for words only, as the next ones
        REMOTE,
        Embeddings,
        EmbeddingService,
    )
    from providers.embedding.sizing import LearnedLimits  # noqa: PLC0415
    from providers.remote.embedder import RemoteEmbedder  # noqa: PLC0415

    def service(embedder: Embedder) -> EmbeddingService:
        digest = embedder.fingerprint.digest()
        known = (learned or {}).get(digest, {})
        options = None
        if isinstance(embedder, RemoteEmbedder):
            options = REMOTE
            embedder.expect((dimensions or {}).get(digest))
        return EmbeddingService(embedder, learned=LearnedLimits.from_dict(known), options=options)

    role: Role = "fallback" if choice.fell_back else "primary"
    request = ProviderRequest(settings, role)
    primary = service(provider(choice.primary.provider).create(request))
    if choice.fallback is None:
        return Embeddings(primary)
    request = ProviderRequest(settings, "fallback")
    return Embeddings(primary, service(provider(choice.fallback.provider).create(request)))


def load_for_queries(choice: Choice) -> None:
    """Loads the modules and certificates that the first query of a remote provider needs, ahead of it. Blocking.

    Raises what importing raises; the query itself would report it.
    """
    if choice.primary is None or choice.primary.provider == "local":
        return
    from providers import proxies  # noqa: PLC0415 - a library, as does the next one
    from providers.remote import wires  # noqa: F401, PLC0415

    is_encrypted = (choice.primary.endpoint or "").startswith("https:")
    # The HTTP client loads most of itself when the first one is made.
    proxies.open_client(is_encrypted=is_encrypted)


def _automatic(settings: Settings) -> Choice:
    candidates: list[ProviderCandidate] = []
    for name in _AUTOMATIC:
        candidates.append(_assess_automatically(name, settings))
        if candidates[-1].usable:
            return _chosen(candidates[-1], candidates, settings)
    if _suggestion_was_downloaded(settings):
        candidates[0] = provider("local").assess(ProviderRequest(settings, "primary"))
        if candidates[0].usable:
            return _chosen(candidates[0], candidates, settings)
    vain = _in_vain(candidates)
    nothing = f"{_KEYWORDS_ONLY}, because no provider of embeddings can be used."
    reason = _words_only(vain[0]) if vain else nothing
    return Choice(requested="auto", primary=None, candidates=tuple(candidates), reason=reason)


def _assess_automatically(name: str, settings: Settings) -> ProviderCandidate:
    if name == "local":
        error = _no_model_file(settings.search.local)
        if error is not None:
            return unusable(name, error)
    return provider(name).assess(ProviderRequest(settings, "primary"))


def _suggestion_was_downloaded(settings: Settings) -> bool:
    """Returns whether the suggested model is on the disk. It is considered last, since a key gives a larger model."""
    try:
        models = configured_models(settings, os.environ)
    except ConfigNotFoundError:
        return False
    found = downloaded_suggestion(models.cache_dir)
    return found is not None and models.reference == found.reference


def _no_model_file(local: LocalSettings) -> ProviderUnavailableError | None:
    """Returns an error unless the model is a file on this disk: one that nobody asked for is not downloaded."""
    path = local.model_path
    if path is None or path.startswith(("hf:", "http://", "https://")):
        cause = "local.modelPath names no file"
    elif Path(path).expanduser().is_file():
        return None
    else:
        cause = f"The model file {path} does not exist"
    return ProviderUnavailableError(
        f"{cause}, and no model is downloaded unless it is asked for.",
        remedy='Set provider to "local" to use local embeddings.',
    )


def _named(requested: str, settings: Settings) -> Choice:
    primary = provider(requested).assess(ProviderRequest(settings, "primary"))
    if primary.usable:
        return _chosen(primary, [primary], settings)
    fallback = _fallback(requested, settings)
    candidates = (primary, fallback) if fallback else (primary,)
    if fallback is not None and fallback.usable:
        return Choice(
            requested=requested,
            primary=fallback,
            fell_back=FallbackRecord(origin=requested, reason=primary.reason),
            candidates=candidates,
            reason=f"{fallback.provider} stands in for {requested}: {primary.reason}",
        )
    return Choice(
        requested=requested,
        primary=None,
        candidates=candidates,
        reason=f"{_KEYWORDS_ONLY}, because {requested} cannot be used: {primary.reason}",
    )


def _chosen(
    primary: ProviderCandidate, candidates: list[ProviderCandidate], settings: Settings
) -> Choice:
    fallback = _fallback(primary.provider, settings)
    if fallback is not None:
        candidates = [*candidates, fallback]
    return Choice(
        requested=settings.search.provider,
        primary=primary,
        fallback=fallback if fallback and fallback.usable else None,
        candidates=tuple(candidates),
        reason=f"{primary.provider} is used. {primary.reason}",
    )


def _fallback(primary: str, settings: Settings) -> ProviderCandidate | None:
    name = settings.search.fallback
    if name in ("none", primary):
        return None
    return provider(name).assess(ProviderRequest(settings, "fallback"))


def open_predecessor(
    settings: Settings, choice: Choice, fingerprint: Fingerprint
) -> EmbeddingService | None:
    """Opens a service that embeds queries as the notes of this fingerprint were; None if that is impossible now.

    Blocking: reads the auth profiles. The keys of `remote` are offered only to the
    provider they are configured for ("auto": the one that was chosen); any other uses its own.
    """
    from providers.embedding.service import REMOTE, EmbeddingService  # noqa: PLC0415 - see above
    from providers.remote.embedder import RemoteEmbedder  # noqa: PLC0415

    chosen = choice.primary.provider if choice.primary else None
    owner = chosen if choice.requested == "auto" else choice.requested
    role: Role = "primary" if owner == fingerprint.provider else "fallback"
    model, dimensions = fingerprint.model, fingerprint.dimensions
    before = replace(settings, search=replace(settings.search, model=model))

    def spec() -> RemoteSpec:
        vendor = find_vendor(fingerprint.provider, settings, role)
        return replace(resolve_spec(before, vendor, role), model=model, dimensions=dimensions)

    if _missing() is not None:
        return None
    try:
        embedder = RemoteEmbedder(spec(), spec)
    except ProviderError:
        return None
    is_same = embedder.fingerprint == fingerprint
    return EmbeddingService(embedder, options=REMOTE) if is_same else None
