"""Downloaded models on this disk: paths, records, the lock of a download, listing and removing."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import IO
from urllib.parse import quote, urlsplit

import msgspec
from anyio import to_thread

from config.paths import is_regular
from config.runtime.decoding import prepared
from config.runtime.files import (
    give_to_owner,
    make_directories,
    make_durable,
    remove_drafts,
    replace_file,
    try_lock_file,
)
from providers.local.models.references import (
    MAGIC,
    NEIGHBOURS,
    ONNX,
    ConfiguredModels,
    FileReference,
    HubReference,
    ModelBusyError,
    ModelFormatError,
    ModelReferenceError,
    ModelStorageError,
    RemoteReference,
    directory_of,
    engine_of,
    parse_reference,
)
from providers.resilience import Clock

_MAGICS = {".gguf": b"GGUF", ".onnx": MAGIC, ".json": b"{"}


class ModelRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a model that is complete or being downloaded."""

    reference: str
    bytes: int | None = None
    """Its size; None until the host says it."""
    sha256: str | None = None
    """The hash in hexadecimal: computed if the file is complete, else as the host announced it."""
    validator: str | None = None
    """Changes when the host's file does; without one a part cannot be continued."""


class ModelFiles(msgspec.Struct, frozen=True):
    """The files of one model."""

    model: Path

    @property
    def part(self) -> Path:
        return self._beside("part")

    @property
    def lock(self) -> Path:
        return self._beside("lock")

    @property
    def _record(self) -> Path:
        return self._beside("json")

    def _beside(self, kind: str) -> Path:
        return self.model.with_name(f"{self.model.name}.{kind}")

    def is_complete(self) -> bool:
        """Returns whether the model is there, with the size that was recorded if one was."""
        if not is_regular(self.model):
            return False
        record = self.record()
        return record is None or record.bytes in (None, self.model.stat().st_size)

    def record(self) -> ModelRecord | None:
        return read_record(self._record)

    def present_bytes(self) -> int:
        """Returns how many bytes of the model are there already, complete or not."""
        for file in (self.part, self.model):
            try:
                return file.stat().st_size
            except FileNotFoundError:
                continue
        return 0

    def open_part(self) -> IO[bytes]:
        """Opens the part, created if need be; for this user alone, whatever the umask."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self.part, flags, 0o600)
        os.fchmod(descriptor, 0o600)
        give_to_owner(descriptor, self.part.parent)
        return os.fdopen(descriptor, "r+b", buffering=4096)  # what a killed process would lose

    def write_record(self, record: ModelRecord) -> None:
        replace_file(self._record, msgspec.json.encode(record))

    def remove_drafts(self) -> None:
        """Removes records that a killed process was writing. The caller must hold the lock."""
        remove_drafts(self._record)

    def publish(self) -> None:
        """Renames the part to the model's name; when it returns, the new name survives a power cut."""
        make_durable(self.part)
        self.part.replace(self.model)
        make_durable(self.model.parent)

    def remove(self) -> int:
        """Removes model, part and record, but not the lock. Returns how many bytes of the model there were."""
        freed = self.present_bytes()
        self.remove_drafts()
        for file in (self.model, self.part, self._record):
            file.unlink(missing_ok=True)
        return freed


def place_of(reference: RemoteReference, cache_dir: Path) -> ModelFiles:
    """Returns the place of a model, which may be empty."""
    if isinstance(reference, HubReference):
        steps = [*reference.repository.split("/"), reference.revision, *reference.file.split("/")]
        return ModelFiles(cache_dir.joinpath("hf", *map(_quoted, steps)))
    parts = urlsplit(reference.url)
    digest = hashlib.sha256(reference.url.encode()).hexdigest()[:16]
    steps = [parts.netloc.lower(), digest, parts.path.rpartition("/")[2]]
    return ModelFiles(cache_dir.joinpath("web", *map(_quoted, steps)))


