"""The places at which a document may be cut, collected in ascending order.

Owns how strong a place is: first its rank (how much structure a cut there leaves whole), then a hash
of how the text goes on there and of nothing else, so that edits around it cannot change it.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

GRAPHEME_RANK: Final = 0
WORD_RANK: Final = 1
SENTENCE_RANK: Final = 2
FENCED_RANK: Final = 3
LINE_RANK: Final = 4
DEEPEST_ITEM_RANK: Final = 5
ITEM_RANK: Final = 13
BLOCK_RANK: Final = 14
DEEPEST_HEADING_RANK: Final = 15

_HASH_BITS: Final = 32
HASHED: Final = 32
"""Characters; a line that is only continued or changed farther on keeps its strength."""


class Places:
    """Three parallel lists, ascending from offset 0.

    When all are known, `offsets` and `weights` have the end of the text as one entry more.
    """

    __slots__ = ("offsets", "strengths", "weights")

    def __init__(self) -> None:
        self.offsets = [0]
        self.weights = [0]
        """Weight of the text before each place."""
        self.strengths = [0]
        """Compare as plain numbers."""

    def add(self, offset: int, weight: int, rank: int, following: str) -> None:
        """Append a place; `following` is text that begins there, on the same line."""
        beginning = following.lstrip()[:HASHED]
        strength = rank << _HASH_BITS | crc32(beginning.encode("utf-8", "surrogatepass"))
        if offset == 0:
            self.strengths[0] = strength
            return
        self.offsets.append(offset)
        self.weights.append(weight)
        self.strengths.append(strength)

    def rank(self, index: int) -> int:
        return self.strengths[index] >> _HASH_BITS

    def end(self, offset: int, weight: int) -> None:
        """The text is this long and this heavy; nothing is added any more."""
        self.offsets.append(offset)
        self.weights.append(weight)

    def keep_first(self, count: int) -> None:
        """Forget all places but the first `count`."""
        if len(self.offsets) > count:
            del self.offsets[count:], self.weights[count:], self.strengths[count:]

    def raise_last(self, rank: int) -> None:
        """Give the last place another rank."""
        self.strengths[-1] = rank << _HASH_BITS | self.strengths[-1] & (1 << _HASH_BITS) - 1
