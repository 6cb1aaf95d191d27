"""The flush's record in the agent's `sessions.json`, beside what the chat gateway keeps there.

Owns two fields of a session's entry, `memoryFlushAt` (Unix time, ms) and `memoryFlushCompactionCount`;
every other byte of the file stays as it is, numbers included that Python could not write again. Writes under the chat gateway's own lock and
replaces the file atomically. Where there is none, it is not for us to make one (OpenClaw 2026.9 would import
it as its own): a file of ours holds the record. Blocking: for worker threads.
"""

from __future__ import annotations

import errno
import json
import math
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from backends.errors import FileUnreadableError, FileUnwritableError
from config.disk.making import make_directories
from config.disk.reading import read_file
from config.disk.replacing import replace_file
from gateway.flush.deciding import SessionState
from gateway.flush.lockfile import LockTimeoutError, lock_file

_LOCK_TIMEOUT_S: Final = 5.0
_MODE: Final = 0o600
_MAX_BYTES: Final = 64 * 1024 * 1024
"""Of the file: a record of every session that there ever was is far smaller."""
_SESSION_ID: Final = re.compile(r"[\w-]{1,200}")
_BLANK: Final = re.compile(r"[ \t\n\r]*")
_BYTE_ORDER_MARK: Final = "\ufeff"


class SessionStore:
    """`sessions.json` of one agent, or `own` as long as there is none."""

    def __init__(self, sessions_dir: Path, own: Path) -> None:
        self.shared = sessions_dir / "sessions.json"
        self._own = own

    @property
    def _path(self) -> Path:
        return self.shared if self.shared.exists() else self._own

    def state(self, session_key: str) -> SessionState:
        """Raises FileUnreadableError for a file that cannot be read or is not as expected."""
        entries = self._read()
        entry = entries.get(_name_of(session_key, entries), {})
        return SessionState(
            total_tokens=_number(entry, "totalTokens"),
            context_tokens=_number(entry, "contextTokens"),
            compaction_count=_number(entry, "compactionCount") or 0,
            flushed_at_count=_number(entry, "memoryFlushCompactionCount"),
            transcript_bytes=self._transcript_bytes(entry.get("sessionId")),
        )

    def record_flush(
        self,
        session_key: str,
        compaction_count: int | None,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> int:
        """Notes that the flush of a compaction cycle is done; None: the cycle of the entry.

        Returns the cycle. `is_wanted` is asked before anything changes. Raises FileUnreadableError,
        FileUnwritableError; nothing is changed then.
        """
        chosen = self._path
        lock = chosen.with_name(f"{chosen.name}.lock")
        try:
            make_directories(chosen.parent)
            path = chosen.resolve()
            lock = path.with_name(f"{path.name}.lock")
            with lock_file(lock, timeout_s=_LOCK_TIMEOUT_S):
                # Whoever imports the file may have taken it away since.
                path = self._path.resolve()
                return self._record(path, session_key, compaction_count, is_wanted)
        except LockTimeoutError:
            raise FileUnwritableError(
                f"{chosen} stayed locked for {_LOCK_TIMEOUT_S:g} s.",
                remedy=f"If no chat gateway runs, remove {lock.name} beside it.",
            ) from None
        except OSError as error:
            raise FileUnwritableError(
                f"{chosen} cannot be written: {error.strerror}.",
                remedy="Give the user who runs the gateway permission to write it.",
            ) from None

    def _transcript_bytes(self, session_id: object) -> int | None:
        if not isinstance(session_id, str) or not _SESSION_ID.fullmatch(session_id):
            return None
        try:
            return (self.shared.parent / f"{session_id}.jsonl").lstat().st_size
        except OSError:
            return None

    def _record(
        self,
        path: Path,
        session_key: str,
        compaction_count: int | None,
        is_wanted: Callable[[], bool],
    ) -> int:
        text = self._text()
        entries = self._entries(text)
        name = _name_of(session_key, entries)
        entry = entries.get(name, {})
        count = compaction_count
        if count is None:
            count = _number(entry, "compactionCount") or 0
        noted = {
            "memoryFlushCompactionCount": count,
            "memoryFlushAt": int(time.time() * 1000),
        }
        if name in entries:
            for member, number in noted.items():
                text = _with_member(text, _members(text, 0)[name].start, member, str(number))
        else:
            text = _with_member(text, 0, name, json.dumps(noted))
        mode = path.stat().st_mode & 0o777 if path.exists() else _MODE
        if not is_wanted():
            raise TimeoutError(errno.ETIMEDOUT, "nobody waits for it any more")
        replace_file(path, text.encode("utf-8", "surrogatepass"), mode=mode)
        return count

    def _read(self) -> dict[str, dict[str, Any]]:
        return self._entries(self._text())

    def _text(self) -> str:
        """Without a byte order mark and what surrounds the object: nobody misses those."""
        try:
            data = read_file(self._path, _MAX_BYTES)
            if len(data) > _MAX_BYTES:
                raise self._unreadable(f"it is larger than {_MAX_BYTES >> 20} MiB")
            text = data.decode("utf-8", "surrogatepass")
        except FileNotFoundError:
            text = ""
        except OSError as error:
            raise self._unreadable(error.strerror or "unknown error") from None
        except ValueError as error:
            raise self._unreadable(f"it is not JSON ({error})") from None
        return f"{text.removeprefix(_BYTE_ORDER_MARK).strip() or '{}'}\n"

    def _entries(self, text: str) -> dict[str, dict[str, Any]]:
        try:
            entries = json.loads(text, parse_int=_whole)
        except (ValueError, RecursionError) as error:
            raise self._unreadable(f"it is not JSON ({error})") from None
        if not isinstance(entries, dict) or not all(
            isinstance(entry, dict) for entry in entries.values()
        ):
            raise self._unreadable("it is not an object of objects")
        return entries

    def _unreadable(self, cause: str) -> FileUnreadableError:
        return FileUnreadableError(
            f"{self._path} cannot be used: {cause}.",
            remedy="The chat gateway writes this file; fix it or move it away.",
        )


def _name_of(session_key: str, entries: dict[str, Any]) -> str:
    """The entry's own spelling of a key, which is compared without case."""
    key = session_key.strip()
    if key in entries:
        return key
    return next((name for name in entries if name.lower() == key.lower()), key.lower())


class _Span(NamedTuple):
    start: int
    end: int


_as_written = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)