def files_of(reference: RemoteReference) -> tuple[RemoteReference, ...]:
    """Returns all files of a model, the model itself last: if it is complete, so are the others, as far as the host has
    them.
    """
    if not isinstance(reference, HubReference) or engine_of(reference.file) is not ONNX:
        return (reference,)
    beside = (msgspec.structs.replace(reference, file=name) for name in NEIGHBOURS)
    return (*beside, reference)


def recorded(cache_dir: Path) -> Iterator[tuple[ModelFiles, ModelRecord]]:
    """Yields every model in a cache directory, complete or in part, in the order of their places."""
    for kind in ("hf", "web"):
        for file in sorted((cache_dir / kind).rglob("*.json")):
            place = ModelFiles(file.with_suffix(""))
            if place.model.suffix == ".json" or not place.present_bytes():
                continue  # a neighbour of a model, or its record
            if (record := read_record(file)) is not None:
                yield place, record


def read_record(file: Path) -> ModelRecord | None:
    """Returns the record; None if there is no valid one."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=prepared(ModelRecord))
    except (FileNotFoundError, msgspec.DecodeError):
        return None


@contextmanager
def storage_errors(place: ModelFiles) -> Iterator[None]:
    """Turns OSError into `ModelStorageError`."""
    try:
        yield
    except OSError as error:
        raise ModelStorageError(
            f"The model cannot be kept in {place.model.parent}: {error.strerror or error}.",
            remedy="Make room there, or set local.modelCacheDir to another directory.",
        ) from error


def _quoted(step: str) -> str:
    """Returns a name without a separator; no two steps become the same."""
    return quote(step, safe=" ")


def check_magic(head: bytes, name: str, suffix: str) -> None:
    """Raises `ModelFormatError` unless a file with this suffix may begin with `head`. An unknown suffix means GGUF."""
    suffix = suffix.lower() if suffix.lower() in _MAGICS else ".gguf"
    if not head.startswith(_MAGICS[suffix]):
        kind = suffix[1:].upper()
        raise ModelFormatError(
            f"{name} is no {kind} file; it {f'begins with {head[:16]!r}' if head else 'is empty'}.",
            remedy="Name a model in the ONNX or GGUF format (local.modelPath).",
        )


_POLL_S = 0.2
PATIENCE_S = 120.0
"""The time for which the owner of the lock may make no progress; longer than a host may be silent."""


@asynccontextmanager
async def exclusive(
    place: ModelFiles, *, clock: Clock, on_wait: Callable[[], None]
) -> AsyncIterator[None]:
    """Holds the lock of a place. Raises `ModelBusyError`, `ModelStorageError`.

    `on_wait` is called now and then while another process holds it.
    """
    descriptor = await _acquire(place, clock, on_wait)
    try:
        with storage_errors(place):
            await to_thread.run_sync(place.remove_drafts)
        yield
    finally:
        release(place, descriptor)


async def _acquire(place: ModelFiles, clock: Clock, on_wait: Callable[[], None]) -> int:
    present, since = -1, clock.now()
    while True:
        with storage_errors(place):
            descriptor = await to_thread.run_sync(try_lock, place)
            now_present = place.present_bytes()
        if descriptor is not None:
            return descriptor
        if now_present != present:
            present, since = now_present, clock.now()
        elif clock.now() - since > PATIENCE_S:
            raise ModelBusyError(
                f"Another process has the model {place.model.name} locked and downloads nothing.",
                remedy=f"End that process; `fuser {shlex.quote(str(place.lock))}` names it.",
            )
        on_wait()
        await clock.sleep(_POLL_S)


def release(place: ModelFiles, descriptor: int) -> None:
    try:
        place.lock.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def tidy(place: ModelFiles) -> None:
    """Removes the lock of a download that was killed after it had published the model. Blocks.

    It stays in a cache that may only be read, where it does no harm.
    """
    with suppress(OSError):
        if place.lock.exists() and (descriptor := try_lock(place)) is not None:
            release(place, descriptor)


def try_lock(place: ModelFiles) -> int | None:
    """Returns a descriptor that holds the lock of a place; None while another process does."""
    make_directories(place.model.parent, mode=0o755)
    return try_lock_file(place.lock)


class ListedModel(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One model."""

    reference: str
    path: str
    """The place where it is, or would be."""
    bytes: int
    """The number of its bytes that are there."""
    total_bytes: int | None
    """Its size, if that is known."""
    complete: bool
    configured: bool
    """True if `local.modelPath` names it."""
    sha256: str | None = None


