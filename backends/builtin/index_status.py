"""The answers of `status` and `health` about the builtin engine.

For `status` disk and index are compared in one view, so that the numbers agree; a deep health check tries out the
provider and the vector engine.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, Literal

import anyio
import msgspec
from anyio.to_thread import run_sync

from backends.builtin.store.opening import index_file
from backends.builtin.store.port import Unavailable
from backends.builtin.syncing.freshness import skipped_by
from backends.builtin.syncing.sessions import skipped_transcripts
from backends.files.reading import (
    BROKEN,
    MAX_FILE_BYTES,
    UNKNOWN,
    FileUnreadable,
    read_for_index,
)
from backends.files.roots import MemoryRoots
from backends.interface import (
    BackendStatus,
    DatabaseDetails,
    Details,
    FileUnreadableError,
    KeywordDetails,
    SessionDetails,
    SkippedFile,
    SourceCount,
    Trial,
    ViewpointDetails,
    write_denial,
)
from config.errors import MemoryGatewayError

if TYPE_CHECKING:
    from backends.builtin.embedding.semantics import Semantics
    from backends.builtin.store.port import OddEncoding, Store, View
    from backends.builtin.syncing.freshness import Freshness
    from backends.builtin.syncing.planning import Retained, SyncPlan
    from backends.builtin.syncing.sessions import SessionIndexer
    from backends.builtin.syncing.surveying import Surveyor
    from backends.files.scan import FoundFile, ScanResult
    from backends.transcripts.source import HostDatabase, TranscriptListing
    from config.settings import Settings
    from providers.embedding.service import Embeddings
    from providers.provider_interface import QueryVector

MEASURED_CHUNKS: Final = 1_000_000
"""The largest index that was timed; resident vectors then take 0.8 GB, the file 8 GB."""


def report_status(
    settings: Settings, store: Store, surveyor: Surveyor, freshness: Freshness, semantics: Semantics
) -> BackendStatus:
    """Returns the status. Blocks: it lists the disk. Raises IndexUnavailableError when the index cannot be read."""
    counted = surveyor.scan(counting=True)
    scan = msgspec.structs.replace(counted, ignored=(), near_misses=())  # as a search sees the disk
    listing = surveyor.sessions.listing() if surveyor.sessions else None
    with store.view() as view:
        plan = surveyor.compare(view, scan)
        sessions = report_sessions(view, surveyor.sessions, listing, freshness.unreadable)
        files, chunks = view.files.count("memory")
        encodings = [_oddity(one) for one in view.files.odd_encodings()]
        vector, viewpoints = semantics.report(view), _viewpoints(view, store.viewpoint)
        languages, kept, journal = view.keywords.corpus().languages, view.details(), view.journal()
    differing = {found.path for found in plan.to_read} - plan.doubtful
    known = {one.path: one for one in freshness.unreadable if one.path in differing}
    for found in plan.to_read:
        if found.path in differing and found.path not in known:
            known |= _refused(surveyor.roots, found)
    unreadable = tuple(known.values())
    skipped = (*unreadable, *sessions.skipped)
    pending = len(differing) - len(unreadable) + sum(one.files for one in plan.retained)
    notes = SourceCount(
        source="memory",
        on_disk=len(scan.files),
        indexed=files,
        pending=pending,
        skipped=scan.skipped_count + len(scan.failed_dirs) + len(unreadable),
        chunks=chunks,
    )
    lost = _lost(len(unreadable) + len(scan.failed_dirs) + sessions.unreadable)
    mark = semantics.fingerprint
    return BackendStatus(
        backend="builtin",
        provider=mark.provider if mark else None,
        model=mark.model if mark else None,
        workspace=str(settings.workspace),
        database_path=store.place,
        database_bytes=store.size_bytes(),
        sources=(notes, *sessions.counts),
        skipped=(*skipped_by(scan), *skipped),
        dirty=bool(pending or plan.to_remove or sessions.is_dirty),
        syncing=freshness.running,
        recent_syncs=tuple(freshness.recent),
        issues=tuple(_issues(store, counted, plan, encodings, chunks + sessions.chunks)),
        weaknesses=(*_sentences(plan.retained), *lost, *semantics.weaknesses()),
        details=Details(
            keyword=KeywordDetails("fts5", available=True, languages=languages),
            vector=vector,
            store=kept,
            journal=journal or msgspec.UNSET,
            viewpoints=viewpoints or msgspec.UNSET,
            sessions=sessions.details,
            skipped=_by_reason(counted, skipped) or msgspec.UNSET,
            left_out={one.rule: one.files for one in counted.ignored} or msgspec.UNSET,
        ),
    )


def _refused(roots: MemoryRoots, found: FoundFile) -> dict[str, SkippedFile]:
    """Returns a note that no sync can read, by its path; the last sync of this process may not have known it."""
    if found.size <= MAX_FILE_BYTES and os.access(roots.absolute(found.path), os.R_OK):
        return {}
    match read_for_index(roots, found):
        case FileUnreadable(path=path, reason=reason):
            return {path: SkippedFile(path=path, reason=reason)}
        case SkippedFile() as skipped:
            return {skipped.path: skipped}
        case _:
            return {}


def _issues(
    store: Store, counted: ScanResult, plan: SyncPlan, encodings: Iterable[str], chunks: int
) -> Iterator[str]:
    yield from store.notes
    yield from _sentences(one for one in plan.retained if one.remedy)
    yield from counted.issues
    yield from counted.near_misses
    yield from encodings
    yield from many_chunks(chunks)


def _viewpoints(view: View, here: str) -> ViewpointDetails | None:
    """Returns None if no other host shares the index."""
    others = tuple(one.name for one in view.viewpoints() if not one.is_here)
    if not others:
        return None
    elsewhere = (view.files.only_elsewhere(source) for source in ("memory", "sessions"))
    return ViewpointDetails(here=here, others=others, only_elsewhere=sum(elsewhere))


_REASONS: Final = 20


def _by_reason(scan: ScanResult, others: Iterable[SkippedFile]) -> dict[str, int]:
    """Counts files by reason, the most frequent first; rare reasons together, since some occur for one file each."""
    counts = Counter(scan.skipped_reasons)
    counts.update(one.reason for one in scan.failed_dirs)
    counts.update(one.reason for one in others)
    frequent = dict(counts.most_common(_REASONS))
    rest = counts.total() - sum(frequent.values())
    return {**frequent, "other reasons": rest} if rest else frequent


class SessionReport(msgspec.Struct, frozen=True, gc=False):
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
    """Returns the part about transcripts. `unreadable`: files of any kind that the last sync could not read."""
    if sessions is None or listing is None or not sessions.enabled:
        return SessionReport(SessionDetails(enabled=False))
    plan = sessions.compare(view, listing)
    lost = tuple(one for one in unreadable if one.path in plan.due)
    pending = len(plan.due) - len(lost)
    skipped = (*skipped_transcripts(plan), *lost)
    files, chunks = view.files.count("sessions")
    return SessionReport(
        details=SessionDetails(
            enabled=True, below_thresholds=plan.waiting, database=_database(listing.database)
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
    """Returns None while the host has none."""
    if found is None:
        return None
    return DatabaseDetails(
        path=found.path,
        version=found.version,
        known=found.is_known,
        left_out=found.left_out,
        failure=found.failure,
    )


def _oddity(odd: OddEncoding) -> str:
    """Returns a sentence about an encoding other than UTF-8 that notes have."""
    encoding, count, path = odd.encoding, odd.notes, odd.first_path
    notes_are = f"{path} is" if count == 1 else f"{count:,} notes, such as {path}, are"
    if encoding == UNKNOWN:
        return (
            f"{notes_are} not searched: no text in UTF-8, UTF-16 or Windows-1252. "
            "If it is text, save it as UTF-8."
        )
    if encoding == BROKEN:
        return (
            f"{notes_are} not quite UTF-8; what cannot be read is shown as U+FFFD. "
            "Save it as UTF-8."
        )
    return f"{notes_are} read as {encoding}, which takes guessing. Save it as UTF-8."


def probe_weaknesses(
    settings: Settings, store: Store, freshness: Freshness, semantics: Semantics
) -> tuple[str, ...]:
    """Returns the weaknesses as a status has them, from what the last whole sync saw.

    Raises IndexUnavailableError, and FileUnreadableError where the workspace may not be read.
    """
    with store.view() as view:
        view.probe()
        retained = freshness.retained(view)
    for one in retained:
        if one.remedy and one.place == MemoryRoots.of(settings).base:
            raise FileUnreadableError(_sentence(one))
    lost = _lost(len(freshness.unreadable) + freshness.last_look.unlisted)
    return (*_sentences(retained), *lost, *_unwritable(settings), *semantics.weaknesses())


def _unwritable(settings: Settings) -> Iterator[str]:
    if settings.search.store.driver != "sqlite":
        return
    index = index_file(settings)
    if denial := write_denial(index):
        yield (
            f"The index {index} cannot be written, so what changes is not indexed: {denial}. "
            f"Give this user access: {denial.remedy}."
        )


def many_chunks(count: int) -> tuple[str, ...]:
    """Returns a remark about an index that is larger than any measured one; nothing is left out of it."""
    if count <= MEASURED_CHUNKS:
        return ()
    remark = (
        f"The index holds {count:,} chunks, more than the {MEASURED_CHUNKS:,} that searches are measured "
        "with: they may be slow and take gigabytes. Narrow extraPaths."
    )
    return (remark,)


def _sentences(retained: Iterable[Retained]) -> Iterable[str]:
    return dict.fromkeys(map(_sentence, retained))


def _sentence(retained: Retained) -> str:
    return f"{'Notes cannot be read' if retained.remedy else 'Files are gone'}: {retained.explanation}."


def _lost(count: int) -> tuple[str, ...]:
    if not count:
        return ()
    what = "A file or directory" if count == 1 else f"{count:,} files or directories"
    return (f"{what} cannot be read: `memory-gateway status` names what was skipped.",)


async def try_out(store: Store, semantics: Semantics, timeout_s: float) -> tuple[Trial, Trial]:
    """See `MemoryBackend.try_out`: the provider gives a vector, the engine searches with it."""
    provider, vector = await _try_provider(semantics, timeout_s)
    if vector is None:
        return provider, Trial(
            part="vectors", outcome="skipped", detail="No vector to search with."
        )
    return provider, await _try_vectors(store, vector, timeout_s)


async def _try_provider(semantics: Semantics, timeout_s: float) -> tuple[Trial, QueryVector | None]:
    started = time.perf_counter()
    with anyio.move_on_after(timeout_s):
        embeddings = await semantics.opened()
        if embeddings is None:
            outcome: Literal["failed", "skipped"] = (
                "failed" if semantics.weaknesses() else "skipped"
            )
            return Trial(part="provider", outcome=outcome, detail=semantics.reason), None
        try:
            vector = await _ask(embeddings, timeout_s)
        except MemoryGatewayError as error:
            return _failed("provider", error, started), None
        mark = vector.fingerprint
        detail = f"{mark.provider} answered with {len(vector.vector)} numbers ({mark.model})."
        return _timed(Trial(part="provider", outcome="ok", detail=detail), started), vector
    detail = f"No vector within {timeout_s:g} s."
    return _timed(Trial(part="provider", outcome="failed", detail=detail), started), None


async def _ask(embeddings: Embeddings, timeout_s: float) -> QueryVector:
    """Embeds a text that no cache knows; a lost primary provider is probed before its fallback is asked."""
    if embeddings.state().fell_back is not None:
        await embeddings.probe()
    return await embeddings.embed_query(f"health {os.urandom(4).hex()}", deadline_s=timeout_s)


async def _try_vectors(store: Store, vector: QueryVector, timeout_s: float) -> Trial:
    started = time.perf_counter()
    trial = Trial(part="vectors", outcome="failed", detail=f"No answer within {timeout_s:g} s.")
    try:
        with anyio.move_on_after(timeout_s):
            trial = await run_sync(_search, store, vector, abandon_on_cancel=True)
    except MemoryGatewayError as error:
        return _failed("vectors", error, started)
    return _timed(trial, started)


def _search(store: Store, vector: QueryVector) -> Trial:
    with store.view() as view:
        space = view.vectors(vector.fingerprint)
        if space is None or space.is_empty:
            detail = f"{vector.fingerprint.model} has not embedded any note yet."
            return Trial(part="vectors", outcome="skipped", detail=detail)
        answer = space.search(vector.vector, limit=1)
    if isinstance(answer, Unavailable) or answer.reason:
        return Trial(part="vectors", outcome="failed", detail=f"{answer.reason}.")
    return Trial(part="vectors", outcome="ok", detail=f"{answer.engine} answered.")


def _failed(
    part: Literal["provider", "vectors"], error: MemoryGatewayError, started: float
) -> Trial:
    trial = Trial(part=part, outcome="failed", detail=error.message, remedy=error.remedy)
    return _timed(trial, started)


def _timed(trial: Trial, started: float) -> Trial:
    return msgspec.structs.replace(trial, ms=round((time.perf_counter() - started) * 1000, 1))
