"""What a configuration file says about memory, for all agents: checked, not yet chosen from."""

from __future__ import annotations

import msgspec

from config.agents import AgentEntry, agents_at_home, default_agent_id, listed_agents
from config.host_keys import HOME_PATH
from config.keys import SECTIONS
from config.keys.tree import build_tree
from config.keys.walking import Given, walk
from config.source.located import KeyPath, Located
from config.source.reading import Reading


class FileContent(msgspec.Struct, frozen=True):
    """Every valid value at every place, and the agents that are listed. Empty without a file."""

    givens: tuple[Given, ...] = ()
    agents: tuple[AgentEntry, ...] = ()
    """Those that the chat gateway has."""
    at_home: tuple[tuple[str, KeyPath], ...] = ()
    """Ids and places of what our own entry says of single agents."""

    @property
    def default_agent(self) -> str:
        return default_agent_id(self.agents)

    def agent(self, agent_id: str) -> AgentEntry | None:
        return next((entry for entry in self.agents if entry.id == agent_id), None)

    def places(self, agent_id: str) -> tuple[KeyPath, ...]:
        """Where this agent's own keys stand."""
        entry = self.agent(agent_id)
        at_home = tuple(place for name, place in self.at_home if name == agent_id)
        return (*at_home, *(entry.prefixes if entry else ()))

    def places_of_others(self, agent_id: str) -> tuple[KeyPath, ...]:
        at_home = tuple(place for name, place in self.at_home if name != agent_id)
        listed = (e.prefixes for e in self.agents if e.id != agent_id)
        return (*at_home, *(place for prefixes in listed for place in prefixes))


def read_content(root: Located | None, reading: Reading) -> FileContent:
    """Raises `ConfigInvalidError` with every problem that the file has."""
    if root is None:
        return FileContent()
    givens = tuple(walk(build_tree(SECTIONS), root, (), reading))
    agents = listed_agents(root, reading)
    reading.raise_problems()
    return FileContent(givens, agents, agents_at_home(root, HOME_PATH))