def listed_models(configured: ConfiguredModels) -> list[ListedModel]:
    """Returns the configured model, even if it is missing; then the others in the cache.

    Raises `ModelReferenceError`, `ModelStorageError`.
    """
    chosen = parse_reference(configured.reference)
    if isinstance(chosen, FileReference):
        place, first = None, _own_file(chosen)
    else:
        place = place_of(chosen, configured.cache_dir)
        with storage_errors(place):
            first = _item(place, place.record() or ModelRecord(reference=str(chosen)), chosen=True)
    others = [_item(*found) for found in recorded(configured.cache_dir) if found[0] != place]
    return [first, *others]


def remove(name: str, cache_dir: Path) -> int:
    """Removes downloaded models or parts of them. Returns how many bytes those were.

    `name`: a reference, or a reference or path from `listed_models`. Raises `ModelReferenceError` for a
    file of the user's own, `ModelBusyError` while it is being downloaded, `ModelStorageError`.
    """
    found = [p for p, record in recorded(cache_dir) if name in (record.reference, str(p.model))]
    if not found:
        parsed = parse_reference(name)
        if isinstance(parsed, FileReference):
            raise ModelReferenceError(
                f"{parsed} is not a downloaded model.",
                remedy="`memory-gateway models list` names those that are.",
            )
        found = [place_of(parsed, cache_dir)]
    return sum(_remove(place, cache_dir) for place in found)


def _remove(place: ModelFiles, cache_dir: Path) -> int:
    with storage_errors(place):
        if not place.present_bytes():
            return 0
        lock = try_lock(place)
        if lock is None:
            raise ModelBusyError(
                f"{place.model.name} is being downloaded.", remedy="End that first, or wait for it."
            )
        try:
            freed = place.remove() + _remove_neighbours(place)
        finally:
            release(place, lock)
        _prune(place.model.parent, cache_dir)
        return freed


def _remove_neighbours(place: ModelFiles) -> int:
    """Removes the files around an ONNX model, unless another model in its directory needs them, too."""
    if engine_of(place.model.name) is not ONNX:
        return 0
    directory = directory_of(place.model)
    if any(directory.rglob("*.onnx")):
        return 0
    neighbours = [ModelFiles(directory / name) for name in NEIGHBOURS]
    freed = sum(one.remove() for one in neighbours)
    for one in neighbours:
        if one.model.parent not in (directory, place.model.parent) and one.model.parent.is_dir():
            one.model.parent.rmdir()
    return freed


def _prune(directory: Path, cache_dir: Path) -> None:
    """Removes directories inside the cache directory that have become empty."""
    while directory != cache_dir and not any(directory.iterdir()):
        directory.rmdir()
        directory = directory.parent


def _own_file(reference: FileReference) -> ListedModel:
    there = is_regular(reference.path)
    size = reference.path.stat().st_size if there else 0
    return ListedModel(
        reference=str(reference),
        path=str(reference),
        bytes=size,
        total_bytes=size or None,
        complete=there,
        configured=True,
    )


def _item(place: ModelFiles, record: ModelRecord, *, chosen: bool = False) -> ListedModel:
    return ListedModel(
        reference=record.reference,
        path=str(place.model),
        bytes=place.present_bytes(),
        total_bytes=record.bytes,
        complete=place.is_complete(),
        configured=chosen,
        sha256=record.sha256,
    )
