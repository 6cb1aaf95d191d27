"""From where a transcript is to be read on, and what its next entries say.

Owns the recognition of a transcript that was rewritten instead of appended to. Writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from backends.builtin.sessions.state import START, Checkpoint, IndexedTranscript
from backends.transcripts.source import Entries, OpenTranscript


class Begin(NamedTuple):
    checkpoint: Checkpoint
    is_rewritten: bool = False
    """What was taken in beyond it is no longer in the transcript."""
    is_checked: bool = False
    """Everything before it was read again and compared."""


class Rendered(NamedTuple):
    """The turns of some entries, one a line of the text."""

    text: str
    numbers: tuple[int, ...]
    """Of the entry that each turn is."""


def find_begin(
    transcript: OpenTranscript,
    known: IndexedTranscript,
    taken: Sequence[Checkpoint],
    *,
    restart: bool,
) -> Begin:
    """Where to go on. `taken` are the checkpoints in the index, `START` first. Raises OSError."""
    found, last = transcript.found, taken[-1]
    still_there = found.size >= last.end_byte and transcript.tail(last.place) == last.tail
    only_grew = still_there and found.inode == known.inode and found.size > known.size
    if restart:
        return Begin(START, is_rewritten=not still_there)
    if only_grew:
        return Begin(last)
    good = _last_good(transcript, taken)
    return Begin(good, is_rewritten=good != last, is_checked=True)


def render(entries: Entries, turn_of: Callable[[bytes], str | None]) -> Rendered:
    turns = [
        (number, turn)
        for number, line in zip(entries.numbers, entries.lines, strict=True)
        if line is not None and (turn := turn_of(line)) is not None
    ]
    text = "".join(f"{turn}\n" for _, turn in turns)
    return Rendered(text, tuple(number for number, _ in turns))


def _last_good(transcript: OpenTranscript, taken: Sequence[Checkpoint]) -> Checkpoint:
    """The last checkpoint up to which the transcript still holds what was taken in."""
    good = taken[0]
    for before, after in pairwise(taken):
        if after.end_byte > transcript.found.size:
            break
        if transcript.digest(before.place, after.place) != after.digest:
            break
        good = after
    return good
