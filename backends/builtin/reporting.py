"""What `status` says about the builtin engine. Disk and index are compared in one view, so that the numbers agree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from backends.builtin.notes.facts import odd_encodings
from backends.builtin.sessions.reporting import report_sessions
from backends.builtin.syncing.indexing import skipped_by
from backends.interface import BackendStatus, Details, KeywordDetails, SourceCount

if TYPE_CHECKING:
    from backends.builtin.embedding.semantics import Semantics
    from backends.builtin.notes.planning import Held
    from backends.builtin.store.sqlite.store import SqliteStore
    from backends.builtin.syncing.freshness import Freshness
    from backends.builtin.syncing.indexing import Indexer
    from config.settings import Settings

MEASURED_CHUNKS: Final = 1_000_000
"""The largest index that was timed; resident vectors then take 0.8 GB, the file 8 GB."""


def report_status(
    settings: Settings,
    store: SqliteStore,
    indexer: Indexer,
    freshness: Freshness,
    semantics: Semantics,
) -> BackendStatus:
    """Blocks: it lists the disk. Raises IndexUnavailableError when the index cannot be read."""
    counted = indexer.scan(counting=True)
    scan = msgspec.structs.replace(counted, ignored=(), near_misses=())  # as a search sees the disk
    listing = indexer.sessions.listing() if indexer.sessions else None
    with store.view() as view:
        plan = indexer.compare(view, scan)
        sessions = report_sessions(view, indexer.sessions, listing, freshness.unreadable)
        files, chunks = view.files.count("memory")
        vector = semantics.report(view.connection)
        languages = view.keywords.corpus().languages
        journal = view.journal()
        encodings = odd_encodings(view.files)
    differing = {found.path for found in plan.to_read} - plan.doubtful
    unreadable = tuple(one for one in freshness.unreadable if one.path in differing)
    pending = len(differing) - len(unreadable) + sum(one.files for one in plan.held)
    lost = _lost(len(unreadable) + len(scan.failed_dirs) + sessions.unreadable)
    mark = semantics.fingerprint
    return BackendStatus(
        backend="builtin",
        provider=mark.provider if mark else None,
        model=mark.model if mark else None,
        workspace=str(settings.workspace),
        database_path=store.place,
        database_bytes=store.size_bytes(),
        sources=(
            SourceCount(
                source="memory",
                on_disk=len(scan.files),
                indexed=files,
                pending=pending,
                skipped=scan.skipped_count + len(scan.failed_dirs) + len(unreadable),
                chunks=chunks,
            ),
            *sessions.counts,
        ),
        skipped=(*skipped_by(scan), *unreadable, *sessions.skipped),
        dirty=bool(pending or plan.to_remove or sessions.is_dirty),
        syncing=freshness.running,
        recent_syncs=tuple(freshness.recent),
        issues=(
            *store.notes,
            *scan.issues,
            *counted.near_misses,
            *encodings,
            *many_chunks(chunks + sessions.chunks),
        ),
        weaknesses=(*_away(plan.held), *lost, *semantics.weaknesses()),
        details=Details(
            keyword=KeywordDetails("fts5", available=True, languages=languages),
            vector=vector,
            journal=journal,
            sessions=sessions.details,
            left_out={one.rule: one.files for one in counted.ignored} or msgspec.UNSET,
        ),
    )


def probe_weaknesses(
    store: SqliteStore, freshness: Freshness, semantics: Semantics
) -> tuple[str, ...]:
    """As in a status, from what the last whole sync saw. Raises IndexUnavailableError."""
    with store.view() as view:
        view.probe()
    lost = _lost(len(freshness.unreadable) + freshness.unlisted)
    return (*_away(freshness.held), *lost, *semantics.weaknesses())


def many_chunks(count: int) -> tuple[str, ...]:
    """A word about an index that is larger than any that was measured; nothing is left out of it."""
    if count <= MEASURED_CHUNKS:
        return ()
    remark = (
        f"The index holds {count:,} chunks, more than the {MEASURED_CHUNKS:,} that searches are measured "
        "with: they may be slow and take gigabytes. Narrow memorySearch.extraPaths."
    )
    return (remark,)


def _away(held: Iterable[Held]) -> Iterator[str]:
    return (f"Files are gone: {one.reason}." for one in held)


def _lost(count: int) -> tuple[str, ...]:
    return (f"{count} files or directories cannot be read: see skipped.",) if count else ()
