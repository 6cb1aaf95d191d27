"""`recall`: what a model is told before its turn, and the events of clients' hooks. The rules: `gateway.recall`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

import anyio

from backends.chunking.tokens import estimate_tokens
from backends.interface import SearchAnswer
from gateway.agent.conversations import Conversations
from gateway.agent.memory import Memory
from gateway.recall.hooks import HOOK_METHOD, HookEvent, HookParams, in_form, read_event
from gateway.recall.prompts import read_prompt
from gateway.recall.selecting import ASKED_FOR, POSSIBLE, RecallPart, block, choose, started_block
from gateway.rpc.registry import Method, RequestContext, Session, process_name
from gateway.tools.recall import RecalledNote, RecallParams, RecallReason, RecallResult
from gateway.tools.search import SearchParams

HOOK_PATIENCE_S: Final = 0.22
"""A hook waits for little longer."""
VECTOR_PATIENCE_S: Final = 0.12
"""How long the vector of a prompt is waited for: its words alone answer within milliseconds."""


async def recall(
    memory: Memory, params: RecallParams, session: Session, conversation: str
) -> RecallResult:
    """What to tell before this prompt, or why nothing."""
    started = time.perf_counter()
    result = await _recall(memory, params, session, conversation)
    memory.counted.recalled(result.reason or "told", time.perf_counter() - started)
    return result


async def _recall(
    memory: Memory, params: RecallParams, session: Session, conversation: str
) -> RecallResult:
    question = read_prompt(params.prompt)
    if question.silence is not None:
        return RecallResult(tokens=0, reason=question.silence)
    wanted = SearchParams(
        query=question.query,
        max_results=ASKED_FOR,
        min_score=POSSIBLE if params.min_score is None else params.min_score,
        explain=True,
        session_key=params.session_key,
        exclude=params.exclude,
    )
    answer = await memory.find(wanted, session, vector_patience_s=VECTOR_PATIENCE_S)
    if not answer.hits:
        return RecallResult(
            tokens=0, reason=_why_none(answer), error=answer.error, kind=answer.kind
        )
    choice = choose(
        answer.hits,
        is_shown=lambda line: memory.shown.has(conversation, line),
        max_tokens=params.max_tokens,
        min_score=params.min_score,
    )
    if choice.reason is not None:
        return RecallResult(tokens=0, reason=choice.reason)
    return _told(memory, conversation, choice.parts)


def _why_none(answer: SearchAnswer) -> RecallReason:
    if answer.outcome == "denied":
        return "denied"
    if answer.error is not None:
        return "disabled" if answer.disabled else "unavailable"
    return "nothing_likely"


def _told(memory: Memory, conversation: str, parts: Sequence[RecallPart]) -> RecallResult:
    for part in parts:
        memory.shown.recalled(conversation, part.hit.path, part.shown)
        memory.uses.recalled(part.hit.path)
    text = block(parts)
    notes = tuple(
        RecalledNote(
            path=part.hit.path,
            start_line=part.hit.start_line,
            end_line=part.hit.end_line,
            score=part.hit.score,
            source=part.hit.source,
        )
        for part in parts
    )
    return RecallResult(text=text, tokens=estimate_tokens(text), notes=notes)


async def hear(memory: Memory, params: HookParams, session: Session) -> dict[str, Any] | None:
    """The answer to an event in its client's form; None where there is nothing to say, or not in time."""
    event = read_event(params)
    memory.shown.held_by(event.conversation, map(process_name, params.processes))
    text = ""
    with anyio.move_on_after(HOOK_PATIENCE_S) as patience:
        text = await _heard(memory, event, session)
    if patience.cancelled_caught:
        memory.counted.recalled("late", HOOK_PATIENCE_S)
    return in_form(params.client, event, text)


async def _heard(memory: Memory, event: HookEvent, session: Session) -> str:
    if event.kind == "prompt":
        own = (event.own_transcript,) if event.own_transcript else ()
        asked = RecallParams(prompt=event.prompt, exclude=own)
        return (await recall(memory, asked, session, event.conversation)).text
    if event.kind == "compaction":
        memory.shown.forget(event.conversation)
    is_known = memory.shown.knows(event.conversation) and not event.is_emptied
    if event.kind != "start" or event.goes_on or is_known:
        return ""
    files = await Conversations(memory).files(session)
    memory.session_started(event.conversation)
    told = started_block(files)
    memory.shown.began(event.conversation, told.files)
    return told.text


def recall_methods(memory: Memory) -> list[Method[Any]]:
    async def answer(params: RecallParams, context: RequestContext) -> RecallResult:
        session = context.session
        return await recall(memory, params, session, session.conversation(params.session_key))

    async def hook(params: HookParams, context: RequestContext) -> dict[str, Any] | None:
        return await hear(memory, params, context.session)

    return [
        Method("recall", RecallParams, answer),
        Method(HOOK_METHOD, HookParams, hook),
    ]
