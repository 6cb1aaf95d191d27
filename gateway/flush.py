"""The memory flush before compaction: whether it is due, what it says, and its record in `sessions.json`."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import date
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from backends.interface import FileUnreadableError, FileUnwritableError
from config.runtime.files import make_directories, read_file, replace_file
from config.settings import CompactionSettings, MemoryFlushSettings
from gateway.session_start import MEMORY_DIRECTORY

DEFAULT_CONTEXT_WINDOW: Final = 200_000
"""Tokens, as documented, where neither the caller nor the session gives a number."""

WorkspaceAccess = Literal["rw", "ro", "none"]
_POLL_S: Final = 0.02
_STALE_S: Final = 30.0
"""No process keeps the lock longer: it guards one read and one write of a small file."""
SILENT_REPLY: Final = "NO_REPLY"
"""The chat gateway does not show a reply of this one word."""
_PROMPT: Final = (
    f"This conversation is about to be compacted. Write what should outlast it into {{log}} now: "
    f"decisions, facts, preferences, open tasks. Create {{folder}} if it is missing, append "
    f"to the file if it exists, and never overwrite what stands there. If there is nothing to keep, "
    f"reply with {SILENT_REPLY}."
)
_SYSTEM_PROMPT: Final = (
    "Memory flush: the session is near compaction, and only what is written to files will be "
    f"remembered. The user does not see this turn; {SILENT_REPLY} is usually the right reply."
)
_HINT: Final = f"If there is nothing to say to the user, reply with {SILENT_REPLY}."
_PLACEHOLDER: Final = "YYYY-MM-DD"
LOCK_TIMEOUT_S: Final = 5.0
_MODE: Final = 0o600
_MAX_BYTES: Final = 64 * 1024 * 1024
"""The largest file that is read: a record of all sessions ever is far smaller."""
_SESSION_ID: Final = re.compile(r"[\w-]{1,200}")
_BLANK: Final = re.compile(r"[ \t\n\r]*")
_BYTE_ORDER_MARK: Final = "\ufeff"


class SessionState(NamedTuple):
    """The entry of one session in `sessions.json`; None where it does not say."""

    total_tokens: int | None = None
    context_tokens: int | None = None
    compaction_count: int = 0
    flushed_at_count: int | None = None
    """`memoryFlushCompactionCount`: the compaction cycle of the last flush."""
    transcript_bytes: int | None = None
    """The size of the session's file."""


class Situation(NamedTuple):
    """The caller's description of the next turn; a number that is None comes from the session's state."""

    total_tokens: int | None = None
    context_window: int | None = None
    compaction_count: int | None = None
    transcript_bytes: int | None = None
    workspace_access: WorkspaceAccess = "rw"
    is_heartbeat: bool = False


class Decision(NamedTuple):
    due: bool
    reason: str
    threshold: int
    """Tokens from which on a flush is due; 0: never."""
    total_tokens: int
    compaction_count: int


def decide(settings: CompactionSettings, situation: Situation, state: SessionState) -> Decision:
    window = situation.context_window or state.context_tokens or DEFAULT_CONTEXT_WINDOW
    reserved = settings.reserve_tokens_floor + settings.memory_flush.soft_threshold_tokens
    threshold = max(0, window - reserved)
    tokens = _first(situation.total_tokens, state.total_tokens)
    count = _first(situation.compaction_count, state.compaction_count)
    large = _why_large(settings, _first(situation.transcript_bytes, state.transcript_bytes))
    reason = (
        _why_never(settings, situation)
        or (None if large else _why_not_yet(tokens, threshold, reserved, window))
        or (f"compaction cycle {count} had its flush" if state.flushed_at_count == count else None)
    )
    in_use = f"{tokens} of {window} tokens are in use, the threshold is {threshold}"
    return Decision(
        due=reason is None,
        reason=reason or large or in_use,
        threshold=threshold,
        total_tokens=tokens,
        compaction_count=count,
    )


def _why_never(settings: CompactionSettings, situation: Situation) -> str | None:
    if not settings.memory_flush.enabled:
        return "agents.defaults.compaction.memoryFlush.enabled is false"
    if situation.workspace_access != "rw":
        return (
            f"the workspace cannot be written to (workspaceAccess is {situation.workspace_access})"
        )
    return "a heartbeat is no conversation" if situation.is_heartbeat else None


def _why_large(settings: CompactionSettings, size: int) -> str | None:
    """Returns which limit a transcript has reached. At the size that compacts it, no later turn could flush."""
    limits = {
        "memoryFlush.forceFlushTranscriptBytes": settings.memory_flush.force_flush_transcript_bytes,
        "maxActiveTranscriptBytes": settings.max_active_transcript_bytes,
    }
    reached = (f"{size} bytes of transcript reach {key} ({limit})" for key, limit in limits.items()
               if 0 < limit <= size)  # fmt: skip
    return next(reached, None)


