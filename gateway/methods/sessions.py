"""The methods around a chat runtime's sessions: starts, flushes, entries, growing transcripts."""

from __future__ import annotations

from typing import Any

from gateway.agent.conversations import Conversations
from gateway.agent.memory import Memory
from gateway.rpc.context import RequestContext
from gateway.rpc.methods import Method
from gateway.tools.append import AppendParams, AppendResult
from gateway.tools.flush import FlushDoneParams, FlushDoneResult, FlushParams, FlushResult
from gateway.tools.session_start import SessionStartParams, SessionStartResult
from gateway.tools.session_updated import SessionUpdatedParams, read_reference


def session_methods(memory: Memory) -> list[Method[Any]]:
    conversations = Conversations(memory)

    async def start(params: SessionStartParams, context: RequestContext) -> SessionStartResult:
        return await conversations.start(params, context.session.guest)

    async def flush(params: FlushParams, _context: RequestContext) -> FlushResult:
        return await conversations.flush(params)

    async def flush_done(params: FlushDoneParams, _context: RequestContext) -> FlushDoneResult:
        return await conversations.flush_done(params)

    async def append(params: AppendParams, context: RequestContext) -> AppendResult:
        session = context.session
        return await conversations.append(
            params, session.session_key, session.guest, operator=session.operator
        )

    async def updated(params: SessionUpdatedParams, _context: RequestContext) -> dict[str, bool]:
        return {"scheduled": await memory.transcript_grew(read_reference(params))}

    return [
        Method("session_start", SessionStartParams, start),
        Method("memory_flush", FlushParams, flush),
        Method("memory_flush_done", FlushDoneParams, flush_done, accepts_notification=True),
        Method("memory_append", AppendParams, append),
        Method("session_updated", SessionUpdatedParams, updated, accepts_notification=True),
    ]
