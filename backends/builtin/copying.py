"""Moving an agent's index from one store to another without paying again for what was embedded.

The files are the source of truth, so the target reads them itself. What they do not contain comes from the source:
vectors, batch jobs under way, and what was learned about vendors. A copy that was interrupted starts again and skips
what is there already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from backends.builtin.backend import open_builtin
from backends.builtin.embedding.backfill import LEARNED_KEY
from backends.builtin.embedding.batch_jobs import REMEMBERED as OF_BATCH_JOBS
from backends.builtin.store.leasing import LeaseHolder
from backends.builtin.store.port import Store, View
from backends.interface import ProgressCallback, SyncProgress, SyncReport, SyncRequest
from config.runtime.tasks import BoundedWork
from config.settings import Settings
from providers.provider_interface import Fingerprint

_VECTORS_A_STEP: Final = 500
"""One transaction: some megabytes."""
_REMEMBERED: Final = (LEARNED_KEY, *OF_BATCH_JOBS)


class CopyReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    origin: str = msgspec.field(name="from")
    """The place of the source, for people."""
    to: str
    sync: SyncReport
    """The sync by which the target read the files."""
    files: int
    chunks: int
    """Those of the target after the copy, of notes and conversations together; `files` likewise."""
    vectors: int
    """The vectors that this run copied."""
    lacking: int
    """Texts of the target without a vector of a model that the source uses: the source has none for them either."""
    jobs: int
    """Batch jobs under way that the target looks after from now on."""
    remarks: tuple[str, ...] = ()


async def copy_index(
    settings: Settings,
    source: Store,
    target: Store,
    *,
    on_sync: ProgressCallback | None = None,
    on_vectors: Callable[[SyncProgress], None] = lambda _: None,
) -> CopyReport:
    """Copies into an index with these settings. Raises IndexUnavailableError; what was copied until then stays."""
    async with open_builtin(settings, background=False, store=target) as backend:
        sync = await backend.sync(SyncRequest(reason="cli"), progress=on_sync)
    disk, lease = BoundedWork("copying of the index"), LeaseHolder(target, "embedding")
    async with lease.hold():
        jobs = await disk.run_out(_copy_jobs, source, target, lease)
        vectors = 0
        for fingerprint in await disk.run_out(_fingerprints, source):
            wanted = await disk.run_out(_lacking, target, fingerprint)
            for begin in range(0, len(wanted), _VECTORS_A_STEP):
                part = wanted[begin : begin + _VECTORS_A_STEP]
                vectors += await disk.run_out(_copy, source, lease, fingerprint, part)
                done, total = begin + len(part), len(wanted)
                on_vectors(SyncProgress(done=done, total=total, path=fingerprint.model))
    return await disk.run_out(_report, source, target, sync, vectors, jobs)


def _fingerprints(source: Store) -> Sequence[Fingerprint]:
    with source.view() as view:
        return view.embeddings.fingerprints()


def _lacking(store: Store, fingerprint: Fingerprint) -> list[bytes]:
    with store.view() as view:
        return [text_hash for text_hash, _ in view.embeddings.backlog(fingerprint)]


def _copy(
    source: Store, lease: LeaseHolder, fingerprint: Fingerprint, wanted: Sequence[bytes]
) -> int:
    with source.view() as view:
        vectors = view.embeddings.vectors_of(fingerprint, wanted)
    if vectors:
        with lease.writer() as writer:
            writer.embeddings.put(fingerprint, vectors)
    return len(vectors)


def _copy_jobs(source: Store, target: Store, lease: LeaseHolder) -> int:
    """Copies open jobs, and does so before the vectors: texts that wait for a job must not be embedded otherwise."""
    with source.view() as view:
        jobs = [
            (job, view.jobs.waiting_hashes(job))
            for job in reversed(view.jobs.recent())
            if job.state != "closed"
        ]
        remembered = {key: view.remembered(key) for key in _REMEMBERED}
    with target.view() as view:
        known = {job.label for job in view.jobs.recent()}
    new = [(job, sorted(waiting)) for job, waiting in jobs if job.label not in known]
    with lease.writer() as writer:
        for key, text in remembered.items():
            if text is not None and writer.remembered(key) is None:
                writer.remember(key, text)
        for job, waiting in new:
            writer.jobs.add(job, waiting)
    return len(new)


def _report(source: Store, target: Store, sync: SyncReport, vectors: int, jobs: int) -> CopyReport:
    with source.view() as before, target.view() as after:
        marks = before.embeddings.fingerprints()
        lacking = sum(len(after.embeddings.backlog(mark)) for mark in marks)
        (old_files, _), (files, chunks) = _counts(before), _counts(after)
    remarks = [f"{one.path}: {one.reason}" for one in sync.skipped]
    if files < old_files:
        remarks.append(
            f"The source has {old_files - files:,} more files: they are not on this host's disk, or not to be indexed "
            "any more. A gateway that has them adds them."
        )
    if not marks:
        remarks.append("The source has no vectors.")
    return CopyReport(
        origin=source.place,
        to=target.place,
        sync=sync,
        files=files,
        chunks=chunks,
        vectors=vectors,
        lacking=lacking,
        jobs=jobs,
        remarks=tuple(remarks),
    )


def _counts(view: View) -> tuple[int, int]:
    """Returns the numbers of files and chunks, of notes and conversations together."""
    notes, conversations = view.files.count("memory"), view.files.count("sessions")
    return notes[0] + conversations[0], notes[1] + conversations[1]
