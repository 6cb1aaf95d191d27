"""Opening an agent's index: the one place that knows which stores there are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from backends.builtin.store.port import Store
from backends.builtin.store.sqlite.moving import is_movable
from backends.builtin.store.sqlite.store import SqliteStore, look_into
from backends.errors import IndexUnavailableError
from config.settings import Settings
from providers.installing import install_remedy

if TYPE_CHECKING:
    from backends.builtin.store.postgres.store import PostgresStore

__all__ = ["connect", "if_there", "look_into"]


def connect(settings: Settings, *, is_owner: bool = False) -> Store:
    """Opens or makes the index of the agent. Blocks.

    The process that holds the lock of the index `is_owner`. Raises IndexUnavailableError.
    """
    place = settings.search.store
    if place.driver == "postgres":
        return _connect_postgres(settings)
    return SqliteStore(place.path, former=place.former_path, is_owner=is_owner)


@contextmanager
def if_there(settings: Settings) -> Iterator[Store | None]:
    """The index of the agent, for a command; None where none was made yet. Blocks. Raises as `connect`."""
    place = settings.search.store
    if place.driver == "postgres":
        with closing(_connect_postgres(settings)) as rows:
            yield rows if rows.exists else None
        return
    if not place.path.exists() and not is_movable(place.former_path):
        yield None
        return
    with closing(connect(settings)) as store:
        yield store


def _connect_postgres(settings: Settings) -> PostgresStore:
    try:
        from backends.builtin.store.postgres.store import (  # noqa: PLC0415 - its driver takes 0.2 s
            PostgresStore,
        )
    except ImportError as error:
        raise IndexUnavailableError(
            f"memorySearch.store.driver is postgres, and its library cannot be imported: {error}.",
            remedy=install_remedy("postgres"),
        ) from None
    return PostgresStore(settings.search.store, settings.agent_id)
