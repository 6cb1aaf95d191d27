"""Notes which parts of memory conversations were shown, and whether recalled notes were of use.

`Shown` has what each conversation has read since its last compaction, in bounded memory. Lines are compared by their
words, whatever their file or place: a line that moved is not new, and one that was changed is. `UseRecord` counts how
often each note was recalled, and then read or found by a search in the same conversation. It is kept in the index, with
other facts that the notes do not contain, and never in Markdown: `keep_record` reads and writes it while the memory is
open.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
import msgspec

from backends.chunking import weigh
from backends.interface import Hit, IndexUnavailableError
from config.runtime.decoding import prepared
from config.runtime.logs import Log
from config.runtime.tasks import BoundedWork
from gateway.scope import MAX_SESSIONS
from gateway.session_start import LoadedFile

if TYPE_CHECKING:
    from backends.builtin.store.port import Store


MOST_LINES: Final = 50_000
"""The most lines of all conversations together, some 5 MB. The least recently active ones are forgotten first."""
MOST_LINES_EACH: Final = 20_000
_SHORTEST: Final = 8
"""The weight of the letters and digits of a line that says something by itself."""
_MARKUP: Final = r"^[\s>*+-]*(?:\[[ xX]\]\s*)?(?:\d+[.)]\s+)?|[\W_]+"


def line_key(line: str) -> int | None:
    """Returns a key, the same for equal lines; None for one that says nothing by itself, such as a heading."""
    stripped = line.strip()
    if stripped.startswith("#"):
        return None
    words = re.sub(_MARKUP, "", stripped).casefold()
    return hash(words) if weigh(words) >= _SHORTEST else None


class _Seen:
    """The lines that one conversation has seen."""

    def __init__(self) -> None:
        self.lines: dict[int, None] = {}
        self.recalled: set[str] = set()
        """Notes that it was shown unasked, and has since neither read nor found by a search."""


class Shown:
    """Belongs to one event loop. Conversations are named by session keys or by `Session.conversation`."""

    def __init__(self, on_used: Callable[[str], None] = lambda _path: None) -> None:
        """`on_used` takes each note that was recalled and then read, or found by a search, in the conversation."""
        self._seen: dict[str, _Seen] = {}
        """The most recently active conversation is last."""
        self._count = 0
        self._programs: dict[str, str] = {}
        """The present conversation of each program."""
        self._on_used = on_used

    def bind(self, conversation: str, programs: Iterable[str]) -> None:
        """Notes that this conversation sees what these programs are shown, and were shown before they had any."""
        for name in map(_name, programs):
            if self._programs.get(name) == _name(conversation):
                continue
            before = self._seen.pop(name, None) if name not in self._programs else None
            self._programs.pop(name, None)
            self._programs[name] = _name(conversation)
            if before is not None:
                self._count -= len(before.lines)
                seen = self._keep(_name(conversation), before.lines)
                seen.recalled |= before.recalled
        while len(self._programs) > MAX_SESSIONS:
            del self._programs[next(iter(self._programs))]

    def began(self, conversation: str, files: Iterable[LoadedFile]) -> None:
        """Notes that a conversation begins with these files."""
        self.forget(conversation)
        for file in files:
            self._add(conversation, file.text)

    def searched(self, conversation: str, hits: Sequence[Hit]) -> None:
        for hit in hits:
            self._add(conversation, hit.snippet)
        self._use(conversation, {hit.path for hit in hits})

    def read(self, conversation: str, path: str, text: str) -> None:
        self._add(conversation, text)
        self._use(conversation, {path})

    def recalled(self, conversation: str, path: str, text: str) -> None:
        """Notes that a conversation was shown this unasked."""
        self._add(conversation, text).recalled.add(path)

    def knows(self, conversation: str) -> bool:
        """Returns whether the conversation was shown anything."""
        return self._resolved(conversation) in self._seen

    def has(self, conversation: str, line: str) -> bool:
        """Returns whether the conversation has read such a line."""
        key = line_key(line)
        seen = self._seen.get(self._resolved(conversation))
        return key is not None and seen is not None and key in seen.lines

    def forget(self, conversation: str) -> None:
        """Forgets what a conversation has read, as it begins anew or was compacted."""
        seen = self._seen.pop(self._resolved(conversation), None)
        self._count -= len(seen.lines) if seen else 0

    def _add(self, conversation: str, text: str) -> _Seen:
        keys = (line_key(line) for line in text.split("\n"))
        return self._keep(self._resolved(conversation), (one for one in keys if one is not None))

    def _keep(self, name: str, keys: Iterable[int]) -> _Seen:
        seen = self._seen.pop(name, None) or _Seen()
        self._count -= len(seen.lines)
        seen.lines.update(dict.fromkeys(keys))
        while len(seen.lines) > MOST_LINES_EACH:
            del seen.lines[next(iter(seen.lines))]
        self._seen[name] = seen
        self._count += len(seen.lines)
        while self._count > MOST_LINES or len(self._seen) > MAX_SESSIONS:
            oldest = self._seen.pop(next(iter(self._seen)))
            self._count -= len(oldest.lines)
        return seen

    def _use(self, conversation: str, paths: set[str]) -> None:
        seen = self._seen.get(self._resolved(conversation))
        if seen is None:
            return
        for path in sorted(paths & seen.recalled):
            seen.recalled.discard(path)
            self._on_used(path)

    def _resolved(self, conversation: str) -> str:
        name = _name(conversation)
        return self._programs.get(name, name)


def _name(conversation: str) -> str:
    return conversation.strip().lower()


_log = Log()

# --- Was it of use? ---

RECORD_KEY: Final = "recalled"
"""The key under which the index keeps the record."""
MOST_NOTES: Final = 2_000
"""The most notes of the record: those recalled last."""
_EVERY_S: Final = 10.0
_PATIENCE_S: Final = 5.0
_LAST_S: Final = 0.5
"""The most time that the end of the process waits for the record to be written."""


class NoteUse(msgspec.Struct, frozen=True, gc=False):
    """One note: how often it was recalled unasked, and how often it was then looked at."""

    path: str
    recalled: int
    used: int


class UseRecord:
    """Counts the uses of recalled notes. Belongs to one event loop."""

    def __init__(self) -> None:
        self._notes: dict[str, tuple[int, int]] = {}
        """Counts by path; the note recalled last is at the end."""
        self.is_new = False
        """True if there is something to write."""

    def recalled(self, path: str) -> None:
        recalled, used = self._notes.pop(path, (0, 0))
        self._put(path, recalled + 1, used)

    def used(self, path: str) -> None:
        if path in self._notes:
            recalled, used = self._notes[path]
            self._notes[path] = (recalled, used + 1)
            self.is_new = True

    def add(self, text: str | None) -> None:
        """Adds what was written before; a text that cannot be read counts as empty."""
        try:
            before = msgspec.json.decode(text or "[]", type=prepared(list[NoteUse]))
        except msgspec.DecodeError:
            return
        since, self._notes = self._notes, {one.path: (one.recalled, one.used) for one in before}
        for path, (recalled, used) in since.items():
            earlier = self._notes.pop(path, (0, 0))
            self._put(path, recalled + earlier[0], used + earlier[1])
        self.is_new = bool(since)

    def write(self) -> str:
        """Returns the record as a text for `add`; it is then no longer new."""
        self.is_new = False
        return msgspec.json.encode(self.notes()).decode()

    def notes(self) -> list[NoteUse]:
        """Returns all notes, the one recalled last at the end."""
        return [NoteUse(path, *counts) for path, counts in self._notes.items()]

    def most(self, count: int) -> tuple[NoteUse, ...]:
        """Returns the notes recalled most, in this order; equal ones by path."""
        return tuple(sorted(self.notes(), key=lambda one: (-one.recalled, one.path))[:count])

    def totals(self) -> tuple[int, int]:
        """Returns how often any note was recalled, and how often it was of use."""
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
    """Writes the record now and then until cancelled, and then once more. What fails now is written later."""
    work = BoundedWork("record of what was recalled")
    is_known = await _read_former(work, store, record)
    try:
        while True:
            await anyio.sleep(_EVERY_S)
            is_known = is_known or await _read_former(work, store, record)
            if is_known:  # else what was written before would be lost
                await _write(work, store, record, _PATIENCE_S)
    finally:
        if is_known:
            with anyio.CancelScope(shield=True):
                await _write(work, store, record, _LAST_S)


async def _write(work: BoundedWork, store: Store, record: UseRecord, patience_s: float) -> None:
    if not record.is_new:
        return
    text, is_written = record.write(), False
    try:
        await work.run(partial(_put, store, text), patience_s)
        is_written = True
    except (TimeoutError, IndexUnavailableError) as error:
        _log.debug("what was recalled is not written down yet", error=str(error))
    finally:
        if not is_written:
            record.is_new = True


async def _read_former(work: BoundedWork, store: Store, record: UseRecord) -> bool:
    """Adds the record of earlier processes; returns whether it could be read."""
    try:
        record.add(await work.run(partial(_read, store), _PATIENCE_S))
    except (TimeoutError, IndexUnavailableError) as error:
        _log.info("what was recalled before is not known yet", error=str(error))
        return False
    return True


def _read(store: Store) -> str | None:
    with store.view() as view:
        return view.remembered(RECORD_KEY)


def _put(store: Store, text: str) -> None:
    with store.writer(_PATIENCE_S) as writer:
        writer.remember(RECORD_KEY, text)
