"""The keys that memory reads, divided into those of OpenClaw 2026.9 and those that are ours alone.

A mistake in one of the host's keys is only a warning, and the value is ignored. Keys in our own entry of its
`plugins`, and keys below `memory` that it does not know, are ours, and a mistake there is an error. The table
follows the schema that `openclaw config schema` prints (2026.9.6).

Some of the host's keys ask for memory to be off. `enabled: false` at a place of ours always switches us off.
`memory.search.enabled: false` and a `plugins.slots.memory` that names another plugin switch off OpenClaw's own
memory. They switch us off only as the sidecar that replaces that memory; not as a service, over MCP, as the plugin in
that slot or at the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from config.keys.tree import OWN_ENTRY
from config.settings import Settings
from config.source.located import KeyPath, Located

HOST_RELEASE: Final = "2026.9"
PLUGIN_ID: Final = "memory-gateway"
OWN_ENTRY_PATH: Final[KeyPath] = tuple(OWN_ENTRY.split("."))

SEARCH_PLACES: Final[tuple[KeyPath, ...]] = (
    ("memory", "search"),
    ("agents", "defaults", "memorySearch"),
    ("memorySearch",),
    ("agents", "list", "*", "memorySearch"),
    ("agents", "list", "*", "memory", "search"),
    ("agents", "entries", "*", "memory", "search"),
)

Accepts = Callable[[object], bool]


def _flag(value: object) -> bool:
    return isinstance(value, bool)


def _text(value: object) -> bool:
    return isinstance(value, str)


def _words(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _count(value: object) -> bool:
    return (
        not isinstance(value, bool)
        and isinstance(value, int | float)
        and value > 0
        and (float(value).is_integer())
    )


def _share(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | float) and 0 <= value <= 1


def _sources(value: object) -> bool:
    return isinstance(value, list) and all(one in ("memory", "sessions") for one in value)


def _paths(value: object) -> bool:
    return isinstance(value, list) and all(map(_path, value))


def _path(value: object) -> bool:
    if isinstance(value, str):
        return True
    return (
        isinstance(value, dict)
        and "path" in value
        and value.keys() <= {"path", "pattern"}
        and all(map(_text, value.values()))
    )


def _texts(value: object) -> bool:
    return isinstance(value, dict) and all(map(_text, value.values()))


def _anything(_value: object) -> bool:
    return True


SEARCH: Final[Mapping[str, Accepts]] = {
    "enabled": _flag,
    "rememberAcrossConversations": _flag,
    "sources": _sources,
    "extraPaths": _paths,
    "multimodal": _anything,
    "experimental.sessionMemory": _flag,
    "provider": _text,
    "remote.baseUrl": _text,
    "remote.apiKey": _text,
    "remote.headers": _texts,
    "remote.batch.enabled": _flag,
    "fallback": _text,
    "model": _text,
    "inputType": _words,
    "queryInputType": _words,
    "documentInputType": _words,
    "outputDimensionality": _count,
    "local.modelPath": _text,
    "store.fts": _anything,
    "store.vector.enabled": _flag,
    "store.vector.extensionPath": _text,
    "query.maxResults": _count,
    "query.minScore": _share,
    "cache.enabled": _flag,
}
"""Dotted keys below `memory.search`, each with a check of the values that the host certainly accepts."""

_MEMORY: Final = frozenset({"citations"})
COMPACTION_ONLY_OURS: Final = frozenset(
    {"reserveTokensFloor", "maxHistoryShare", "memoryFlush.prompt", "memoryFlush.systemPrompt"}
)
"""Keys of the February release below `agents.defaults.compaction` that today's host refuses."""


def search_place(at: KeyPath) -> KeyPath | None:
    """Returns the part of a path that leads to keys of memory search outside our own entry; else None."""
    for place in SEARCH_PLACES:
        if len(at) >= len(place) and all(p in ("*", a) for p, a in zip(place, at, strict=False)):
            return at[: len(place)]
    return None


def is_own_entry(at: KeyPath) -> bool:
    return at[: len(OWN_ENTRY_PATH)] == OWN_ENTRY_PATH


def tolerates(at: KeyPath) -> bool:
    """Returns whether a mistake at this path is only a warning, because the key is or contains one of the host's."""
    if is_own_entry(at):
        return False
    place = search_place(at)
    if place is not None:
        return _leads_to(SEARCH, at[len(place) :])
    if at[:1] == ("memory",):
        return _leads_to(_MEMORY, at[1:])
    return True


def _leads_to(known: Mapping[str, object] | frozenset[str], below: KeyPath) -> bool:
    """Returns whether the path is a known one, inside a known one, or a parent of one."""
    dotted = ".".join(map(str, below))
    return not below or any(
        dotted == name or dotted.startswith(f"{name}.") or name.startswith(f"{dotted}.")
        for name in known
    )


def plain(node: Located) -> Any:
    """Returns the value without its positions in the file."""
    if isinstance(node.value, dict):
        return {name: plain(member) for name, member in node.value.items()}
    if isinstance(node.value, list):
        return [plain(item) for item in node.value]
    return node.value


_HOSTS_OWN: Final = "memory-core"
"""The plugin that is OpenClaw's memory, whose contract the sidecar keeps."""


class Switch(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A key that asks for memory to be off."""

    key: str
    """The key as written in the file, with its value."""
    obeyed: bool
    reason: str


def switches(settings: Settings) -> tuple[Switch, ...]:
    """Returns every key that asks for memory to be off; those that are obeyed come first."""
    found = [one for one in (_enabled(settings), _slot(settings)) if one is not None]
    return tuple(sorted(found, key=lambda one: not one.obeyed))


def is_disabled(settings: Settings) -> bool:
    return any(one.obeyed for one in switches(settings))


def why_disabled(settings: Settings) -> str:
    """Returns the reason; only valid while `is_disabled`."""
    return switches(settings)[0].reason


def _obeys_host(settings: Settings) -> bool:
    """Returns whether the switches of OpenClaw's own memory apply to us, because we replace that memory."""
    return settings.started_as == "sidecar" and settings.memory_slot != PLUGIN_ID


def _enabled(settings: Settings) -> Switch | None:
    if settings.search.enabled:
        return None
    key = settings.enabled_key or "enabled"
    if not is_hosts_switch(key):
        return _obeyed(f"{key} = false", "set it to true to switch it on")
    return _by_host(settings, f"{key} = false")


def is_hosts_switch(key: str) -> bool:
    """Returns whether this `enabled` is the one of OpenClaw's own memory search."""
    return key.endswith("memory.search.enabled")


def _slot(settings: Settings) -> Switch | None:
    if settings.memory_slot in (None, _HOSTS_OWN, PLUGIN_ID):
        return None
    return _by_host(settings, f'plugins.slots.memory = "{settings.memory_slot}"')


def _by_host(settings: Settings, key: str) -> Switch:
    if _obeys_host(settings):
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
