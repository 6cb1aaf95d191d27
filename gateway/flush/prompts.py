"""What a flush says to the agent: the configured texts or ours, with the day's real path in them. Pure."""

from __future__ import annotations

from datetime import date
from typing import Final, NamedTuple

from config.settings import MemoryFlushSettings
from gateway.sessions.days import MEMORY_DIRECTORY, daily_log

SILENT_REPLY: Final = "NO_REPLY"
"""The chat gateway shows nobody a reply of this one word."""

_PROMPT: Final = (
    f"This conversation is about to be compacted. Write what should outlast it into {{log}} now: "
    f"decisions, facts, preferences, open tasks. Create {MEMORY_DIRECTORY}/ if it is missing, append "
    f"to the file if it exists, and never overwrite what stands there. If there is nothing to keep, "
    f"reply with {SILENT_REPLY}."
)
_SYSTEM_PROMPT: Final = (
    "Memory flush: the session is near compaction, and only what is written to files will be "
    f"remembered. The user does not see this turn; {SILENT_REPLY} is usually the right reply."
)
_HINT: Final = f"If there is nothing to say to the user, reply with {SILENT_REPLY}."
_PLACEHOLDER: Final = "YYYY-MM-DD"


class FlushPrompts(NamedTuple):
    prompt: str
    system_prompt: str


def flush_prompts(settings: MemoryFlushSettings, today: date) -> FlushPrompts:
    """Configured texts may hold `YYYY-MM-DD` for today and get the `NO_REPLY` rule if they lack it."""
    ours = _PROMPT.format(log=daily_log(today))
    return FlushPrompts(
        prompt=_completed(settings.prompt or ours, today),
        system_prompt=_completed(settings.system_prompt or _SYSTEM_PROMPT, today),
    )


def _completed(text: str, today: date) -> str:
    dated = text.strip().replace(_PLACEHOLDER, today.isoformat())
    return dated if SILENT_REPLY in dated else f"{dated}\n\n{_HINT}"
