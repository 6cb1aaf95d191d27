"""Calls against the index: in threads of their kind, with a deadline, and again where the index was replaced."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import anyio

from backends.builtin.store.port import READERS, IndexDamagedError, Store, View
from backends.errors import IndexUnavailableError
from config.runtime.tasks import BoundedWork

T = TypeVar("T")

INDEX_PATIENCE_S: Final = 30.0
"""How long the index may take, whose disk may be busy, and as long to wait for those that it keeps."""
_LATEST_S: Final = 1.5
"""What connecting may take beyond a call's own end, where a server's name is looked up in vain."""


class IndexCalls:
    """The calls of one event loop against one store. Calls of one kind wait for each other, never for another kind."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.searches = BoundedWork("search of the index", READERS)
        self.scans = BoundedWork("scan ahead", READERS)
        self.probes = BoundedWork("probe of the index", READERS)
        self.growing = BoundedWork("growth of transcripts")
        self.tidying = BoundedWork("unused space of the index")
        self.reports = BoundedWork("status")

    async def read(
        self, kind: BoundedWork, work: Callable[[View], T], until: float = math.inf
    ) -> T:
        """What the work finds in one view of the index. Raises as `run`."""

        def in_view() -> T:
            with self._store.view(until=until) as view:
                return work(view)

        return await self.run(kind, in_view, until)

    async def run(self, kind: BoundedWork, work: Callable[[], T], until: float = math.inf) -> T:
        """What the work returns. Raises IndexUnavailableError when the index does not answer.

        `until` is a time of `time.monotonic`.
        """
        latest_s = until + _LATEST_S - time.monotonic()
        patience_s = min(INDEX_PATIENCE_S, latest_s)
        try:
            with anyio.fail_after(latest_s):
                return await kind.run(work, patience_s, queue_s=patience_s)
        except TimeoutError:
            raise IndexUnavailableError(
                f"The index did not answer within {patience_s:.0f} s.",
                remedy="See whether the disk or the database that it is on hangs.",
            ) from None

    async def mended(self, call: Callable[[], Awaitable[T]]) -> T:
        """What the call returns; one that met damage is made again: the index is a new one by then."""
        try:
            return await call()
        except IndexDamagedError:
            return await call()

    async def settled(self, call: Callable[[], Awaitable[T]]) -> T:
        """As `mended`; also made again where the index was replaced meanwhile: an empty one answers nothing."""
        generation = self._store.generation
        answer = await self.mended(call)
        return answer if generation == self._store.generation else await self.mended(call)
