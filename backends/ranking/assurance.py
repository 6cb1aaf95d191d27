"""What keywords alone would show first, as a bound on the harm that a poor vector model can do.

Owns the promise of hybrid search: the first `ASSURED` passages of keywords alone are among the first
`WITHIN` results. Vectors do not tell how well their model knows a language or a subject, so the promise
does not depend on trusting it. As long as it is kept, the order is that of the fusion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import Final, NamedTuple

from backends.ranking.passages import File, Offer, Window, best_windows
from backends.ranking.units import FileKey

ASSURED: Final = 3
WITHIN: Final = 6
"""The default number of results."""
ENOUGH: Final = 0.5
"""Of a passage's odds: when so much of it stands in other results, its point was made."""


class _Assured(NamedTuple):
    """A passage as keywords alone would show it."""

    file: File
    """As the fusion knows it: it says what was shown."""
    window: Window
    """In the same file as keywords alone know it."""

    def is_shown(self) -> bool:
        """Whether enough of it is."""
        odds = self.window.file.odds
        missing = sum(odds[at] for stretch in self._missing() for at in stretch)
        return missing <= (1 - ENOUGH) * sum(odds[self.window.first : self.window.last])

    def rest(self) -> Window:
        """The best stretch of what was not shown."""
        odds = self.window.file.odds
        best = max(self._missing(), key=lambda stretch: sum(odds[at] for at in stretch))
        return self.window._replace(file=self.file, first=best[0], last=best[-1] + 1)

    def _missing(self) -> Iterator[Sequence[int]]:
        """Runs of its units that were not shown."""
        units = range(self.window.first, self.window.last)
        for is_taken, stretch in groupby(units, lambda at: self.file.is_taken(at, at + 1)):
            if not is_taken:
                yield list(stretch)


class Assurance:
    """The promise for one query."""

    def __init__(
        self, files: Mapping[FileKey, Offer] | None = None, by_words: Sequence[Offer] = ()
    ) -> None:
        """`by_words`: the same files with the odds that keywords alone give. Of none, nothing is due."""
        offers = files or {}
        self._assured = [
            _Assured(offers[window.file.file_id, window.file.path].file, window)
            for window in islice(best_windows(by_words), ASSURED)
        ]

    def due(self, place: int) -> Window | None:
        """What has to come at this place of the results, counted from 1; it is taken."""
        missing = [one for one in self._assured if not one.is_shown()]
        if not 0 <= WITHIN - place < len(missing):
            return None
        window = missing[0].rest()
        window.file.take(*window.characters())
        return window
