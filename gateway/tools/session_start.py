"""`session_start`: parameters and result."""

from __future__ import annotations

from datetime import date

import msgspec

from gateway.sessions.keys import ChatKind
from gateway.sessions.loading import LoadedFile
from gateway.tools.bounds import Key


class SessionStartParams(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    session_key: Key
    chat_type: ChatKind | None = None
    """What the chat gateway knows; a group's key stays a group's whatever this says."""


class SessionStartResult(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True
):
    files: tuple[LoadedFile, ...]
    today: date | None = None
    """In the agent's time zone."""
    time_zone: str | None = None
    instructions: str | None = None
    """For the system prompt of the session."""
    sync_started: bool = False
    denied: bool = False
    disabled: bool = False
    error: str | None = None
    """Why nothing was loaded."""
