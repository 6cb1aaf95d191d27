"""Which agents a configuration file knows, and which of them is meant.

Owns the normalisation of agent ids and the reading order of the two places that list agents: the
list `agents.list[]` and the map `agents.entries.<id>` of later releases.
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
    """Where its own keys stand, the documented place first."""
    is_default: bool = False


def normalize_agent_id(text: str) -> str:
    """Lower case; runs of other characters than `a-z0-9_-` become one dash; at most 64 long.

    `main` when nothing is left.
    """
    lowered = text.strip().lower()
    if re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", lowered):
        return lowered
    return re.sub(r"[^a-z0-9_-]+", "-", lowered).strip("-")[:_MAX_LENGTH] or MAIN_AGENT


def default_agent_id(entries: tuple[AgentEntry, ...]) -> str:
    """The first that is marked as default, else the first listed, else `main`."""
    marked = (entry for entry in entries if entry.is_default)
    first = next(marked, entries[0] if entries else None)
    return first.id if first else MAIN_AGENT


def listed_agents(root: Located, reading: Reading) -> tuple[AgentEntry, ...]:
    """Every agent of the file in file order; of two with the same id the first counts."""
    found: dict[str, AgentEntry] = {}
    for place in (_from_list(root), _from_map(root)):
        seen: set[str] = set()
        for agent_id, prefix, node in place:
            if agent_id in seen:
                reading.warn(
                    prefix, node, f"the agent {agent_id!r} is already listed above; ignored"
                )
                continue
            seen.add(agent_id)
            found[agent_id] = _joined(found.get(agent_id), agent_id, prefix, node)
    return tuple(found.values())


def agents_at_home(root: Located, home: KeyPath) -> tuple[tuple[str, KeyPath], ...]:
    """Ids and places of what our own entry says of single agents, who need not be listed anywhere."""
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
