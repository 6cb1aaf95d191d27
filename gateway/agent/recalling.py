"""`recall`: what a model is shown before its turn, and the events of clients' hooks. The rules: `gateway.recall`.

Claude Code 2.1, Codex 0.169 and Gemini CLI 0.61 name the event and take `additionalContext` beside its name. Copilot
CLI 1.0 names none: a prompt is known by its `prompt`, a beginning by its `source`, a
compaction by its `trigger`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import anyio
import msgspec
from msgspec.structs import replace

from backends.chunking import estimate_tokens
from backends.interface import SearchAnswer
from config.runtime.logs import Log
from gateway.agent.conversations import Conversations
from gateway.agent.memory import Memory
from gateway.recall import (
    ASKED_FOR,
    POSSIBLE,
    RecallPart,
    block,
    choose,
    read_prompt,
    started_block,
)
from gateway.rpc.registry import Method, Params, RequestContext, Session, process_name
from gateway.rpc.wire import InvalidParamsError
from gateway.tools.search import (
    MAX_KEY_CHARS,
    RecalledNote,
    RecallParams,
    RecallReason,
    RecallResult,
    SearchParams,
)

_log = Log()

HookClient = Literal["claude-code", "codex", "gemini", "copilot"]

HOOK_METHOD: Final = "$/hook"
"""The method with which our own command forwards an event. Clients do not call it, so it is not in their list."""

EventKind = Literal["prompt", "start", "compaction", "other"]
_KINDS: Final[Mapping[str, EventKind]] = {
    "UserPromptSubmit": "prompt",
    "BeforeAgent": "prompt",
    "SessionStart": "start",
    "PreCompress": "compaction",
}
_GOES_ON: Final = frozenset({"resume", "fork"})
"""The sources of a start that continues a conversation, which has been shown its beginning already."""
_EMPTIED: Final = frozenset({"clear", "compact"})
"""The sources of a start after which the model no longer knows anything that it was shown."""
_ASKED_FOR: Final = "manual"
"""Gemini CLI announces a compression in every turn, before it looks whether one is due: only one asked for is real."""
HOOK_PATIENCE_S: Final = 0.22
"""The time limit for an event; the hook itself waits only a little longer."""
VECTOR_PATIENCE_S: Final = 0.12
"""The longest wait for the vector of a prompt: its words alone answer within milliseconds."""
_DAYS_PATIENCE_S: Final = 0.08
"""The time limit for finding the daily notes in a folder of notes."""


class HookParams(Params, frozen=True):
    client: HookClient
    event: dict[str, Any]
    processes: tuple[int, ...] = ()
    """The processes that run the hook, the nearest first."""
    patience_ms: int = round(HOOK_PATIENCE_S * 1000)
    """The time that the hook still waits: what comes later reaches nobody, and does not count as shown."""


class HookEvent(msgspec.Struct, frozen=True):
    kind: EventKind
    name: str
    conversation: str
    prompt: str = ""
    goes_on: bool = False
    """True if a conversation that starts existed before, and knows how it began."""
    is_emptied: bool = False
    own_transcript: str | None = None
    """A glob of what the client itself writes down of this conversation."""


def read_event(params: HookParams) -> HookEvent:
    """Reads an event; a field that is missing or has another type counts as empty."""
    event = params.event
    name = _text(event, "hook_event_name")
    kind = _KINDS.get(name, "other") if name else _unnamed(event)
    if name == "PreCompress" and _text(event, "trigger") != _ASKED_FOR:
        kind = "other"
    session = (_text(event, "session_id") or _text(event, "sessionId"))[: MAX_KEY_CHARS // 2]
    return HookEvent(
        kind=kind,
        name=name,
        conversation=f"{params.client} {session or _text(event, 'cwd')[: MAX_KEY_CHARS // 2]}",
        prompt=_text(event, "prompt"),
        goes_on=_text(event, "source") in _GOES_ON,
        is_emptied=_text(event, "source") in _EMPTIED,
        own_transcript=f"sessions/*{session}*" if session.replace("-", "").isalnum() else None,
    )


def _unnamed(event: Mapping[str, object]) -> EventKind:
    if "prompt" in event:
        return "prompt"
    if "trigger" in event:
        return "compaction"
    return "start" if "source" in event else "other"


def _text(event: Mapping[str, object], name: str) -> str:
    value = event.get(name)
    return value if isinstance(value, str) else ""


def in_form(client: HookClient, event: HookEvent, text: str) -> dict[str, object] | None:
    """Returns the text in the form of this client; None where there is nothing to say."""
    if not text:
        return None
    if client == "copilot":
        return {"additionalContext": text}
    return {"hookSpecificOutput": {"hookEventName": event.name, "additionalContext": text}}


async def recall(
    memory: Memory, params: RecallParams, session: Session, conversation: str
) -> RecallResult:
    """Returns what to show before this prompt, or the reason why nothing is shown."""
    started = time.perf_counter()
    result = await _recall(memory, params, session, conversation)
    memory.counted.recalled(result.reason or "shown", time.perf_counter() - started)
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
            tokens=0,
            reason=_why_none(answer),
            stale=answer.stale,
            error=answer.error,
            kind=answer.kind,
        )
    choice = choose(
        answer.hits,
        is_shown=lambda line: memory.shown.has(conversation, line),
        max_tokens=params.max_tokens,
        min_score=params.min_score,
        query=question.query,
    )
    if choice.reason is not None:
        return RecallResult(tokens=0, reason=choice.reason, stale=answer.stale)
    return replace(_shown(memory, conversation, choice.parts), stale=answer.stale)


def _why_none(answer: SearchAnswer) -> RecallReason:
    if answer.outcome == "denied":
        return "denied"
    if answer.error is not None:
        return "disabled" if answer.disabled else "unavailable"
    return "nothing_likely"


def _shown(memory: Memory, conversation: str, parts: Sequence[RecallPart]) -> RecallResult:
    for part in parts:
        memory.shown.recalled(conversation, part.hit.path, part.shown)
        memory.uses.recalled(part.hit.path)
    memory.counted.shown(part.hit for part in parts)
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


async def answer_event(
    memory: Memory, params: HookParams, session: Session
) -> dict[str, object] | None:
    """Answers an event in the form of its client; returns None where there is nothing to say, or not in time.

    Raises InvalidParamsError for an event without the name that this client gives each of its events.
    """
    event = read_event(params)
    if not event.name and params.client != "copilot":
        _log.warning("the event of a hook has no name", client=params.client)
        raise InvalidParamsError(
            f"The event has no hook_event_name, which {params.client} gives to each."
        )
    memory.shown.bind(event.conversation, map(process_name, params.processes))
    text = ""
    patience_s = min(round(HOOK_PATIENCE_S * 1000), params.patience_ms) / 1000
    with anyio.move_on_after(patience_s) as patience:
        text = await _text_for(memory, event, session)
    if patience.cancelled_caught:
        memory.counted.recalled("late", patience_s)
    return in_form(params.client, event, text)


async def _text_for(memory: Memory, event: HookEvent, session: Session) -> str:
    if event.kind == "prompt":
        own = (event.own_transcript,) if event.own_transcript else ()
        asked = RecallParams(prompt=event.prompt, exclude=own)
        return (await recall(memory, asked, session, event.conversation)).text
    if event.kind == "compaction" or event.is_emptied:  # whether or not there is time for its files
        memory.shown.forget(event.conversation)
    if event.kind != "start" or event.goes_on or memory.shown.knows(event.conversation):
        return ""
    files = await Conversations(memory).files(session, patience_s=_DAYS_PATIENCE_S)
    memory.session_started(event.conversation)
    started = started_block(files)
    memory.shown.began(event.conversation, started.files)
    return started.text


def recall_methods(memory: Memory) -> list[Method[Any]]:
    async def answer(params: RecallParams, context: RequestContext) -> RecallResult:
        session = context.session
        return await recall(memory, params, session, session.conversation(params.session_key))

    async def hook(params: HookParams, context: RequestContext) -> dict[str, object] | None:
        return await answer_event(memory, params, context.session)

    return [Method("recall", RecallParams, answer), Method(HOOK_METHOD, HookParams, hook)]
