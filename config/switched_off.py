"""Whether memory is switched off, and by which key. Pure; imports nothing of the backends."""

from __future__ import annotations

from config.settings import Settings


def is_disabled(settings: Settings) -> bool:
    return not settings.search.enabled or settings.memory_slot == "none"


def why_disabled(settings: Settings) -> str:
    if settings.memory_slot == "none":
        return 'Memory is switched off by plugins.slots.memory = "none"; remove it to switch it on.'
    return "Memory is switched off by memorySearch.enabled = false; set it to true to switch it on."
