"""The work list of one embedding run: which texts wait, and how they are taken, put back and split.

Pure bookkeeping over positions; sends nothing. A text is always in exactly one place: waiting, taken,
or finished by the caller.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from providers.embedding.batching import fill, total
from providers.embedding.limits import Size
from providers.interface import InputLimits


class Job:
    """`limits` is asked anew for every request, since a host's refusals change it meanwhile."""

    def __init__(
        self, sizes: Sequence[Size], positions: Sequence[int], limits: Callable[[], InputLimits]
    ) -> None:
        self._sizes = sizes
        self._limits = limits
        self._waiting = deque(positions)
        self._split: deque[list[int]] = deque()
        self._token_cap: int | None = None

    def take(self) -> list[int] | None:
        """Positions of the next request in order, or None if nothing waits."""
        if self._split:
            return self._split.popleft()
        if not self._waiting:
            return None
        count = fill((self._sizes[at] for at in self._waiting), self._current_limits())
        return [self._waiting.popleft() for _ in range(count)]

    def size(self, positions: Sequence[int]) -> Size:
        return total(self._sizes[at] for at in positions)

    def put_back(self, positions: Sequence[int]) -> None:
        """To be taken again, in whatever sizes the limits allow by then."""
        self._waiting.extendleft(reversed(positions))

    def split(self, positions: Sequence[int]) -> None:
        """To be taken next, as two halves: one of the texts spoils the request."""
        half = len(positions) // 2
        self._split.extendleft([list(positions[half:]), list(positions[:half])])

    def shrink(self, positions: Sequence[int]) -> None:
        """To be taken again in requests of half the size, for the rest of this run."""
        self._token_cap = max(1, self.size(positions).tokens // 2)
        self.put_back(positions)

    def _current_limits(self) -> InputLimits:
        limits = self._limits()
        if self._token_cap is None:
            return limits
        capped = min(self._token_cap, limits.max_request_tokens)
        return msgspec.structs.replace(limits, max_request_tokens=capped)
