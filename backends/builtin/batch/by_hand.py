"""What a person does with batch jobs from another process: look at them, ask to cancel one.

The record in the index file is all that is read and written: whoever owns the index carries a wish out
when it asks after the job next. Without an index file there are no jobs, and none is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from backends.builtin.batch import records, reporting
from backends.builtin.batch.reporting import JobReport
from backends.builtin.storage.database import Database
from backends.builtin.storage.moving import is_movable
from config.settings import Settings


def list_jobs(settings: Settings) -> tuple[JobReport, ...]:
    """All jobs that are remembered, the newest first. Blocking. Raises IndexUnavailableError."""
    with _index(settings) as database:
        if database is None:
            return ()
        with database.reading() as connection:
            return reporting.jobs(connection)


def cancel_job(settings: Settings, job_id: int) -> bool:
    """Whether there is such a job under way. Blocking. Raises IndexUnavailableError."""
    with _index(settings) as database:
        if database is None:
            return False
        with database.writing() as connection:
            return records.ask_to_cancel(connection, job_id)


@contextmanager
def _index(settings: Settings) -> Iterator[Database | None]:
    store = settings.search.store
    if not store.path.exists() and not is_movable(store.former_path):
        yield None
        return
    with closing(Database(store.path, former=store.former_path)) as database:
        yield database
