"""`memory_flush` and `memory_flush_done`: parameters and results."""

from __future__ import annotations

from typing import Annotated

import msgspec

from gateway.flush.deciding import WorkspaceAccess
from gateway.tools.bounds import Key

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
