"""The flush's record in the agent's `sessions.json`, beside what the chat gateway keeps there.

Owns two fields of a session's entry, `memoryFlushAt` (Unix time, ms) and `memoryFlushCompactionCount`;
everything else in the file is read but never changed. Writes under the chat gateway's own lock and
replaces the file atomically. Where there is none, it is not for us to make one (OpenClaw 2026.9 would import
it as its own): a file of ours holds the record. Blocking: for worker threads.
"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any, Final

from backends.errors import FileUnreadableError, FileUnwritableError
from config.disk.making import make_directories
from config.disk.replacing import replace_file
from gateway.flush.deciding import SessionState
from gateway.flush.lockfile import LockTimeoutError, lock_file

_LOCK_TIMEOUT_S: Final = 5.0
_MODE: Final = 0o600
_SESSION_ID: Final = re.compile(r"[\w-]{1,200}")


class SessionStore:
    """`sessions.json` of one agent, or `own` as long as there is none."""

    def __init__(self, sessions_dir: Path, own: Path) -> None:
        self._shared = sessions_dir / "sessions.json"
        self._own = own

    @property
    def _path(self) -> Path:
        return self._shared if self._shared.exists() else self._own

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

    def record_flush(self, session_key: str, compaction_count: int | None) -> int:
        """Notes that the flush of a compaction cycle is done; None: the cycle of the entry.

        Returns the cycle. Raises FileUnreadableError, FileUnwritableError; nothing is changed then.
        """
        chosen = self._path
        make_directories(chosen.parent)
        path = chosen.resolve()
        lock = path.with_name(f"{path.name}.lock")
        try:
            with lock_file(lock, timeout_s=_LOCK_TIMEOUT_S):
                # Whoever imports the file may have taken it away since.
                return self._record(self._path.resolve(), session_key, compaction_count)
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
            return (self._shared.parent / f"{session_id}.jsonl").lstat().st_size
        except OSError:
            return None

    def _record(self, path: Path, session_key: str, compaction_count: int | None) -> int:
        entries = self._read()
        entry = entries.setdefault(_name_of(session_key, entries), {})
        count = compaction_count
        if count is None:
            count = _number(entry, "compactionCount") or 0
        entry["memoryFlushAt"] = int(time.time() * 1000)
        entry["memoryFlushCompactionCount"] = count
        mode = path.stat().st_mode & 0o777 if path.exists() else _MODE
        replace_file(path, f"{json.dumps(entries, indent=2)}\n".encode(), mode=mode)
        return count

    def _read(self) -> dict[str, dict[str, Any]]:
        try:
            entries = json.loads(self._path.read_bytes() or b"{}")
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._unreadable(error.strerror or "unknown error") from None
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


def _number(entry: dict[str, Any], name: str) -> int | None:
    value = entry.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value < float("inf") else None
