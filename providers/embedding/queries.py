"""A small cache of query embeddings, in which equal queries that come together share one request.

Owns least-recently-used eviction and the single flight. Failures are shared by those who waited, and
never cached; when the one that asked is cancelled, the next one that waited asks instead.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable

import anyio

from providers.errors import ProviderError
from providers.interface import Vector


class _Flight:
    """One request under way, and how it ended."""

    def __init__(self) -> None:
        self.landed = anyio.Event()
        self.error: ProviderError | None = None


class QueryCache:
    def __init__(self, capacity: int = 256) -> None:
        self._capacity = capacity
        self._vectors: OrderedDict[str, Vector] = OrderedDict()
        self._flights: dict[str, _Flight] = {}

    def peek(self, text: str) -> Vector | None:
        """The cached vector, which thereby becomes the most recently used."""
        if text not in self._vectors:
            return None
        self._vectors.move_to_end(text)
        return self._vectors[text]

    async def get(self, text: str, ask: Callable[[], Awaitable[Vector]]) -> Vector:
        """The vector from the cache, from an equal request under way, or from `ask`."""
        while True:
            cached = self.peek(text)
            if cached is not None:
                return cached
            flight = self._flights.get(text)
            if flight is None:
                return await self._fly(text, ask)
            await flight.landed.wait()
            if flight.error is not None:
                raise flight.error

    async def _fly(self, text: str, ask: Callable[[], Awaitable[Vector]]) -> Vector:
        flight = self._flights[text] = _Flight()
        try:
            vector = await ask()
            self._store(text, vector)
        except ProviderError as error:
            flight.error = error
            raise
        finally:
            del self._flights[text]
            flight.landed.set()
        return vector

    def _store(self, text: str, vector: Vector) -> None:
        self._vectors[text] = vector
        if len(self._vectors) > self._capacity:
            self._vectors.popitem(last=False)
