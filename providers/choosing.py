"""Choosing a provider from the configuration, and saying for each candidate why or why not.

Unset or "auto": local if its model file exists, then OpenAI, Gemini, Voyage, by key; else keywords
only. Named: that one; if it cannot be made, its fallback; else keywords only. What happens when a
chosen provider fails later is the business of `providers.embedding.failover`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from config.settings import LocalSettings, Settings
from providers.embedding.failover import Embeddings, FallbackRecord
from providers.embedding.limits import LearnedLimits
from providers.embedding.service import EmbeddingService
from providers.errors import ProviderUnavailableError
from providers.interface import Candidate, Embedder, ProviderRequest, Role, unusable
from providers.registry import provider

_AUTOMATIC = ("local", "openai", "gemini", "voyage")
_KEYWORDS_ONLY = "Notes are searched by keywords only"


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome. Without a `primary`, search goes by keywords only, and `reason` says why."""

    requested: str
    primary: Candidate | None
    fallback: Candidate | None = None
    """Stands by; usable, and another provider than the primary."""
    fell_back: FallbackRecord | None = None
    """Set when the primary is the configured fallback, because the requested one cannot be made."""
    candidates: tuple[Candidate, ...] = ()
    """All that were considered, in order."""
    reason: str

    @property
    def keys_in_vain(self) -> tuple[Candidate, ...]:
        """Those whose key is there and whose library is not, where nothing else is used instead."""
        if self.primary is not None:
            return ()
        return tuple(one for one in self.candidates if not one.usable and one.key_source)

    @property
    def remedy(self) -> str | None:
        """What would make a provider usable; of several, any one will do."""
        if len({one.provider for one in self.candidates}) > 2:
            return "Set the key of one provider, or memorySearch.provider."
        return next((one.remedy for one in self.candidates if not one.usable), None)


def choose(settings: Settings) -> Choice:
    """Chooses. Blocking (reads the auth profiles): run it in a worker thread. Never raises."""
    requested = settings.search.provider
    if requested == "none":
        reason = f"{_KEYWORDS_ONLY}, because the provider is none."
        return Choice(requested=requested, primary=None, reason=reason)
    if requested == "auto":
        return _automatic(settings)
    return _named(requested, settings)


def open_embeddings(
    settings: Settings,
    choice: Choice,
    *,
    learned: Mapping[bytes, Mapping[str, object]] | None = None,
) -> Embeddings | None:
    """The chosen providers, ready to use; None for keywords only.

    Nothing is sent and no library imported before the first text. Blocking like `choose`. `learned`
    holds `LearnedLimits.to_dict` by `Fingerprint.digest`, from an earlier process.
    Raises `ProviderError` if the configuration's surroundings changed since `choose`.
    """

    def service(embedder: Embedder) -> EmbeddingService:
        known = (learned or {}).get(embedder.fingerprint.digest(), {})
        return EmbeddingService(embedder, learned=LearnedLimits.from_dict(known))

    if choice.primary is None:
        return None
    role: Role = "fallback" if choice.fell_back else "primary"
    request = ProviderRequest(settings, role)
    primary = service(provider(choice.primary.provider).create(request))
    if choice.fallback is None:
        return Embeddings(primary)
    request = ProviderRequest(settings, "fallback")
    return Embeddings(primary, service(provider(choice.fallback.provider).create(request)))


def _automatic(settings: Settings) -> Choice:
    candidates: list[Candidate] = []
    for name in _AUTOMATIC:
        candidates.append(_assess_automatically(name, settings))
        if candidates[-1].usable:
            return _chosen(candidates[-1], candidates, settings)
    reason = f"{_KEYWORDS_ONLY}, because no provider of embeddings can be used."
    return Choice(requested="auto", primary=None, candidates=tuple(candidates), reason=reason)


def _assess_automatically(name: str, settings: Settings) -> Candidate:
    if name == "local":
        error = _no_model_file(settings.search.local)
        if error is not None:
            return unusable(name, error)
    return provider(name).assess(ProviderRequest(settings, "primary"))


def _no_model_file(local: LocalSettings) -> ProviderUnavailableError | None:
    """Local models are chosen unasked only if that downloads nothing."""
    path = local.model_path
    if local.model_path_is_default or path.startswith(("hf:", "http://", "https://")):
        cause = "memorySearch.local.modelPath names no file"
    elif Path(path).expanduser().is_file():
        return None
    else:
        cause = f"The model file {path} does not exist"
    return ProviderUnavailableError(
        f"{cause}, and a model is not downloaded unasked.",
        remedy='Set memorySearch.provider to "local" to use local embeddings.',
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


def _chosen(primary: Candidate, candidates: list[Candidate], settings: Settings) -> Choice:
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


def _fallback(primary: str, settings: Settings) -> Candidate | None:
    name = settings.search.fallback
    if name == "none":
        return None
    if name == primary:
        return None
    return provider(name).assess(ProviderRequest(settings, "fallback"))