def _members(text: str, start: int) -> Mapping[str, _Span]:
    """Where the values of the object at `start` stand in this JSON; of equal names the last one counts."""
    members: dict[str, _Span] = {}
    at = _behind_blank(text, start + 1)
    while text[at] == '"':
        name, at = _as_written.raw_decode(text, at)
        value = _behind_blank(text, _behind_blank(text, at) + 1)
        _, end = _as_written.raw_decode(text, value)
        members[name] = _Span(value, end)
        at = _behind_blank(text, end)
        at = _behind_blank(text, at + 1) if text[at] == "," else at
    return members


def _with_member(text: str, start: int, name: str, value: str) -> str:
    """The JSON with this member in the object at `start`, laid out as its first member is."""
    members = _members(text, start)
    if name in members:
        return text[: members[name].start] + value + text[members[name].end :]
    first = _behind_blank(text, start + 1)
    blank = text[start + 1 : first] if members else ""
    comma = "," if members else ""
    return f"{text[: start + 1]}{blank}{json.dumps(name)}: {value}{comma}{text[start + 1 :]}"


def _behind_blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    assert found is not None
    return found.end()


def _whole(digits: str) -> float:
    """A number that Python would refuse to read is not one that anybody counts with."""
    return int(digits) if len(digits) < 400 else math.inf


def _number(entry: dict[str, Any], name: str) -> int | None:
    value = entry.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value < float("inf") else None
