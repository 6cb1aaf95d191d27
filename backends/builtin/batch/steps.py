"""The life of one job, a step at a time: upload, submit, poll, read the results, delete the files.

Owns what is done in each state and what is written down before the next one. A step that a restart
interrupts is taken again: what it may have left with the vendor is looked for first. Errors of the
host are raised; what they mean for the job is the business of `setbacks`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import IO, Final

import anyio
from anyio.to_thread import run_sync
from msgspec.structs import replace

from backends.builtin.batch import records
from backends.builtin.batch.records import JobRecord
from backends.builtin.batch.setbacks import Verdicts
from backends.builtin.storage.database import Database
from backends.builtin.vectors import refusals, store
from backends.builtin.vectors.refusals import now_ms
from config.settings import BatchSettings
from providers.batch.interface import BatchAccess, BatchHost, RemoteJob, Result
from providers.errors import ProviderTransientError
from providers.interface import ItemError, Vector

_MISSING: Final = "The batch job's results hold nothing about this text."
_TOO_LARGE: Final = "The vendor takes fewer texts at once."
_LONGEST_POLL_MS: Final = 60_000
_POLLS_OF_AN_AGE: Final = 20
"""A job is asked after when it has grown older by this part of its age."""


class LinesError(ProviderTransientError):
    """The texts could not be written down for the vendor."""


class Steps:
    def __init__(
        self,
        database: Database,
        access: BatchAccess,
        settings: BatchSettings,
        verdicts: Verdicts,
        on_stored: Callable[[], None],
    ) -> None:
        self._database = database
        self._access = access
        self._settings = settings
        self._verdicts = verdicts
        self._on_stored = on_stored

    async def advance(self, job: JobRecord, host: BatchHost) -> None:
        """Takes the job's next step. Raises `ProviderError` and `IndexUnavailableError`."""
        match job.state:
            case "prepared":
                await self._upload(job, host)
            case "uploaded":
                await self._submit(job, host)
            case "submitted":
                await self._poll(job, host)
            case "ended":
                await self._read(job, host)
            case _:
                await self._clean_up(job, host)

    async def _upload(self, job: JobRecord, host: BatchHost) -> None:
        if job.cancelling:
            await run_sync(self._verdicts.end_early, job)
            return
        name = f"memory-gateway-{job.label}.jsonl"
        # Also the first thing that is asked of a host: one without batch jobs says so here.
        uploaded = await host.find_upload(name)
        if uploaded is None:
            with await run_sync(self._lines, job, host) as file:
                if not os.fstat(file.fileno()).st_size:
                    # All of its texts have left the notes.
                    await self._save(replace(job, state="read", outcome="cancelled"))
                    return
                uploaded = await host.upload(name, file)
        await self._save(replace(job, state="uploaded", input_file=uploaded, attempts=0))

    def _lines(self, job: JobRecord, host: BatchHost) -> IO[bytes]:
        """A temporary file with one for each text, to be closed by the caller. Raises `LinesError`."""
        try:
            with ExitStack() as unless_complete:
                file = unless_complete.enter_context(tempfile.TemporaryFile())
                with self._database.reading() as connection:
                    for text_hash, text in records.texts_of(connection, job):
                        file.write(host.line(text_hash.hex(), text))
                file.seek(0)
                unless_complete.pop_all()
                return file
        except OSError as error:
            raise LinesError(
                f"The texts of a batch job could not be written to a temporary file: {error.strerror}."
                " Set TMPDIR to a directory with room."
            ) from None

    async def _submit(self, job: JobRecord, host: BatchHost) -> None:
        assert job.input_file is not None
        remote = await host.find(job.input_file)
        if remote is None:
            if job.cancelling:
                await run_sync(self._verdicts.end_early, job)
                return
            remote = await host.create(job.input_file, job.label)
        now = now_ms()
        await self._save(
            replace(
                job,
                state="submitted",
                remote_id=remote.id,
                remote_state=remote.state,
                submitted_at_ms=now,
                next_at_ms=now + self._settings.poll_interval_ms,
                attempts=0,
                reason=_reason_to_cancel(job),
            )
        )

    async def _poll(self, job: JobRecord, host: BatchHost) -> None:
        assert job.remote_id is not None
        remote = await host.look(job.remote_id)
        job = replace(
            job,
            remote_state=remote.state,
            remote_done=remote.done,
            attempts=0,
            reason=_reason_to_cancel(job),
        )
        if remote.too_large:
            await run_sync(self._verdicts.too_large, job, remote.reason or _TOO_LARGE)
            return
        if remote.outcome is not None:
            await self._save(_ended(job, remote))
            return
        age_ms = now_ms() - (job.submitted_at_ms or 0)
        minutes = self._settings.timeout_minutes
        if not job.cancelling and self._settings.wait and age_ms > minutes * 60_000:
            job = replace(job, cancelling=True, reason=f"It was not done within {minutes} minutes.")
            await self._save(job)
        if job.cancelling and remote.state != "cancelling":
            await host.cancel(remote.id)
        await self._save(replace(job, next_at_ms=now_ms() + self._pause_ms(age_ms)))
        await run_sync(self._verdicts.check_age, job)

    def _pause_ms(self, age_ms: int) -> int:
        least = self._settings.poll_interval_ms
        return max(least, min(age_ms // _POLLS_OF_AN_AGE, _LONGEST_POLL_MS))

    async def _read(self, job: JobRecord, host: BatchHost) -> None:
        intake = await run_sync(self._intake, job)

        async def on_results(results: Sequence[Result]) -> None:
            with anyio.CancelScope(shield=True):
                await run_sync(self._store, intake, results)
            self._on_stored()

        for file_id in job.result_files.split():
            await host.read(file_id, on_results)
        await run_sync(self._finish, intake)

    def _intake(self, job: JobRecord) -> _Intake:
        with self._database.reading() as connection:
            return _Intake(job, records.waiting_hashes(connection, job))

    def _store(self, intake: _Intake, results: Sequence[Result]) -> None:
        """One slice of results, and that nobody waits for them any longer, in one transaction."""
        items = intake.fresh(results)
        failures = [(key, item.message) for key, item in items if isinstance(item, ItemError)]
        vectors = [(key, item) for key, item in items if not isinstance(item, ItemError)]
        job = replace(
            intake.job,
            stored=intake.job.stored + len(vectors),
            refused=intake.job.refused + len(failures),
        )
        with self._database.writing() as connection:
            if vectors:
                store.put_vectors(connection, self._access.fingerprint, vectors)
            refusals.record_failures(connection, self._access.fingerprint, failures)
            records.release(connection, job, [key for key, _ in items])
            records.save(connection, job)
        intake.taken(job, [key for key, _ in items])

    def _finish(self, intake: _Intake) -> None:
        """What the results say nothing about is embedded in the ordinary way."""
        job, missing = intake.job, intake.waiting
        if job.outcome == "completed":
            job = replace(job, refused=job.refused + len(missing))
            with self._database.writing() as connection:
                unanswered = [(key, _MISSING) for key in missing]
                refusals.record_failures(connection, self._access.fingerprint, unanswered)
        self._verdicts.end(job)

    async def _clean_up(self, job: JobRecord, host: BatchHost) -> None:
        files = job.result_files.split()
        for file_id in files if job.input_file is None else [job.input_file, *files]:
            await host.delete(file_id)
        await run_sync(self._verdicts.close, job)

    async def _save(self, job: JobRecord) -> None:
        def save() -> None:
            with self._database.writing() as connection:
                records.save(connection, job)

        with anyio.CancelScope(shield=True):  # what was reached with the vendor must be known
            await run_sync(save)


class _Intake:
    """The reading of one job's results: which texts still wait, and the counts so far."""

    def __init__(self, job: JobRecord, waiting: set[bytes]) -> None:
        self.job = job
        self.waiting = waiting

    def fresh(self, results: Sequence[Result]) -> list[tuple[bytes, Vector | ItemError]]:
        """Results of texts that wait for them: not of unknown ids, and each text once."""
        found: dict[bytes, Vector | ItemError] = {}
        for result in results:
            try:
                text_hash = bytes.fromhex(result.key)
            except ValueError:
                continue
            if text_hash in self.waiting:
                found.setdefault(text_hash, result.item)
        return list(found.items())

    def taken(self, job: JobRecord, text_hashes: Sequence[bytes]) -> None:
        self.job = job
        self.waiting.difference_update(text_hashes)


def _reason_to_cancel(job: JobRecord) -> str | None:
    """What else was written down as a reason is over when the vendor answers."""
    return job.reason if job.cancelling else None


def _ended(job: JobRecord, remote: RemoteJob) -> JobRecord:
    return replace(
        job,
        state="ended",
        outcome=remote.outcome,
        result_files=" ".join(remote.result_files),
        reason=remote.reason if remote.outcome == "completed" else job.reason or remote.reason,
        next_at_ms=0,
    )
