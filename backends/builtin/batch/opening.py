"""The batch jobs of an index, if the provider in use has any."""

from __future__ import annotations

from collections.abc import Callable

from backends.builtin.batch.jobs import BatchJobs
from backends.builtin.storage.database import Database
from config.settings import Settings
from providers.batch.opening import find_batch
from providers.choosing import Choice


def open_jobs(
    settings: Settings,
    database: Database,
    choice: Choice,
    *,
    on_stored: Callable[[], None],
    on_released: Callable[[], None],
) -> BatchJobs | str:
    """Or the reason why there are none. Blocking: reads the auth profiles."""
    access = find_batch(settings, choice)
    if isinstance(access, str):
        return access
    return BatchJobs(
        database,
        access,
        settings.search.remote.batch,
        on_stored=on_stored,
        on_released=on_released,
    )
