"""Forgetting: what the index keeps of files that are gone is reported, and removed if asked to.

Files that still exist stay: the next sync would add them again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from backends.builtin.store.port import FileCard, Store, View
from backends.builtin.syncing.surveying import Surveyor
from backends.files.roots import composed
from backends.interface import ForgetReport, ForgetRequest, Kept

_PATIENCE_S: Final = 30.0
"""The time to wait for searches that block erasing."""
_PAUSE_S: Final = 0.2
_LEAST_CHARS: Final = 8
"""A shorter line may be in any text."""
_MOST_LINES: Final = 500
_DEAD_ROWS: Final = (
    "PostgreSQL keeps the deleted rows until it vacuums, and longer in its log, in replicas and "
    "in backups."
)
_BACKUPS: Final = "Copies that others made (backups, snapshots of the disk) are out of reach."


def forget(store: Store, disk: Surveyor, request: ForgetRequest) -> ForgetReport:
    """Reports what is kept, and removes it if asked to. Blocks. Raises IndexUnavailableError."""
    with store.view() as view:
        kept = tuple(
            Kept(
                path=one.path,
                source=one.source,
                chunks=one.chunks,
                is_there=disk.exists(one.source, one.path),
            )
            for one in _wanted(view, disk, request)
        )
        gone = [one for one in kept if not one.is_there]
        lines = {line for one in gone for line in _lines(view.files.texts(one.source, one.path))}
    if not request.remove:
        return ForgetReport(kept=kept)
    removed, remarks = 0, [_BACKUPS]
    for one in gone:
        with store.writer() as writer:
            is_removed = writer.files.remove(one.source, one.path)
        removed += is_removed
        if not is_removed:
            remarks.append(f"{one.path} was seen by another host that shares the index, and stays.")
    is_erased = _erased(store)
    if not is_erased:
        remarks.append("Somebody reads the index all the time; the rest is erased within a minute.")
    if store.is_shared:
        remarks.append(_DEAD_ROWS)
    with store.view() as view:
        unique = [line for line in sorted(lines)[:_MOST_LINES] if not view.files.mention(line)]
    files = store.search_files([line.encode() for line in unique])
    return ForgetReport(
        kept=kept,
        removed=removed,
        searched_for=len(unique),
        files=tuple(map(str, files)),
        found=tuple(str(file) for file, is_found in files.items() if is_found),
        remarks=tuple(remarks),
    )


def _wanted(view: View, disk: Surveyor, request: ForgetRequest) -> Iterable[FileCard]:
    cards = view.files.all_cards(with_tags=False)
    if request.path is not None:
        as_indexed = composed(disk.roots.index_path(disk.roots.absolute(request.path.strip())))
        exact = [one for one in cards if one.path == request.path]
        return exact or [one for one in cards if composed(one.path) == as_indexed]
    if request.older_than_ms is None:
        return []
    try:
        oldest = datetime.now(UTC) - timedelta(milliseconds=request.older_than_ms)
    except OverflowError:
        return []  # nothing was written before the year 1
    return [one for one in cards if one.note_date and one.note_date < oldest.date().isoformat()]


def _lines(texts: Iterable[str]) -> set[str]:
    found = {line.strip() for text in texts for line in text.split("\n")}
    return {line for line in found if len(line) >= _LEAST_CHARS}


def _erased(store: Store) -> bool:
    ends = time.monotonic() + _PATIENCE_S
    while not store.erase_deleted(at_once=True):
        if time.monotonic() > ends:
            return False
        time.sleep(_PAUSE_S)
    return True
