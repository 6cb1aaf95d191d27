"""The conditions of a flush: each boundary of the documented rule."""

from msgspec.structs import replace

from config.settings import CompactionSettings, MemoryFlushSettings
from fakes.each import each
from gateway.flush import SessionState, Situation, decide

DEFAULTS = CompactionSettings()


def flush(**changes):
    return replace(DEFAULTS, memory_flush=MemoryFlushSettings(**changes))


def test_the_default_threshold_is_176000_tokens():
    assert decide(DEFAULTS, Situation(), SessionState()).threshold == 176_000


@each(("tokens", "due"), [(0, False), (175_999, False), (176_000, True), (200_000, True)])
def test_it_is_due_from_the_threshold_on(tokens, due):
    decision = decide(DEFAULTS, Situation(total_tokens=tokens), SessionState())
    assert decision.due is due
    assert decision.reason


@each(
    ("window", "threshold", "due"),
    [(24_000, 0, False), (24_001, 1, True), (1, 0, False), (32_000, 8_000, True)],
)
def test_a_window_that_the_reserves_fill_never_asks_for_a_flush(window, threshold, due):
    situation = Situation(total_tokens=1_000_000, context_window=window)
    decision = decide(DEFAULTS, situation, SessionState())
    assert (decision.threshold, decision.due) == (threshold, due)


def test_both_reserves_come_from_the_configuration():
    settings = replace(flush(soft_threshold_tokens=100), reserve_tokens_floor=900)
    assert decide(settings, Situation(context_window=5000), SessionState()).threshold == 4000


@each(
    ("count", "flushed_at", "due"),
    [
        (0, None, True),
        (0, 0, False),
        (1, 0, True),
        (1, 1, False),
        (2, 1, True),
        (0, 1, True),
    ],
)
def test_it_is_due_once_in_each_compaction_cycle(count, flushed_at, due):
    situation = Situation(total_tokens=180_000, compaction_count=count)
    assert decide(DEFAULTS, situation, SessionState(flushed_at_count=flushed_at)).due is due


def test_what_the_caller_does_not_say_the_session_knows():
    state = SessionState(
        total_tokens=90_000, context_tokens=100_000, compaction_count=3, flushed_at_count=2
    )
    decision = decide(DEFAULTS, Situation(), state)
    assert (decision.due, decision.threshold, decision.total_tokens) == (True, 76_000, 90_000)
    assert decision.compaction_count == 3
    assert not decide(DEFAULTS, Situation(total_tokens=0), state).due
    assert not decide(DEFAULTS, Situation(context_window=200_000), state).due


@each(
    ("settings", "situation", "reason"),
    [
        (flush(enabled=False), {}, "memoryFlush.enabled"),
        (DEFAULTS, {"workspace_access": "ro"}, "workspaceAccess is ro"),
        (DEFAULTS, {"workspace_access": "none"}, "workspaceAccess is none"),
        (DEFAULTS, {"is_heartbeat": True}, "heartbeat"),
    ],
)
def test_where_it_makes_no_sense_it_is_never_due_and_says_why(settings, situation, reason):
    decision = decide(settings, Situation(total_tokens=199_000, **situation), SessionState())
    assert not decision.due
    assert reason in decision.reason


@each(
    ("size", "force", "active", "due"),
    [
        (None, 100, 0, False),
        (99, 100, 0, False),
        (100, 100, 0, True),
        (10**9, 0, 0, False),
        (100, 0, 100, True),
        (100, 1000, 100, True),
    ],
)
def test_a_large_transcript_makes_it_due_whatever_its_tokens(size, force, active, due):
    settings = replace(
        flush(force_flush_transcript_bytes=force), max_active_transcript_bytes=active
    )
    decision = decide(settings, Situation(transcript_bytes=size), SessionState())
    assert decision.due is due
    assert ("bytes of transcript" in decision.reason) is due
    again = SessionState(flushed_at_count=0, transcript_bytes=size)
    assert not decide(settings, Situation(), again).due
