"""What a chunk repeats of the text before it, so that a thought cut in two is whole in one of them.

Owns the choice of where the repeated text begins: at a block, else a line, else a sentence.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from backends.chunking.headings import Heading
from backends.chunking.places import Places
from backends.chunking.room import Room
from backends.chunking.spans import sentence_starts
from backends.chunking.tokens import suffix_start


class Overlap:
    """Finds beginnings of repeated text in one document."""

    def __init__(self, text: str, places: Places, headings: Sequence[Heading], room: Room) -> None:
        self._text = text
        self._places = places.offsets
        self._headings = [heading.offset for heading in headings]
        self._room = room

    def start(self, cut: int, previous: int, weight: int) -> int:
        """Where the chunk begins whose own text, of this weight, begins at `cut`.

        `previous` is the cut before; the answer lies behind it. A chunk that begins with a heading
        repeats nothing, and no chunk repeats text from before the heading it stands under.
        """
        most = min(self._room.overlap, self._room.limit - weight)
        if most <= 0:
            return cut
        heading = bisect_left(self._headings, cut)
        if heading < len(self._headings) and self._headings[heading] == cut:
            return cut
        lowest = suffix_start(self._text, previous + 1, cut, most)
        if heading and self._headings[heading - 1] >= lowest:
            return self._headings[heading - 1]
        place = self._places[bisect_left(self._places, lowest)]
        if place < cut:
            return place
        return self._inside(lowest, cut)

    def _inside(self, lowest: int, cut: int) -> int:
        """The first line, else the first sentence, that begins in `text[lowest:cut]`."""
        line = self._text.find("\n", lowest - 1, cut) + 1
        if line and not self._text[line:cut].isspace() and line < cut:
            return line
        return next(sentence_starts(self._text, lowest, cut), cut)
