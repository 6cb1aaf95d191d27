"""How long a soak lasts, and what is done next: rounds of shuffled cards until the time or the count is up."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

import anyio

Card = TypeVar("Card")


@dataclass(frozen=True)
class Pace:
    """By the clock, or, for a run that has to do the same on any machine, by a count of rounds."""

    seconds: float | None = None
    rounds: int | None = None
    pause_s: float = 0.0
    """Between two rounds of one actor."""

    async def __call__(self) -> AsyncIterator[int]:
        """The numbers of the rounds, from 1, until the soak is over."""
        ends = None if self.seconds is None else time.monotonic() + self.seconds
        number = 0
        while (self.rounds is None or number < self.rounds) and (
            ends is None or time.monotonic() < ends
        ):
            number += 1
            yield number
            await anyio.sleep(self.pause_s)


def deal(cards: Sequence[Card], rng: Random) -> Iterator[Card]:
    """All cards in a random order, again and again: none is left out for long."""
    while True:
        yield from rng.sample(cards, len(cards))
