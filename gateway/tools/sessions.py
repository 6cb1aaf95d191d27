"""`session_start`, `session_updated`, `memory_flush`, `memory_flush_done`: parameters and results."""

from __future__ import annotations

from datetime import date
from typing import Annotated

import msgspec

from gateway.flush import WorkspaceAccess
from gateway.rpc.wire import InvalidParamsError
from gateway.sessions.keys import ChatKind
from gateway.sessions.loading import LoadedFile
from gateway.tools.search import Key, PathText


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


class SessionUpdatedParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Parameters of `session_updated`: one of the two."""

    path: PathText | None = None
    session_id: Key | None = None


def read_reference(params: SessionUpdatedParams) -> str:
    """What the client calls the transcript. Raises InvalidParamsError."""
    given = [name for name in (params.path, params.session_id) if name and name.strip()]
    if len(given) != 1:
        raise InvalidParamsError(
            "session_updated needs a path or a sessionId, and only one of them.",
            remedy='Send {"path": "<the transcript>.jsonl"} or {"sessionId": "<its name>"}.',
        )
    return given[0]


Tokens = Annotated[int, msgspec.Meta(ge=0)]


class FlushParams(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """Numbers that are left out are looked up in the session's entry of `sessions.json`."""

    session_key: Key
    total_tokens: Tokens | None = None
    context_window: Annotated[int, msgspec.Meta(ge=1)] | None = None
    compaction_count: Tokens | None = None
    transcript_bytes: Tokens | None = None
    """What of the transcript the model sees; else the size of the session's file."""
    workspace_access: WorkspaceAccess = "rw"
    heartbeat: bool = False


class FlushResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    due: bool
    reason: str
    threshold: int
    total_tokens: int
    compaction_count: int
    prompt: str | None = None
    system_prompt: str | None = None
    model: str | None = None
    """The model to run the flush with; None: the session's own."""


class FlushDoneParams(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """`compactionCount` is the one after the flush, if a compaction ended during it."""

    session_key: Key
    compaction_count: Tokens | None = None
    ok: bool = True
    """False: the flush failed; nothing is recorded, so that it is due again."""


class FlushDoneResult(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True
):
    recorded: bool
    compaction_count: int | None = None
