"""What `status` says about transcripts, from the same snapshot as everything else in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from backends.interface import DatabaseDetails, SessionDetails, SkippedFile, SourceCount

if TYPE_CHECKING:
    from backends.builtin.sessions.indexing import SessionIndexer
    from backends.builtin.sessions.planning import SessionPlan
    from backends.builtin.store.port import View
    from backends.transcripts.source import HostDatabase, TranscriptListing


class SessionReport(NamedTuple):
    details: SessionDetails
    counts: tuple[SourceCount, ...] = ()
    """Empty while transcripts are no source."""
    skipped: tuple[SkippedFile, ...] = ()
    unreadable: int = 0
    is_dirty: bool = False
    chunks: int = 0


def report_sessions(
    view: View,
    sessions: SessionIndexer | None,
    listing: TranscriptListing | None,
    unreadable: Iterable[SkippedFile],
) -> SessionReport:
    """`unreadable` are the files that the last sync could not read, transcripts or not."""
    if sessions is None or listing is None or not sessions.enabled:
        return SessionReport(SessionDetails(enabled=False))
    plan = sessions.compare(view, listing)
    lost = tuple(one for one in unreadable if one.path in plan.due)
    pending = len(plan.due) - len(lost)
    skipped = (*skipped_transcripts(plan), *lost)
    files, chunks = view.files.count("sessions")
    return SessionReport(
        details=SessionDetails(
            enabled=True,
            below_thresholds=plan.waiting,
            database=_database(listing.database),
        ),
        counts=(
            SourceCount(
                source="sessions",
                on_disk=len(listing.files),
                indexed=files,
                pending=pending,
                skipped=len(skipped),
                chunks=chunks,
            ),
        ),
        skipped=skipped,
        unreadable=len(lost) + len(listing.failures),
        is_dirty=bool(pending or plan.to_remove),
        chunks=chunks,
    )


def _database(found: HostDatabase | None) -> DatabaseDetails | None:
    """None while the host has none."""
    if found is None:
        return None
    return DatabaseDetails(
        path=found.path,
        version=found.version,
        known=found.is_known,
        left_out=found.left_out,
        failure=found.failure,
    )


def skipped_transcripts(plan: SessionPlan) -> tuple[SkippedFile, ...]:
    """What the listing had to leave out, with reasons."""
    failed = [SkippedFile(path=path, reason=why) for path, why, _ in plan.listing.failures]
    return (*plan.listing.skipped, *failed)
