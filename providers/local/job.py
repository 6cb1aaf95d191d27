"""One embedding call on its way through the worker: its texts, and what is known of each so far."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import anyio

from config.errors import ErrorKind
from providers.errors import ProviderError
from providers.interface import EmbeddedBatch, ItemError, Vector
from providers.local.protocol import Computed, Lane

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_NO_DIRECTION = ItemError(
    kind=ErrorKind.PROVIDER_BAD_RESPONSE,
    message="The model gave a vector that is zero or not finite.",
)


class Job:
    """Belongs to one event loop. `texts` carry their prompts."""

    def __init__(self, lane: Lane, texts: Sequence[str]) -> None:
        self.lane = lane
        self.texts = tuple(texts)
        self.ended = anyio.Event()
        self.error: ProviderError | None = None
        self.cut = 0
        """How many texts were longer than what the model is given."""
        self._tokens = 0
        self._items: dict[int, Vector | ItemError] = {}
        if not texts:
            self.ended.set()

    def accept(self, positions: Sequence[int], reply: Computed) -> None:
        """Takes the vectors of these texts."""
        self._tokens += reply.tokens
        self.cut += reply.cut
        rows = _rows(reply.vectors, len(positions))
        for position, row in zip(positions, rows, strict=True):
            self.answer(position, row if row.any() else _NO_DIRECTION)

    def answer(self, position: int, item: Vector | ItemError) -> None:
        self._items[position] = item
        if len(self._items) == len(self.texts):
            self.ended.set()

    def fail(self, error: ProviderError) -> None:
        """Ends the job as a whole."""
        self.error = error
        self.ended.set()

    def missing(self, positions: Iterable[int]) -> list[int]:
        """Those of the positions that have no answer yet."""
        return [position for position in positions if position not in self._items]

    def result(self) -> EmbeddedBatch:
        """Of a job that ended. Raises the `ProviderError` it ended with."""
        if self.error is not None:
            raise self.error
        items = tuple(self._items[position] for position in range(len(self.texts)))
        return EmbeddedBatch(items, self._tokens)


def _rows(data: bytes, count: int) -> NDArray[np.float32]:
    import numpy as np  # noqa: PLC0415 - loaded in a worker thread before the first job

    return np.frombuffer(data, dtype="<f4").reshape(count, -1)
