"""Refusing a configuration in which two agents would write the same index file.

Each of them would take the other's files for deleted and remove them from the index.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from config.loading.build import build_settings
from config.loading.directories import Surroundings
from config.loading.resolve import Chosen, choose
from config.loading.rules import apply_rules
from config.settings import Settings, StoreSettings
from config.source.reading import Reading

_STORE_PATH = "memorySearch.store.path"


def refuse_shared_index(
    settings: Settings,
    chosen: Mapping[str, Chosen],
    surroundings: Surroundings,
    reading: Reading,
) -> None:
    """Raises `ConfigInvalidError` naming both agents. Agents without memory search do not count."""
    if not settings.search.enabled:
        return
    content = surroundings.content
    for other in content.agents:
        # What is noteworthy in the other agent's keys is for its own process to say.
        theirs = choose(content.givens, content.places(other.id), Reading({}))
        apply_rules(theirs, Reading({}))
        search = build_settings(theirs, surroundings.directories(other.id, theirs)[0]).search
        shared = _places(search.store) & _places(settings.search.store)
        if other.id != settings.agent_id and search.enabled and shared:
            culprit = (chosen.get(_STORE_PATH) or theirs[_STORE_PATH]).given
            assert culprit is not None
            message = (
                f"the agents {settings.agent_id!r} and {other.id!r} would share the index "
                f"{shared.pop()}; write {{agentId}} into the path"
            )
            reading.problem(culprit.at, culprit.node, message)
    reading.raise_problems()


def _places(store: StoreSettings) -> set[Path]:
    """The former place counts: an index of ours there would be moved away from the other agent."""
    return {store.path, store.former_path or store.path}
