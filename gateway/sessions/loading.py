"""Choosing and reading what a new session loads.

Owns the rule: today's and yesterday's log always, the long-term memory and what is known of the user
only in the main, private session. Reads through the backend, so that the same paths are permitted as for `memory_get`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Literal, NamedTuple

import msgspec

from backends.errors import FileUnreadableError, PathNotAllowedError
from backends.interface import ReadAnswer, ReadRequest
from gateway.sessions.days import daily_log, today_and_yesterday
from gateway.sessions.keys import ChatKind, is_main_session
from gateway.sessions.trimming import trim

MAX_CHARS = 20_000
"""Of one file, about; the whole is to leave most of a context window free."""
_MAX_PAGES = 8
"""Of one file, as `ReadAnswer` cuts them: the end of a larger one is not looked for."""

Role = Literal["longterm", "user", "today", "yesterday"]
Read = Callable[[ReadRequest], Awaitable[ReadAnswer]]

_LONG_TERM = ("MEMORY.md", "memory.md")
_USER = ("USER.md",)
_HEAD_SHARE: dict[Role, float] = {
    "longterm": 0.7,
    "user": 0.7,
    "today": 0.2,
    "yesterday": 0.2,
}
"""Long-term memory begins with what matters most; a log ends with what is newest."""


class Part(NamedTuple):
    """One file to load: the first of `paths` that exists."""

    role: Role
    paths: tuple[str, ...]


class LoadedFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    path: str
    role: Role
    status: Literal["ok", "not_found", "error"]
    text: str
    chars: int
    """Of the file, whole."""
    truncated: bool = False
    left_out_from: int | None = None
    """First line that was left out, counted from 1."""
    left_out_to: int | None = None
    error: str | None = None


def parts_of(session_key: str, chat_kind: ChatKind | None, now: datetime) -> tuple[Part, ...]:
    """What this session loads. `chat_kind` is what the caller says; the stricter of it and the key
    decides.
    """
    today, yesterday = today_and_yesterday(now)
    logs = (Part("today", (daily_log(today),)), Part("yesterday", (daily_log(yesterday),)))
    is_private = chat_kind in {None, "direct"} and is_main_session(session_key)
    return (Part("longterm", _LONG_TERM), Part("user", _USER), *logs) if is_private else logs


async def load(parts: tuple[Part, ...], read: Read) -> tuple[LoadedFile, ...]:
    """Reads each part; one that is missing or unreadable says so and costs the others nothing."""
    return tuple([await _load(part, read) for part in parts])


async def _load(part: Part, read: Read) -> LoadedFile:
    for path in part.paths:
        try:
            text, is_whole = await _read_pages(path, read)
        except (PathNotAllowedError, FileUnreadableError) as error:
            return _without_text(path, part.role, "error", str(error))
        if text is not None:
            return _loaded(path, part.role, text, is_whole=is_whole)
    return _without_text(part.paths[0], part.role, "not_found", None)


async def _read_pages(path: str, read: Read) -> tuple[str | None, bool]:
    """The text, or None if there is no such file, and whether it is all of it."""
    pages: list[str] = []
    line: int | None = None
    for _ in range(_MAX_PAGES):
        answer = await read(ReadRequest(path=path, first_line=line))
        if answer.status == "not_found":
            return None, True
        pages.append(answer.text)
        line = answer.next_line
        if not answer.truncated or line is None:
            return "".join(pages), not answer.truncated
    return "".join(pages), False


def _loaded(path: str, role: Role, text: str, *, is_whole: bool) -> LoadedFile:
    trimmed = trim(path, text, max_chars=MAX_CHARS, head_share=_HEAD_SHARE[role])
    return LoadedFile(
        path=path,
        role=role,
        status="ok",
        text=trimmed.text,
        chars=len(text),
        truncated=trimmed.first is not None or not is_whole,
        left_out_from=trimmed.first,
        left_out_to=trimmed.last if is_whole else None,
    )


def _without_text(
    path: str, role: Role, status: Literal["not_found", "error"], error: str | None
) -> LoadedFile:
    return LoadedFile(path=path, role=role, status=status, text="", chars=0, error=error)
