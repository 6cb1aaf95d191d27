"""Whether a flush is due now. Pure.

Owns the documented rule: once in each compaction cycle, when the session's tokens come within a
threshold of the context window or its transcript reaches a size, and never where the agent could not
write anything down.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from config.settings import CompactionSettings

DEFAULT_CONTEXT_WINDOW: Final = 200_000
"""Tokens, as documented, where neither the caller nor the session says."""

WorkspaceAccess = Literal["rw", "ro", "none"]


class SessionState(NamedTuple):
    """What `sessions.json` knows of one session; None: it does not say."""

    total_tokens: int | None = None
    context_tokens: int | None = None
    compaction_count: int = 0
    flushed_at_count: int | None = None
    """`memoryFlushCompactionCount`: the compaction cycle of the last flush."""
    transcript_bytes: int | None = None
    """Of the session's file."""


class Situation(NamedTuple):
    """What the caller says of the turn to come; None: look into the session's state."""

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
    """Which limit a transcript has reached. At the size that compacts it, no later turn could flush."""
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
