"""From where a transcript is to be read on, and what its next stretch says.

Owns the recognition of a file that was rewritten instead of appended to. Reads the open file; writes
nothing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from backends.builtin.sessions.state import START, Checkpoint, IndexedTranscript
from backends.transcripts.stretches import Stretch, digest_of, tail_of
from backends.transcripts.turns import render_turn


class Begin(NamedTuple):
    checkpoint: Checkpoint
    is_rewritten: bool = False
    """What was taken in beyond it is no longer in the file."""
    is_checked: bool = False
    """Everything before it was read again and compared."""


class Rendered(NamedTuple):
    """The turns of a stretch, one a line of the text."""

    text: str
    lines: tuple[int, ...]
    """Line in the file of each turn, counted from 1."""


def find_begin(
    descriptor: int,
    status: os.stat_result,
    known: IndexedTranscript,
    taken: Sequence[Checkpoint],
    *,
    restart: bool,
) -> Begin:
    """Where to go on. `taken` are the checkpoints in the index, `START` first. Raises OSError."""
    last = taken[-1]
    still_there = (
        status.st_size >= last.end_byte and tail_of(descriptor, last.end_byte) == last.tail
    )
    only_grew = still_there and status.st_ino == known.inode and status.st_size > known.size
    if restart:
        return Begin(START, is_rewritten=not still_there)
    if only_grew:
        return Begin(last)
    good = _last_good(descriptor, status.st_size, taken)
    return Begin(good, is_rewritten=good != last, is_checked=True)


def render(stretch: Stretch, begin: Checkpoint) -> Rendered:
    turns = [
        (number, turn)
        for number, line in enumerate(stretch.lines, begin.end_line + 1)
        if line is not None and (turn := render_turn(line)) is not None
    ]
    text = "".join(f"{turn}\n" for _, turn in turns)
    return Rendered(text, tuple(number for number, _ in turns))


def _last_good(descriptor: int, size: int, taken: Sequence[Checkpoint]) -> Checkpoint:
    """The last checkpoint up to which the file still holds what was taken in."""
    good = taken[0]
    for before, after in pairwise(taken):
        if after.end_byte > size:
            break
        if digest_of(descriptor, before.end_byte, after.end_byte) != after.digest:
            break
        good = after
    return good
