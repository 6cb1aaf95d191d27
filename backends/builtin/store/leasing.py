"""The lease of work that one gateway at a time does: waiting for it, renewing it, and writing under it.

This is work that costs money or reads everything. Any gateway may publish files at any time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import anyio

from backends.builtin.store.port import Lease, LeaseLostError, Store, Work, Writer
from backends.interface import IndexUnavailableError
from config.runtime.logs import Log
from config.runtime.tasks import BoundedWork, background_tasks

_log = Log()

LEASE_S: Final = 15.0
"""The time in which nobody does the work of a gateway that died. A host may be busy, a database may fail over."""
_RENEWALS: Final = 3
"""Renewals in the time of a lease; a gateway that waits for one asks as often."""
LOOK_S: Final = 60.0
"""The interval at which an idle gateway looks whether others left something to do."""
_GIVING_BACK_S: Final = 1.0


class LeaseHolder:
    """Takes and renews the lease of one kind of work for this process, one holder at a time, in one event loop."""

    def __init__(self, store: Store, work: Work) -> None:
        self._store = store
        self._work: Work = work
        self._lease: Lease | None = None
        self._disk = BoundedWork(f"lease of {work}")

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Waits until nobody else does the work, then holds its lease until the end of the block.

        Raises IndexUnavailableError when the store cannot say who holds it.
        """
        while True:
            if await self._take():
                break
            await anyio.sleep(LEASE_S / _RENEWALS)
        async with self._kept():
            yield

    @asynccontextmanager
    async def if_free(self) -> AsyncIterator[bool]:
        """Does the same without waiting: yields False while somebody else does the work."""
        if not await self._take():
            yield False
            return
        async with self._kept():
            yield True

    @contextmanager
    def writer(self) -> Iterator[Writer]:
        """Yields a writer of the store, if the lease is still held. Blocks; any thread may call.

        Raises LeaseLostError when somebody else has the work by now: nothing was written then.
        """
        if self._lease is None:
            raise LeaseLostError(self._work)
        with self._store.writer(lease=self._lease) as writer:
            yield writer

    def claim(self, text_hashes: Sequence[bytes]) -> None:
        """Notes that these texts are about to be sent, so that nobody else sends them. Blocks; any thread may call.

        Raises LeaseLostError as `writer` does: the caller must not send them then.
        """
        if self._lease is None:
            raise LeaseLostError(self._work)
        self._store.claim(self._lease, text_hashes)

    async def _take(self) -> bool:
        if self._store.is_shared:
            self._lease = await self._disk.run_out(self._store.lease, self._work, LEASE_S)
        else:
            self._lease = self._store.lease(self._work, LEASE_S)
        return self._lease is not None

    @asynccontextmanager
    async def _kept(self) -> AsyncIterator[None]:
        if not self._store.is_shared:
            yield
            return
        try:
            async with background_tasks() as tasks:
                tasks.start_soon(self._renew)
                yield
        finally:
            await self._give_back()

    async def _renew(self) -> None:
        """Renews the lease until it is lost. The work itself learns of the loss when it next wants to write."""
        while self._lease is not None:
            await anyio.sleep(LEASE_S / _RENEWALS)
            try:
                if not await self._disk.run_out(self._store.renew, self._lease, LEASE_S):
                    return
            except IndexUnavailableError as error:
                _log.warning("lease not renewed", work=self._work, error=str(error))

    async def _give_back(self) -> None:
        """Gives the lease back, so that the next gateway need not wait until it runs out."""
        lease, self._lease = self._lease, None
        if lease is None:
            return
        with anyio.move_on_after(_GIVING_BACK_S, shield=True):
            try:
                await self._disk.run_out(self._store.give_back, lease)
            except IndexUnavailableError as error:
                _log.debug("lease not given back", work=self._work, error=str(error))
