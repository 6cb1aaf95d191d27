"""One process at a time downloads a model; the others wait for it and find it done.

A lock of the kernel, so it goes with its process however that ends. Whoever waits watches the part
grow: a holder that is alive but stands still (stopped, or its disk hangs) is given up.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from anyio import to_thread

from config.disk.locking import try_lock_file
from config.disk.making import make_directories
from providers.local.models.errors import ModelBusyError
from providers.local.models.places import Place, storage_errors
from providers.resilience.clock import Clock

_POLL_S = 0.2
PATIENCE_S = 120.0
"""How long the holder may make no progress; longer than the slowest silence of a host."""


@asynccontextmanager
async def exclusive(
    place: Place, *, clock: Clock, on_wait: Callable[[], None]
) -> AsyncIterator[None]:
    """Holds the lock of a place. Raises `ModelBusyError`, `ModelStorageError`.

    `on_wait` is called now and then while another process holds it.
    """
    descriptor = await _acquire(place, clock, on_wait)
    try:
        with storage_errors(place):
            await to_thread.run_sync(place.remove_drafts)
        yield
    finally:
        release(place, descriptor)


async def _acquire(place: Place, clock: Clock, on_wait: Callable[[], None]) -> int:
    held, since = -1, clock.now()
    while True:
        with storage_errors(place):
            descriptor = await to_thread.run_sync(try_lock, place)
            now_held = place.held()
        if descriptor is not None:
            return descriptor
        if now_held != held:
            held, since = now_held, clock.now()
        elif clock.now() - since > PATIENCE_S:
            raise ModelBusyError(
                f"Another process has the model {place.model.name} locked and fetches nothing.",
                remedy=f"End that process; `fuser {place.lock}` names it.",
            )
        on_wait()
        await clock.sleep(_POLL_S)


def release(place: Place, descriptor: int) -> None:
    try:
        place.lock.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def tidy(place: Place) -> None:
    """Removes the lock of a download that was killed after it had published the model. Blocks.

    A cache that may only be read keeps it: it keeps nobody from anything.
    """
    with suppress(OSError):
        if place.lock.exists() and (descriptor := try_lock(place)) is not None:
            release(place, descriptor)


def try_lock(place: Place) -> int | None:
    """A descriptor that holds the lock of a place; None while another process does."""
    make_directories(place.model.parent, mode=0o755)
    return try_lock_file(place.lock)
