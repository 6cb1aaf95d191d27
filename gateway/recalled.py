"""Was it of use? How often each note was recalled, and then read or found by a search in the same conversation.

Kept in the index, beside what else the notes do not tell; never in Markdown. `UseRecord` is pure; `keep_record` reads
and writes it while the memory is open.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
import msgspec

from backends.backend_errors import IndexUnavailableError
from config.runtime.logs import Log
from config.runtime.tasks import BoundedWork

if TYPE_CHECKING:
    from backends.builtin.store.port import Store

_log = Log()

RECORD_KEY: Final = "recalled"
"""Under which the index remembers it."""
MOST_NOTES: Final = 2_000
"""Those recalled last; a line of the record each."""


_EVERY_S: Final = 10.0
_PATIENCE_S: Final = 5.0
_LAST_S: Final = 0.5
"""What the end of the process waits for it."""


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


async def keep_record(store: Store, record: UseRecord) -> None:
    """Until cancelled; then once more. What cannot be written now is written later."""
    work = BoundedWork("record of what was recalled")
    await _read_former(work, store, record)
    try:
        while True:
            await anyio.sleep(_EVERY_S)
            await _write(work, store, record, _PATIENCE_S)
    finally:
        with anyio.CancelScope(shield=True):
            await _write(work, store, record, _LAST_S)


async def _write(work: BoundedWork, store: Store, record: UseRecord, patience_s: float) -> None:
    if not record.is_new:
        return
    text = record.write()
    try:
        await work.run(partial(_put, store, text), patience_s)
    except (TimeoutError, IndexUnavailableError) as error:
        record.is_new = True
        _log.debug("what was recalled is not written down yet", error=str(error))


async def _read_former(work: BoundedWork, store: Store, record: UseRecord) -> None:
    try:
        record.add(await work.run(partial(_read, store), _PATIENCE_S))
    except (TimeoutError, IndexUnavailableError) as error:
        _log.warning("what was recalled before is not known", error=str(error))


def _read(store: Store) -> str | None:
    with store.view() as view:
        return view.remembered(RECORD_KEY)


def _put(store: Store, text: str) -> None:
    with store.writer(_PATIENCE_S) as writer:
        writer.remember(RECORD_KEY, text)
