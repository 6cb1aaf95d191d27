"""What a configuration file says about memory, for all agents: checked, not yet chosen from."""

from __future__ import annotations

import msgspec

from config.agents import AgentEntry, default_agent_id, listed_agents
from config.keys import SECTIONS
from config.keys.tree import build_tree
from config.keys.walking import Given, walk
from config.source.located import Located
from config.source.reading import Reading


class FileContent(msgspec.Struct, frozen=True):
    """Every valid value at every place, and the agents that are listed. Empty without a file."""

    givens: tuple[Given, ...] = ()
    agents: tuple[AgentEntry, ...] = ()

    @property
    def default_agent(self) -> str:
        return default_agent_id(self.agents)

    def agent(self, agent_id: str) -> AgentEntry | None:
        return next((entry for entry in self.agents if entry.id == agent_id), None)


def read_content(root: Located | None, reading: Reading) -> FileContent:
    """Raises `ConfigInvalidError` with every problem that the file has."""
    if root is None:
        return FileContent()
    givens = tuple(walk(build_tree(SECTIONS), root, (), reading))
    agents = listed_agents(root, reading)
    reading.raise_problems()
    return FileContent(givens, agents)
