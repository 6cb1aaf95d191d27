"""Models for local embeddings: from the configuration to a reference, and to a complete file on this disk.

`obtain` downloads what is missing, `locate` only looks. Neither needs an engine, and the HTTP client is
imported by the first download.

Suggested models are pinned to files of known hashes. The first one is for users without a key. Once it is downloaded,
by which its user agrees to it, `provider: "auto"` uses it if there is no other provider.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import msgspec
from anyio import to_thread

from config.paths import is_regular
from config.runtime.files import sha256_of
from config.settings import Settings
from providers.installing import install_remedy
from providers.local.models.cache import (
    ModelFiles,
    ModelRecord,
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
    LocalEngine,
    ModelDamagedError,
    ModelNotFoundError,
    ModelOfflineError,
    RemoteReference,
    default_cache_dir,
    engine_of,
    parse_reference,
)
from providers.provider_interface import ProviderUnavailableError
from providers.resilience import Clock, SystemClock

# --- Suggested models -----------------------------------------------------------------------------


class Suggestion(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A published model in files of known hashes."""

    name: str
    maker: str
    reference: str
    """With the commit, so that the download is the version that was examined; without it for the default model."""
    bytes: int
    """The size of all its files."""
    sha256: str
    beside: Mapping[str, str] = {}
    """The SHA-256 of each other file that it needs, by its path in the repository."""
    licence: str
    languages: str
    retrieval: float | None
    """Published: nDCG@10 on the 18 tasks of multilingual MTEB retrieval, of 100; None for a model of one language."""
    why: str

    @property
    def repository(self) -> HubReference:
        parsed = parse_reference(self.reference)
        assert isinstance(parsed, HubReference)
        return parsed

    @property
    def engine(self) -> LocalEngine:
        return engine_of(self.reference)

    def path(self, cache_dir: Path) -> Path:
        """Returns the place where it is, or would be."""
        return place_of(self.repository, cache_dir).model

    def is_here(self, cache_dir: Path) -> bool:
        """Returns whether it is complete and its files are known to be those that were examined."""
        try:
            return all(_known(place) == digest for place, digest in self._files(cache_dir))
        except OSError:
            return False  # a cache that cannot be read has nothing that could be used

    def by_hand(self, cache_dir: Path) -> str:
        """Returns an instruction: the missing files, where a person finds them, and where they belong."""
        files = [file for file in files_of(self.repository) if isinstance(file, HubReference)]
        places = [place_of(file, cache_dir) for file in files]
        missing = [
            file.file for file, at in zip(files, places, strict=True) if not at.is_complete()
        ]
        top = os.path.commonpath([at.model for at in places])
        source = self.repository
        page = f"https://huggingface.co/{source.repository}/tree/{source.revision}"
        return f"put {', '.join(missing)} of {page} below {top}"

    def confirm(self, cache_dir: Path) -> Path | None:
        """Returns a file that is not the one that was examined; None if `is_here`.

        Reads complete files without a record, such as those that were put there by hand. Raises OSError.
        """
        for place, digest in self._files(cache_dir):
            if place.is_complete() and place.record() is None:
                sha256, size = sha256_of(place.model), place.model.stat().st_size
                record = ModelRecord(reference=str(self.repository), bytes=size, sha256=sha256)
                place.write_record(record)
            if _known(place) != digest:
                return place.model
        return None

    def _files(self, cache_dir: Path) -> Iterator[tuple[ModelFiles, str]]:
        for file in files_of(self.repository):
            name = file.file if isinstance(file, HubReference) else ""
            yield place_of(file, cache_dir), self.beside.get(name, self.sha256)


def _known(place: ModelFiles) -> str | None:
    record = place.record()
    return record.sha256 if record is not None and place.is_complete() else None


SUGGESTED = Suggestion(
    name="granite-embedding-97m-multilingual-r2",
    maker="IBM",
    reference="hf:ibm-granite/granite-embedding-97m-multilingual-r2/onnx/model_quint8_avx2.onnx"
    "#835ad14087e140460703cf0fae09f97d469d65c2",
    bytes=123_551_062,
    sha256="a6022dd8220ea6f6595562a1328ee216f4a94faa55362f2f4747c80f1e78772e",
    beside={
        "tokenizer.json": "4f2842d568e2724370aec203652a42ac783c7937f8347a1a2cc7506d71f1582f",
        "config.json": "de948b0bdc6f356afad7a84b276d8dd7e7fe10fb9add1bb5e610621c28e41ebc",
        "1_Pooling/config.json": "8bc5c9a40814fcf48d2fbe7cfeff4bee6736c3c2a823ba0ce098985c59d12ab7",
    },
    licence="Apache-2.0",
    languages="52, and across them",
    retrieval=59.6,
    why="the best published retrieval across languages among models of this size",
)
"""The suggestion for users without a key."""
SUGGESTED_FOR_LLAMA = Suggestion(
    name="embeddinggemma-300M",
    maker="Google",
    reference="hf:ggml-org/embeddinggemma-300M-GGUF/embeddinggemma-300M-Q8_0.gguf",
    bytes=333_590_944,
    sha256="b5ce9d77a3fc4b3b39ccb5643c36777911cc4eb46a66962eadfa3f5f60490d63",
    licence="Gemma's terms of use",
    languages="more than 100, and across them",
    retrieval=62.5,
    why="better, larger and slower, as OpenClaw has it; it needs llama-cpp-python, which is compiled",
)
SUGGESTIONS = (SUGGESTED, SUGGESTED_FOR_LLAMA)
_EARLIER = (
    Suggestion(
        name=SUGGESTED.name,
        maker=SUGGESTED.maker,
        reference="hf:mykor/granite-embedding-97m-multilingual-r2-GGUF/"
        "granite-embedding-97M-multilingual-r2-Q8_0.gguf#45ce642d3fab2033d167ec09641a159010f7d9d9",
        bytes=115_061_088,
        sha256="25155b89638e501ac33495fa278d551d7545e1e2f62722a499bba1f064c080f2",
        licence=SUGGESTED.licence,
        languages=SUGGESTED.languages,
        retrieval=SUGGESTED.retrieval,
        why="the same as a GGUF file",
    ),
)
"""The suggestion of version 0.2: its users keep it, with the llama.cpp that was installed for it."""


def downloaded_suggestion(cache_dir: Path) -> Suggestion | None:
    """Returns the suggested model that is here and is used without a setting. Blocking."""
    for one in (SUGGESTED, *_EARLIER):
        if one.is_here(cache_dir) and (one is SUGGESTED or one.engine.missing is None):
            return one
    return None


Progress: TypeAlias = Callable[[int, int | None], None]


# --- From the configuration to a file -------------------------------------------------------------


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
    here = downloaded_suggestion(cache_dir) if search.provider == "auto" else None
    if here is not None:
        return here.reference
    # A user of llama.cpp keeps the model that was the default when there was no other engine.
    return SUGGESTED_FOR_LLAMA.reference if LLAMA.missing is None else SUGGESTED.reference


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
        return parsed.path if is_regular(parsed.path) else None
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
