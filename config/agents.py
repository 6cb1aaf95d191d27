"""Which agents a configuration file lists, and which of them is the default.

Agents are listed in two places, read in this order: the list `agents.list[]`, and the map
`agents.entries.<id>` of later releases.
"""

from __future__ import annotations

import re

import msgspec

from config.source.located import KeyPath, Located, Reading, descend

MAIN_AGENT = "main"

_MAX_LENGTH = 64


class AgentEntry(msgspec.Struct, frozen=True):
    id: str
    """Normalised."""
    prefixes: tuple[KeyPath, ...]
    """The paths of its own keys, the documented one first."""
    is_default: bool = False


def normalize_agent_id(text: str) -> str:
    """In lower case, with one dash for each run of characters other than `a-z0-9_-`; at most 64 long.

    `main` if nothing is left.
    """
    lowered = text.strip().lower()
    if re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", lowered):
        return lowered
    return re.sub(r"[^a-z0-9_-]+", "-", lowered).strip("-")[:_MAX_LENGTH] or MAIN_AGENT


def default_agent_id(entries: tuple[AgentEntry, ...]) -> str:
    """The first one marked as default, else the first one listed, else `main`."""
    marked = (entry for entry in entries if entry.is_default)
    first = next(marked, entries[0] if entries else None)
    return first.id if first else MAIN_AGENT


def listed_agents(root: Located, reading: Reading) -> tuple[AgentEntry, ...]:
    """The agents in the order of the file; if two have the same id, the first counts."""
    found: dict[str, AgentEntry] = {}
    for place in (_from_list(root), _from_map(root)):
        seen: set[str] = set()
        for agent_id, prefix, node in place:
            if agent_id in seen:
                reading.warn(
                    prefix, node, f"is ignored: the agent {agent_id!r} is already listed above"
                )
                continue
            seen.add(agent_id)
            found[agent_id] = _joined(found.get(agent_id), agent_id, prefix, node)
    return tuple(found.values())


def agents_in_own_entry(root: Located, home: KeyPath) -> tuple[tuple[str, KeyPath], ...]:
    """Ids and paths of the agents that our own entry configures; they need not be listed anywhere."""
    path = (*home, "agents")
    node = descend(root, *map(str, path))
    members = node.value if node and isinstance(node.value, dict) else {}
    return tuple((normalize_agent_id(name), (*path, name)) for name in members)


def _joined(known: AgentEntry | None, agent_id: str, prefix: KeyPath, node: Located) -> AgentEntry:
    marker = descend(node, "default")
    is_default = marker is not None and marker.value is True
    if known is None:
        return AgentEntry(agent_id, (prefix,), is_default)
    return AgentEntry(agent_id, (*known.prefixes, prefix), known.is_default or is_default)


def _from_list(root: Located) -> list[tuple[str, KeyPath, Located]]:
    node = descend(root, "agents", "list")
    items = node.value if node and isinstance(node.value, list) else []
    ids = [(index, item, descend(item, "id")) for index, item in enumerate(items)]
    return [
        (normalize_agent_id(name.value), ("agents", "list", index), item)
        for index, item, name in ids
        if name and isinstance(name.value, str)
    ]


def _from_map(root: Located) -> list[tuple[str, KeyPath, Located]]:
    node = descend(root, "agents", "entries")
    members = node.value if node and isinstance(node.value, dict) else {}
    return [
        (normalize_agent_id(name), ("agents", "entries", name), item)
        for name, item in members.items()
        if isinstance(item.value, dict)
    ]
