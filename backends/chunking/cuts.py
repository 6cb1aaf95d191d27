"""Which places become cuts: chosen by the text around each place, never by counting from the top.

Owns one rule, applied from the strongest place to the weakest: a place is a cut when it divides a
stretch too long for one chunk, and neither half becomes too small. So what decides about a place lies
within about a chunk of it, and an edit elsewhere leaves it alone. For the same reason the ends of
the text do not count: lines added there move no cut.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

from backends.chunking.places import Places
from backends.chunking.room import Room


def choose_cuts(places: Places, room: Room) -> list[int]:
    """Indices of the places where chunks begin, then the index of the end of the text.

    Where neighbouring places lie at most `room.limit` apart, so do neighbouring cuts.
    """
    weights, end = places.weights, len(places.strengths)
    if weights[end] <= room.limit:
        return [0, end]
    accepted = _Accepted(weights[end], room)
    strongest_first = sorted(range(end), key=places.strengths.__getitem__, reverse=True)
    strong = {place for place in strongest_first if accepted.add(weights[place])}
    cuts = _with_joined_ends(places, sorted(strong | {0, end}), room)
    starts = (
        start
        for first, last in pairwise(cuts)
        for start in (first, *_fitting_cuts(weights, first, last, room.limit))
    )
    return [*starts, end]


class _Accepted:
    """The weights at which cuts stand, in cells too narrow for two of them.

    Two lists hold the same cells, so that the nearest cut is a minimum or maximum of a few of them:
    an empty cell counts as far below in one list and as far above in the other.
    """

    def __init__(self, total: int, room: Room) -> None:
        self._least, self._limit = room.least, room.limit
        self._reach = room.limit // room.least + 1
        cells = total // room.least + 1 + 2 * self._reach
        self._below = [-room.limit - 1] * cells
        self._above = [total + room.limit + 1] * cells

    def add(self, weight: int) -> bool:
        """Accept a cut at this weight if the rule allows it."""
        least = self._least
        cell = weight // least + self._reach
        if self._below[cell] >= 0:
            return False
        before = max(self._below[cell - self._reach : cell])
        after = min(self._above[cell + 1 : cell + self._reach + 1])
        if weight - before < least or after - weight < least or after - before <= self._limit:
            return False
        self._below[cell] = self._above[cell] = weight
        return True


def _with_joined_ends(places: Places, cuts: list[int], room: Room) -> list[int]:
    """The cuts, less those that part a small or needless first or last chunk from its neighbour."""

    def is_needless(edge: int, cut: int, inner: int) -> bool:
        small = abs(places.weights[cut] - places.weights[edge]) < room.least
        fits = abs(places.weights[inner] - places.weights[edge]) <= room.limit
        return fits and (small or places.rank(cut) <= places.rank(inner))

    if len(cuts) > 3 and is_needless(cuts[0], cuts[1], cuts[2]):
        del cuts[1]
    if len(cuts) > 3 and is_needless(cuts[-1], cuts[-2], cuts[-3]):
        del cuts[-2]
    return cuts


def _fitting_cuts(weights: Sequence[int], first: int, last: int, limit: int) -> Iterator[int]:
    """Cuts in a stretch that large blocks keep too long: each piece takes as much as fits."""
    while weights[last] - weights[first] > limit:
        fitting = bisect_right(weights, weights[first] + limit, first + 1, last) - 1
        first = max(fitting, first + 1)
        if first == last:
            return
        yield first