def _why_not_yet(tokens: int, threshold: int, reserved: int, window: int) -> str | None:
    if not threshold:
        return f"reserveTokensFloor and softThresholdTokens ({reserved}) leave nothing of {window}"
    if not tokens:
        return "the tokens of the session are not known"
    return f"{tokens} tokens are below the threshold of {threshold}" if tokens < threshold else None


def _first(said: int | None, known: int | None) -> int:
    return said if said is not None else known or 0


class LockTimeoutError(Exception):
    """The lock stayed taken until the timeout."""


@contextmanager
def lock_file(path: Path, *, timeout_s: float) -> Iterator[None]:
    """Holds the lock while the body runs. Raises LockTimeoutError and OSError."""
    ends = time.monotonic() + timeout_s
    while not _take(path):
        _clear_stale(path)
        if time.monotonic() >= ends:
            raise LockTimeoutError(str(path))
        time.sleep(_POLL_S)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _take(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return False
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump({"pid": os.getpid(), "startedAt": int(time.time() * 1000)}, file)
    except OSError:  # a full disk: the lock is not taken
        path.unlink(missing_ok=True)
        raise
    return True


def _clear_stale(path: Path) -> None:
    """Removes a stale lock. Only its age counts: the process that made it may run in another container."""
    with suppress(FileNotFoundError):
        if time.time() - path.stat().st_mtime > _STALE_S:
            path.unlink()


class FlushPrompts(NamedTuple):
    prompt: str
    system_prompt: str


def flush_prompts(settings: MemoryFlushSettings, today: date, log: str) -> FlushPrompts:
    """Returns the prompts of a flush; `log` is the path of today's log.

    Configured texts may contain `YYYY-MM-DD` for today, and get the `NO_REPLY` rule if they lack it.
    """
    return FlushPrompts(
        prompt=_completed(settings.prompt or _prompt_for(log), today),
        system_prompt=_completed(settings.system_prompt or _SYSTEM_PROMPT, today),
    )


def flush_texts() -> dict[str, str]:
    """Returns the built-in texts with their placeholders, for a host that fills them in itself."""
    return {
        "prompt": _prompt_for(f"{MEMORY_DIRECTORY}/{_PLACEHOLDER}.md"),
        "systemPrompt": _SYSTEM_PROMPT,
        "hint": _HINT,
        "placeholder": _PLACEHOLDER,
        "silentReply": SILENT_REPLY,
    }


def _prompt_for(log: str) -> str:
    folder, slash, _ = log.rpartition("/")
    return _PROMPT.format(log=log, folder=folder + slash or "it")


def _completed(text: str, today: date) -> str:
    dated = text.strip().replace(_PLACEHOLDER, today.isoformat())
    return dated if SILENT_REPLY in dated else f"{dated}\n\n{_HINT}"


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
        entries = self._entries(self._text())
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
        """Notes that the flush of a compaction cycle is done; None stands for the cycle of the entry.

        Returns the cycle. `is_wanted` is asked before anything changes. Raises FileUnreadableError,
        FileUnwritableError; nothing is changed then.
        """
        chosen = self._path
        try:
            make_directories(chosen.parent)
            path = chosen.resolve()
            lock = path.with_name(f"{path.name}.lock")
            with lock_file(lock, timeout_s=LOCK_TIMEOUT_S):
                # A host that imports the file may have removed it since.
                path = self._path.resolve()
                return self._record(path, session_key, compaction_count, is_wanted)
        except LockTimeoutError:
            raise FileUnwritableError(
                f"{chosen} stayed locked for {LOCK_TIMEOUT_S:g} s.",
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
        count = _first(compaction_count, _number(entry, "compactionCount"))
        noted = {"memoryFlushCompactionCount": count, "memoryFlushAt": int(time.time() * 1000)}
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

    def _text(self) -> str:
        """Reads the file, without a byte order mark and the white space around the object."""
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

    def _entries(self, text: str) -> dict[str, dict[str, object]]:
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
    """Returns the entry's own spelling of a key; keys are compared without case."""
    key = session_key.strip()
    if key in entries:
        return key
    return next((name for name in entries if name.lower() == key.lower()), key.lower())


class _Span(NamedTuple):
    start: int
    end: int


_as_written = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)


def _members(text: str, start: int) -> Mapping[str, _Span]:
    """Returns where the values of the object at `start` are in this JSON; of equal names the last one counts."""
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
    """Returns the JSON with this member in the object at `start`, laid out as its first member is."""
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
    """Reads a whole number. One that Python would refuse to read counts as infinite."""
    return int(digits) if len(digits) < 400 else math.inf


def _number(entry: dict[str, object], name: str) -> int | None:
    value = entry.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value < float("inf") else None
