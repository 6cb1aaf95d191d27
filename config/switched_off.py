"""Whether memory is switched off, and by which key. Pure.

The rule: `enabled: false` at a place of ours always switches us off. `memory.search.enabled: false` and
a `plugins.slots.memory` that names another plugin switch off OpenClaw's own memory. They switch us off only
as the sidecar that replaces that memory; not as a service, over MCP, as the plugin in that slot or at the
command line.
"""

from __future__ import annotations

from typing import Final

import msgspec

from config.host_keys import PLUGIN_ID
from config.settings import Settings

_HOSTS_OWN: Final = "memory-core"
"""The plugin that is OpenClaw's memory, whose contract the sidecar keeps."""


class Switch(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A key that asks for memory to be off."""

    key: str
    """As it is written in the file, with its value."""
    obeyed: bool
    reason: str


def switches(settings: Settings) -> tuple[Switch, ...]:
    """Every key that asks for memory to be off; those that are obeyed come first."""
    found = [one for one in (_enabled(settings), _slot(settings)) if one is not None]
    return tuple(sorted(found, key=lambda one: not one.obeyed))


def is_disabled(settings: Settings) -> bool:
    return any(one.obeyed for one in switches(settings))


def why_disabled(settings: Settings) -> str:
    """The reason; only valid while `is_disabled`."""
    return switches(settings)[0].reason


def heeds_host(settings: Settings) -> bool:
    """Whether the switches of OpenClaw's own memory apply to us, because we replace that memory."""
    return settings.started_as == "sidecar" and settings.memory_slot != PLUGIN_ID


def _enabled(settings: Settings) -> Switch | None:
    if settings.search.enabled:
        return None
    key = settings.enabled_key or "memorySearch.enabled"
    if not is_hosts_switch(key):
        return _obeyed(f"{key} = false", "set it to true to switch it on")
    return _by_host(settings, f"{key} = false")


def is_hosts_switch(key: str) -> bool:
    """Whether this `enabled` is the one of OpenClaw's own memory search."""
    return key.endswith("memory.search.enabled")


def _slot(settings: Settings) -> Switch | None:
    if settings.memory_slot in (None, _HOSTS_OWN, PLUGIN_ID):
        return None
    return _by_host(settings, f'plugins.slots.memory = "{settings.memory_slot}"')


def _by_host(settings: Settings, key: str) -> Switch:
    if heeds_host(settings):
        return _obeyed(key, "remove it to switch it on")
    started = {
        "service": "as a service",
        "plugin": "as the plugin in its slot",
        "mcp": "for an MCP client",
        "command": "at the command line",
        "sidecar": "as the plugin in its slot",
    }[settings.started_as]
    reason = f"{key} switches off OpenClaw's own memory. This gateway was started {started} and is not affected."
    return Switch(key=key, obeyed=False, reason=reason)


def _obeyed(key: str, remedy: str) -> Switch:
    return Switch(key=key, obeyed=True, reason=f"Memory is switched off by {key}; {remedy}.")
