"""What each conversation has been shown of memory since its last compaction, in bounded memory.

Lines are compared by their words, whatever file or place they stand in: a line that moved is not new, and one that
was changed is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from backends.interface import Hit
from gateway.scope import MAX_SESSIONS
from gateway.session_start import LoadedFile

MOST_LINES: Final = 200_000
"""Of all conversations together; some 20 MB. Those that were heard of least recently are forgotten first."""
MOST_LINES_EACH: Final = 20_000
_SHORTEST: Final = 8
"""Letters and digits of a line that says something by itself."""
_MARKUP: Final = r"^[\s>*+-]*(?:\[[ xX]\]\s*)?(?:\d+[.)]\s+)?|[\W_]+"


def line_key(line: str) -> int | None:
    """Equal lines have equal keys; None for one that says nothing by itself, such as a heading."""
    stripped = line.strip()
    if stripped.startswith("#"):
        return None
    words = re.sub(_MARKUP, "", stripped).casefold()
    return hash(words) if len(words) >= _SHORTEST else None


class _Seen:
    """By one conversation."""

    def __init__(self) -> None:
        self.lines: dict[int, None] = {}
        self.recalled: set[str] = set()
        """Notes that it was told unasked, and has neither read nor searched for since."""


class Shown:
    """Belongs to one event loop. Conversations are named by session keys, or as `Session.conversation` does."""

    def __init__(self, on_used: Callable[[str], None] = lambda _path: None) -> None:
        """`on_used` is told of a note that was recalled and then read, or found by a search, in the conversation."""
        self._seen: dict[str, _Seen] = {}
        """Those heard of last at the end."""
        self._count = 0
        self._programs: dict[str, str] = {}
        """The conversation that a program holds at present."""
        self._on_used = on_used

    def held_by(self, conversation: str, programs: Iterable[str]) -> None:
        """What these programs are shown, this conversation sees; what they were shown before they held any, too."""
        for name in map(_name, programs):
            if self._programs.get(name) == _name(conversation):
                continue
            before = self._seen.pop(name, None) if name not in self._programs else None
            self._programs.pop(name, None)
            self._programs[name] = _name(conversation)
            if before is not None:
                self._count -= len(before.lines)
                self._keep(_name(conversation), before.lines)
        while len(self._programs) > MAX_SESSIONS:
            del self._programs[next(iter(self._programs))]

    def began(self, conversation: str, files: Iterable[LoadedFile]) -> None:
        """It begins with these files."""
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
        """It was told this unasked."""
        self._add(conversation, text).recalled.add(path)

    def knows(self, conversation: str) -> bool:
        """Whether it was shown anything."""
        return self._resolved(conversation) in self._seen

    def has(self, conversation: str, line: str) -> bool:
        """Whether it has read such a line."""
        key = line_key(line)
        seen = self._seen.get(self._resolved(conversation))
        return key is not None and seen is not None and key in seen.lines

    def forget(self, conversation: str) -> None:
        """It begins anew, or was compacted: what it had read is gone."""
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
        while self._count > MOST_LINES:
            self.forget(next(iter(self._seen)))
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
