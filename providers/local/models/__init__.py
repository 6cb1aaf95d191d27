"""Models for local embeddings: from the configuration to a reference, and to a complete file on this disk.

`obtain` downloads what is missing, `locate` only looks. Neither needs an engine, and the HTTP client is
imported by the first download.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from anyio import to_thread

from config.settings import Settings
from providers.installing import install_remedy
from providers.local.models import suggestions
from providers.local.models.cache import (
    ModelFiles,
    check_magic,
    exclusive,
    files_of,
    place_of,
    storage_errors,
    tidy,
)
from providers.local.models.references import (
    LLAMA,
    NEEDED,
    NEIGHBOURS,
    ConfiguredModels,
    FileReference,
    HubReference,
    ModelDamagedError,
    ModelNotFoundError,
    ModelOfflineError,
    RemoteReference,
    default_cache_dir,
    parse_reference,
)
from providers.local.models.suggestions import Suggestion
from providers.provider_interface import ProviderUnavailableError
from providers.resilience import Clock, SystemClock

Progress: TypeAlias = Callable[[int, int | None], None]


def configured_models(settings: Settings, environment: Mapping[str, str]) -> ConfiguredModels:
    """Returns the model that the settings mean. `environment` is that of the process; HF_TOKEN may also come from
    `.env` or the `env` block.

    If neither a provider nor a model is configured, a suggested model counts as soon as it was downloaded.
    Blocking: looks for that. Raises `ConfigNotFoundError` for a user without a home.
    """
    token = settings.environment_keys.get("HF_TOKEN")
    cache_dir = settings.search.local.model_cache_dir or default_cache_dir(environment)
    return ConfiguredModels(
        reference=_reference(settings, cache_dir),
        cache_dir=cache_dir,
        environment={**environment, **({"HF_TOKEN": token.reveal()} if token else {})},
    )


def _reference(settings: Settings, cache_dir: Path) -> str:
    search, local = settings.search, settings.search.local
    if local.model_path is not None:
        return local.model_path
    here = suggestions.downloaded(cache_dir) if search.provider == "auto" else None
    if here is not None:
        return here.reference
    # A user of llama.cpp keeps the model that was the default when there was no other engine.
    return suggestions.FOR_LLAMA.reference if LLAMA.missing is None else suggestions.FIRST.reference


async def obtain_suggested(
    suggestion: Suggestion,
    configured: ConfiguredModels,
    on_progress: Progress | None = None,
) -> Path:
    """Does the same as `obtain`; raises `ModelDamagedError` for other files than the suggested ones."""
    cache_dir = configured.cache_dir
    path = await obtain(
        suggestion.reference,
        cache_dir,
        environment=configured.environment,
        on_progress=on_progress,
        expected_bytes=suggestion.bytes,
    )
    damaged = await to_thread.run_sync(suggestion.confirm, cache_dir)
    if damaged is not None:
        raise ModelDamagedError(
            f"The file at {damaged} is not the one that is suggested, and is not used.",
            remedy=f"`memory-gateway models remove {path}` removes it.",
        )
    return path


async def obtain(
    reference: str,
    cache_dir: Path,
    *,
    environment: Mapping[str, str],
    on_progress: Progress | None = None,
    expected_bytes: int | None = None,
    clock: Clock | None = None,
) -> Path:
    """Returns the model's file, downloaded into `cache_dir` with those that belong to it, if it is not there yet.

    Uses HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE of `environment`. `on_progress` is called on the event loop after
    every piece, also while another process does the download, with the bytes so far and the size (None: unknown;
    `expected_bytes` for a model of several files). A cancelled or killed download is continued by the next.
    Raises `ProviderError`: those of `providers.local.models.references`, and the transient ones.
    """
    parsed = parse_reference(reference)
    if isinstance(parsed, FileReference):
        return await to_thread.run_sync(_own_file, parsed)
    files = files_of(parsed)
    progress = on_progress or (lambda *_: None)
    if len(files) > 1:
        progress = _summed(progress, expected_bytes)
    for file in files:
        place = place_of(file, cache_dir)
        with storage_errors(place):
            complete = await to_thread.run_sync(place.is_complete)
        if complete:
            await to_thread.run_sync(tidy, place)
            continue
        try:
            await _download(file, place, environment, progress, clock or SystemClock())
        except ModelNotFoundError:
            if not _may_be_missing(file):
                raise
    return place_of(parsed, cache_dir).model


def _may_be_missing(file: RemoteReference) -> bool:
    return isinstance(file, HubReference) and file.file in NEIGHBOURS and file.file not in NEEDED


def _summed(progress: Progress, total: int | None) -> Progress:
    """Adds up the bytes of files that come one after the other, of which each begins with no fewer than before."""
    before, last = 0, 0

    def note(done: int, _: int | None) -> None:
        nonlocal before, last
        if done < last:
            before += last
        last = done
        progress(before + done, total)

    return note


def take(reference: str, cache_dir: Path) -> Path | None:
    """Does the same as `locate` for a caller that will use the file; removes the lock of a killed download, too."""
    path = locate(reference, cache_dir)
    parsed = parse_reference(reference)
    if path is not None and not isinstance(parsed, FileReference):
        for file in files_of(parsed):
            tidy(place_of(file, cache_dir))
    return path


def locate(reference: str, cache_dir: Path) -> Path | None:
    """Returns the model's file if it is on the disk with those that belong to it, and complete; sends nothing.

    Raises `ModelReferenceError`, `ModelStorageError`.
    """
    parsed = parse_reference(reference)
    if isinstance(parsed, FileReference):
        return parsed.path if parsed.path.is_file() else None
    for file in files_of(parsed):
        place = place_of(file, cache_dir)
        with storage_errors(place):
            if not place.is_complete() and not _may_be_missing(file):
                return None
    return place_of(parsed, cache_dir).model


async def _download(
    reference: RemoteReference,
    place: ModelFiles,
    environment: Mapping[str, str],
    on_progress: Progress,
    clock: Clock,
) -> None:
    from providers.local.models.references import Hub  # noqa: PLC0415 - downloads are rare

    try:
        from providers.local.models import fetching  # noqa: PLC0415 - an HTTP client
    except ImportError as error:
        raise ProviderUnavailableError(
            f"{reference} cannot be downloaded: {error.name} is not installed.",
            remedy=f"{install_remedy('local')}; or put the file at {place.model}",
        ) from None
    hub = Hub.of(environment)
    if hub.offline:
        raise ModelOfflineError(
            f"{reference} is not in the cache, and HF_HUB_OFFLINE forbids downloading it.",
            remedy=f"Unset HF_HUB_OFFLINE, or put the file at {place.model}",
        )

    def on_wait() -> None:
        record = place.record()
        on_progress(place.present_bytes(), record.bytes if record else None)

    async with exclusive(place, clock=clock, on_wait=on_wait):
        if place.is_complete():
            return
        async with await to_thread.run_sync(fetching.open_client) as client:
            await fetching.Fetch(
                client, reference, place, hub, clock=clock, on_progress=on_progress
            ).run()


def _own_file(reference: FileReference) -> Path:
    try:
        with reference.path.open("rb") as file:
            check_magic(file.read(16), str(reference), reference.path.suffix)
    except OSError as error:
        raise ModelNotFoundError(
            f"The model {reference} cannot be read: {error.strerror or error}.",
            remedy="Name a file that can be read, in local.modelPath or after `models pull`.",
        ) from None
    return reference.path
