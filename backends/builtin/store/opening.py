"""Opening an agent's index: the one place that knows which stores there are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from backends.builtin.store.port import Store
from backends.builtin.store.sqlite.moving import is_movable
from backends.builtin.store.sqlite.store import SqliteStore, look_into
from backends.errors import IndexUnavailableError
from backends.interface import StoreCheck
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
    with _with_driver():
        from backends.builtin.store.postgres.store import (  # noqa: PLC0415 - its driver takes 0.2 s
            PostgresStore,
        )
    return PostgresStore(settings.search.store, settings.agent_id)


@contextmanager
def _with_driver() -> Iterator[None]:
    """Imports what needs the library of PostgreSQL. Raises IndexUnavailableError where that is not installed."""
    try:
        yield
    except ImportError as error:
        raise IndexUnavailableError(
            f"memorySearch.store.driver is postgres, and its library cannot be imported: {error}.",
            remedy=install_remedy("postgres"),
        ) from None


# --- What a person asks of a store ---------------------------------------------------------------


def migrate(settings: Settings, *, role: str | None = None) -> str:
    """Makes the tables of a store that needs them made, and says what was done. Blocks.

    `role` may read and write rows afterwards. Raises IndexUnavailableError.
    """
    _need_postgres(settings, "makes its tables itself")
    with _with_driver():
        from backends.builtin.store.postgres.connections import Address  # noqa: PLC0415 - as above
        from backends.builtin.store.postgres.schema import migrate as make  # noqa: PLC0415
    return make(Address.of(settings.search.store), role=role)


def check(settings: Settings) -> StoreCheck:
    """What is wrong with the store, if anything. Reads much of it. Blocks. Raises IndexUnavailableError."""
    if settings.search.store.driver == "postgres":
        with closing(_connect_postgres(settings)) as rows:
            return rows.check()
    with if_there(settings) as store:
        if store is None:
            place = str(settings.search.store.path)
            return StoreCheck(place=place, facts=("There is no index yet.",))
        is_whole = store.scrub()
        with store.view() as view:
            version = view.details().schema_version
        fact = "All of it was read." if is_whole else "It is too large to be read in full now."
        return StoreCheck(place=store.place, schema_version=version, facts=(fact, *store.notes))


def drop(settings: Settings, agent: str) -> bool:
    """Removes what a shared store holds of an agent, and says whether there was something. Blocks.

    Raises IndexUnavailableError.
    """
    _need_postgres(settings, f"is the file {settings.search.store.path}, which may be deleted")
    with closing(_connect_postgres(replace(settings, agent_id=agent))) as rows:
        return rows.drop()


def _need_postgres(settings: Settings, otherwise: str) -> None:
    if settings.search.store.driver != "postgres":
        raise IndexUnavailableError(
            f'memorySearch.store.driver is "sqlite": the index {otherwise}.',
            remedy='This is for the driver "postgres".',
        )
