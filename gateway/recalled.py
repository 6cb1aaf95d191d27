"""Was it of use? How often each note was recalled, and then read or found by a search in the same conversation. Pure.

Kept in the index, beside what else the notes do not tell; never in Markdown.
"""

from __future__ import annotations

from typing import Final

import msgspec

RECORD_KEY: Final = "recalled"
"""Under which the index remembers it."""
MOST_NOTES: Final = 2_000
"""Those recalled last; a line of the record each."""


class NoteUse(msgspec.Struct, frozen=True, gc=False):
    """One note: how often it was told unasked, and how often that was followed by a look at it."""

    path: str
    recalled: int
    used: int


class UseRecord:
    """Belongs to one event loop."""

    def __init__(self) -> None:
        self._notes: dict[str, tuple[int, int]] = {}
        """Those recalled last at the end."""
        self.is_new = False
        """Whether there is something to write down."""

    def recalled(self, path: str) -> None:
        recalled, used = self._notes.pop(path, (0, 0))
        self._put(path, recalled + 1, used)

    def used(self, path: str) -> None:
        if path in self._notes:
            recalled, used = self._notes[path]
            self._notes[path] = (recalled, used + 1)
            self.is_new = True

    def add(self, text: str | None) -> None:
        """What was written down before; what cannot be read counts as nothing."""
        try:
            before = msgspec.json.decode(text or "[]", type=list[NoteUse])
        except msgspec.DecodeError:
            return
        since, self._notes = self._notes, {}
        for note in before:
            self._notes[note.path] = (note.recalled, note.used)
        for path, (recalled, used) in since.items():
            earlier = self._notes.pop(path, (0, 0))
            self._put(path, recalled + earlier[0], used + earlier[1])
        self.is_new = bool(since)

    def write(self) -> str:
        """For `add`; it is then no longer new."""
        self.is_new = False
        return msgspec.json.encode(self.notes()).decode()

    def notes(self) -> list[NoteUse]:
        """Those recalled last come last."""
        return [NoteUse(path, *counts) for path, counts in self._notes.items()]

    def most(self, count: int) -> tuple[NoteUse, ...]:
        """Those recalled most come first; equal ones by path."""
        return tuple(sorted(self.notes(), key=lambda one: (-one.recalled, one.path))[:count])

    def totals(self) -> tuple[int, int]:
        """How often anything was recalled, and of use."""
        return (
            sum(recalled for recalled, _ in self._notes.values()),
            sum(used for _, used in self._notes.values()),
        )

    def _put(self, path: str, recalled: int, used: int) -> None:
        self._notes[path] = (recalled, used)
        self.is_new = True
        while len(self._notes) > MOST_NOTES:
            del self._notes[next(iter(self._notes))]
