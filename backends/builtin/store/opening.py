"""Opening an agent's index: the one place that knows which stores there are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from backends.builtin.store.port import Store
from backends.builtin.store.sqlite.moving import is_movable
from backends.builtin.store.sqlite.store import SqliteStore, look_into
from config.settings import Settings

__all__ = ["connect", "if_there", "look_into"]


def connect(settings: Settings, *, is_owner: bool = False) -> Store:
    """Opens or makes the index of the agent. Blocks.

    The process that holds the lock of the index `is_owner`. Raises IndexUnavailableError.
    """
    place = settings.search.store
    return SqliteStore(place.path, former=place.former_path, is_owner=is_owner)


@contextmanager
def if_there(settings: Settings) -> Iterator[Store | None]:
    """The index of the agent, for a command; None where none was made yet. Blocks. Raises as `connect`."""
    place = settings.search.store
    if not place.path.exists() and not is_movable(place.former_path):
        yield None
        return
    with closing(connect(settings)) as store:
        yield store
