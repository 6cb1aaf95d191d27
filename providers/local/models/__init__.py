"""Models for local embeddings: from the configuration to a reference, and to a complete file on this disk.

`obtain` downloads what is missing, `locate` only looks. Neither needs llama.cpp, and the HTTP client is
imported by the first download.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from anyio import to_thread

from config.settings import Settings
from providers.errors import ProviderUnavailableError
from providers.installing import install_remedy
from providers.local.models import suggestions
from providers.local.models.cache import (
    ModelFiles,
    check_magic,
    exclusive,
    place_of,
    storage_errors,
    tidy,
)
from providers.local.models.references import (
    ConfiguredModels,
    FileReference,
    ModelDamagedError,
    ModelNotFoundError,
    ModelOfflineError,
    RemoteReference,
    default_cache_dir,
    parse_reference,
)
from providers.local.models.suggestions import Suggestion
from providers.resilience import Clock, SystemClock


def configured_models(settings: Settings, environment: Mapping[str, str]) -> ConfiguredModels:
    """`environment`: of the process; HF_TOKEN may also come from `.env` or the `env` block.

    Where neither a provider nor a model is configured, the suggested model counts as soon as it was downloaded.
    Blocking: looks for that. Raises `ConfigNotFoundError` for a user without a home.
    """
    token = settings.environment_keys.get("HF_TOKEN")
    search, local = settings.search, settings.search.local
    cache_dir = local.model_cache_dir or default_cache_dir(environment)
    first = suggestions.FIRST
    is_free = search.provider == "auto" and local.model_path_is_default
    return ConfiguredModels(
        reference=first.reference if is_free and first.is_here(cache_dir) else local.model_path,
        cache_dir=cache_dir,
        environment={**environment, **({"HF_TOKEN": token.reveal()} if token else {})},
    )


async def obtain_suggested(
    suggestion: Suggestion,
    configured: ConfiguredModels,
    on_progress: Callable[[int, int | None], None] | None = None,
) -> Path:
    """As `obtain`; raises `ModelDamagedError` for another file than the one that is suggested."""
    cache_dir = configured.cache_dir
    path = await obtain(
        suggestion.reference,
        cache_dir,
        environment=configured.environment,
        on_progress=on_progress,
    )
    if not await to_thread.run_sync(suggestion.confirm, cache_dir):
        raise ModelDamagedError(
            f"The file at {path} is not the one that is suggested, and is not used.",
            remedy=f"`memory-gateway models remove {path}` takes it away.",
        )
    return path


async def obtain(
    reference: str,
    cache_dir: Path,
    *,
    environment: Mapping[str, str],
    on_progress: Callable[[int, int | None], None] | None = None,
    clock: Clock | None = None,
) -> Path:
    """The model's file, downloaded into `cache_dir` if it is not there yet.

    Counts on HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE of `environment`. `on_progress` hears the bytes
    that are there and the size (None: unknown), on the event loop after every piece; also while
    another process does the download. A cancelled or killed download is continued by the next.
    Raises `ProviderError`: those of `providers.local.models.references`, and the transient ones.
    """
    parsed = parse_reference(reference)
    if isinstance(parsed, FileReference):
        return await to_thread.run_sync(_own_file, parsed)
    place = place_of(parsed, cache_dir)
    with storage_errors(place):
        complete = await to_thread.run_sync(place.is_complete)
    if complete:
        await to_thread.run_sync(tidy, place)
    else:
        progress = on_progress or (lambda *_: None)
        await _download(parsed, place, environment, progress, clock or SystemClock())
    return place.model


def take(reference: str, cache_dir: Path) -> Path | None:
    """As `locate`, for a caller that will use the file; removes what a killed download left beside it."""
    path = locate(reference, cache_dir)
    parsed = parse_reference(reference)
    if path is not None and not isinstance(parsed, FileReference):
        tidy(place_of(parsed, cache_dir))
    return path


def locate(reference: str, cache_dir: Path) -> Path | None:
    """The model's file if it is on the disk and complete; sends nothing.

    Raises `ModelReferenceError`, `ModelStorageError`.
    """
    parsed = parse_reference(reference)
    if isinstance(parsed, FileReference):
        return parsed.path if parsed.path.is_file() else None
    place = place_of(parsed, cache_dir)
    with storage_errors(place):
        return place.model if place.is_complete() else None


async def _download(
    reference: RemoteReference,
    place: ModelFiles,
    environment: Mapping[str, str],
    on_progress: Callable[[int, int | None], None],
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
            f"{reference} is not in the cache, and HF_HUB_OFFLINE forbids to download it.",
            remedy=f"Unset HF_HUB_OFFLINE, or put the file at {place.model}",
        )

    def on_wait() -> None:
        record = place.record()
        on_progress(place.held(), record.bytes if record else None)

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
            check_magic(file.read(16), str(reference))
    except OSError as error:
        raise ModelNotFoundError(
            f"The model {reference} cannot be read: {error.strerror or error}.",
            remedy="Correct memorySearch.local.modelPath.",
        ) from None
    return reference.path
