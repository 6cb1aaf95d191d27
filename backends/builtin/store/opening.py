"""Opens an agent's index and answers questions about it. No other module knows which stores there are.

A store and its library are imported when they are needed: guests and commands beside a gateway want only the lock of
an index, which needs neither.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from backends.interface import IndexUnavailableError, index_denied
from config.paths import is_present, lock_beside
from config.settings import Settings

if TYPE_CHECKING:
    from backends.builtin.store.port import Store, View
    from backends.builtin.store.postgres.store import PostgresStore
    from backends.builtin.store.sqlite.index_file import IndexState as IndexState  # noqa: PLC0414 - re-exported
    from backends.builtin.store.sqlite.vector_engines import LibraryProblems
    from backends.interface import StoreCheck

_MACHINE_ID: Final = Path("/etc/machine-id")
_MARK_BYTES: Final = 4


def connect(
    settings: Settings, *, is_owner: bool = False, may_make: Callable[[], bool] = lambda: True
) -> Store:
    """Opens or makes the index of the agent. Blocks.

    `is_owner`: this process holds the lock of the index. `may_make`: asked before a file that was taken away is made
    anew. Raises IndexUnavailableError.
    """
    if settings.search.store.driver == "postgres":
        return _connect_postgres(settings)
    from backends.builtin.store.sqlite.store import SqliteStore

    place = settings.search.store
    viewpoint = viewpoint_of(settings)
    return SqliteStore(
        place.path,
        former=place.former_path,
        is_owner=is_owner,
        may_make=may_make,
        viewpoint=viewpoint,
    )


@contextmanager
def if_there(settings: Settings) -> Iterator[Store | None]:
    """Yields the index of the agent, for a command; None if none was made yet. Blocks. Raises as `connect`."""
    if settings.search.store.driver == "postgres":
        with closing(_connect_postgres(settings)) as rows:
            yield rows if rows.exists else None
        return
    if not is_there(settings):
        yield None
        return
    with closing(connect(settings)) as store:
        yield store


def _connect_postgres(settings: Settings) -> PostgresStore:
    with _with_driver():
        from backends.builtin.store.postgres.store import PostgresStore  # its driver takes 0.2 s
    return PostgresStore(settings.search.store, settings.agent_id, viewpoint=viewpoint_of(settings))


@contextmanager
def _with_driver() -> Iterator[None]:
    """Raises IndexUnavailableError if an import in the block fails: the library of PostgreSQL is not installed."""
    try:
        yield
    except ImportError as error:
        from providers.installing import install_remedy

        raise IndexUnavailableError(
            f"store.driver is postgres, and its library cannot be imported: {error}.",
            remedy=install_remedy("postgres"),
        ) from None


@contextmanager
def look_into(settings: Settings) -> Iterator[View]:
    """Yields a view of the index for reading alone: nothing is made, moved or replaced. Blocks.

    This process may have the index open. Raises IndexUnavailableError, also if there is none.
    """
    if settings.search.store.driver == "postgres":
        with closing(_connect_postgres(settings)) as rows, rows.view() as view:
            yield view
        return
    from backends.builtin.store.sqlite.store import look_into_file

    try:
        path = index_file(settings)
    except OSError as error:
        message = f"The index {settings.search.store.path} cannot be looked at: {error}."
        raise IndexUnavailableError(message) from error
    with look_into_file(path, viewpoint_of(settings)) as view:
        yield view


def is_there(settings: Settings) -> bool:
    """Returns whether an index was made. Blocks. Raises IndexUnavailableError."""
    place = settings.search.store
    if place.driver == "postgres":
        with closing(_connect_postgres(settings)) as rows:
            return rows.exists
    from backends.builtin.store.sqlite.moving import is_movable

    with _denied(place.path):
        return is_present(place.path) or is_movable(place.former_path)


@contextmanager
def _denied(index: Path) -> Iterator[None]:
    """Raises IndexUnavailableError if this user has no access to the place of the index."""
    try:
        yield
    except PermissionError as error:
        raise index_denied(index, error) from error


def viewpoint_of(settings: Settings) -> str:
    """Returns the name of the viewpoint that the stamps belong to: see `store.view`. Blocks.

    It is empty for an index file on a local disk, which only one host opens. Names of mounts are not used:
    `127.0.0.1:/` or the tag of a virtual disk is the same on many hosts, with different files behind it.
    """
    store = settings.search.store
    if store.view is not None:
        return store.view
    if store.driver == "postgres":
        return host_name()
    from backends.files.scan import shared_type

    return "" if shared_type(_path(settings).parent) is None else host_name()


def host_name() -> str:
    """Returns the name of this host, with a mark that distinguishes hosts of the same name if the system has one."""
    name = os.uname().nodename
    try:
        machine = _MACHINE_ID.read_bytes().strip()
    except OSError:
        machine = b""
    if not machine:
        return name
    return f"{name}-{hashlib.blake2s(machine, digest_size=_MARK_BYTES).hexdigest()}"


def owner_lock(settings: Settings) -> Path:
    """Returns the file that the owner of the index locks. Reads links from the disk. Raises IndexUnavailableError."""
    place = settings.search.store
    with _denied(place.path):
        if place.former_path is None or not place.former_path.is_symlink():
            return lock_beside(place.path)
        from backends.builtin.store.sqlite.moving import lock_path

        return lock_path(place.path, place.former_path)


# --- Upkeep of the file --------------------------------------------------------------------------


def index_file(settings: Settings) -> Path:
    """Returns the path where the index is, or will be. Raises IndexUnavailableError, and other OSError."""
    from backends.builtin.store.sqlite.moving import present_path

    place = settings.search.store
    with _denied(place.path):
        return present_path(place.path, place.former_path)


def is_index(path: Path) -> bool:
    """Returns whether this file is an index of ours, made by this or an earlier release."""
    from backends.builtin.store.sqlite.moving import is_movable

    return is_movable(path)


def is_current(settings: Settings) -> bool:
    """Returns whether there is an index that this release can read as it is. Raises OSError."""
    from backends.builtin.store.sqlite.index_file import FileVerdict, judge

    return judge(index_file(settings)) is FileVerdict.OURS


def inspect(settings: Settings, *, timeout_s: float) -> IndexState:
    """Returns what kind of file the index is, and what is wrong with it. Blocks for about `timeout_s`."""
    from backends.builtin.store.sqlite.index_file import inspect_index

    return inspect_index(index_file(settings), timeout_s=timeout_s)


def doubt(settings: Settings) -> str | None:
    """Returns why another place would be better for the index, or None. Blocks."""
    from backends.builtin.store.sqlite.connections import network_note

    return network_note(_path(settings))


def _path(settings: Settings) -> Path:
    return Path(os.path.realpath(settings.search.store.path))


def vector_libraries(settings: Settings) -> LibraryProblems:
    """Returns which libraries of vector search cannot be used, and why. Blocks."""
    from backends.builtin.store.sqlite.vector_engines import probe_libraries

    return probe_libraries(settings.search.store.vector.extension_path)


# --- Commands on a store -------------------------------------------------------------------------


def migrate(settings: Settings, *, role: str | None = None) -> list[str]:
    """Makes the tables of a shared store, and the agent's approximate index if the agent has enough vectors. Returns
    what was done. Blocks.

    `role` may read and write rows afterwards. Raises IndexUnavailableError.
    """
    _need_postgres(settings, "makes its tables itself")
    with _with_driver():
        from backends.builtin.store.postgres import schema
        from backends.builtin.store.postgres.connections import Address
    store = settings.search.store
    address, at_least = Address.of(store), store.vector.hnsw_from
    name = {"tenant": store.tenant, "agent": settings.agent_id}
    made = schema.migrate(address, role=role)
    schema.drop_left_indexes(address)
    return [*made, *schema.index_vectors(address, **name, at_least=at_least)]


def check(settings: Settings) -> StoreCheck:
    """Returns what is wrong with the store, if anything. Reads much of it. Blocks. Raises IndexUnavailableError."""
    from backends.interface import StoreCheck

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
    """Removes an agent from a shared store, and returns whether anything was stored of it. Blocks.

    The next `migrate` drops its approximate index if this role may not. Raises IndexUnavailableError.
    """
    _need_postgres(settings, f"is the file {settings.search.store.path}, which may be deleted")
    with closing(_connect_postgres(replace(settings, agent_id=agent))) as rows:
        dropped = rows.drop()
    from backends.builtin.store.postgres import schema

    schema.drop_left_indexes(rows.address)
    return dropped


def _need_postgres(settings: Settings, otherwise: str) -> None:
    if settings.search.store.driver != "postgres":
        raise IndexUnavailableError(
            f'store.driver is "sqlite": the index {otherwise}.',
            remedy='This is for the driver "postgres".',
        )
