"""What models there are on this machine: the configured one and those in the cache, and removing one.

Everything here blocks for as long as a disk takes, and asks nobody but the disk.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from providers.local.models.configured import ConfiguredModels
from providers.local.models.errors import ModelBusyError, ModelReferenceError
from providers.local.models.lock import release, try_lock
from providers.local.models.places import ModelRecord, Place, place_of, recorded, storage_errors
from providers.local.models.references import FileReference, parse_reference


class ShelfItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One model."""

    reference: str
    path: str
    """Where it is, or would be."""
    bytes: int
    """What is there of it."""
    total_bytes: int | None
    """Its whole size, if that is known."""
    complete: bool
    configured: bool
    """Whether `memorySearch.local.modelPath` names it."""
    sha256: str | None = None


def shelf(configured: ConfiguredModels) -> list[ShelfItem]:
    """The configured model first, also when it is not there; then the others in the cache.

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
    """Removes downloaded models, or what is there of them; how many bytes that were.

    `name`: a reference, or what `shelf` says as reference or path. Raises `ModelReferenceError` for a
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


def _remove(place: Place, cache_dir: Path) -> int:
    with storage_errors(place):
        if not place.held():
            return 0
        lock = try_lock(place)
        if lock is None:
            raise ModelBusyError(
                f"{place.model.name} is being downloaded.", remedy="End that first, or wait for it."
            )
        try:
            freed = place.remove()
        finally:
            release(place, lock)
        _prune(place.model.parent, cache_dir)
        return freed


def _prune(directory: Path, cache_dir: Path) -> None:
    """Removes directories that have become empty, inside the cache directory."""
    while directory != cache_dir and not any(directory.iterdir()):
        directory.rmdir()
        directory = directory.parent


def _own_file(reference: FileReference) -> ShelfItem:
    there = reference.path.is_file()
    size = reference.path.stat().st_size if there else 0
    return ShelfItem(
        reference=str(reference),
        path=str(reference),
        bytes=size,
        total_bytes=size or None,
        complete=there,
        configured=True,
    )


def _item(place: Place, record: ModelRecord, *, chosen: bool = False) -> ShelfItem:
    return ShelfItem(
        reference=record.reference,
        path=str(place.model),
        bytes=place.held(),
        total_bytes=record.bytes,
        complete=place.is_complete(),
        configured=chosen,
        sha256=record.sha256,
    )
