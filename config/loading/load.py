"""Loading the settings of one agent: from a request to an immutable `Settings`.

The function that the floors above call. It strings the steps together: find and read the file, check
it, choose for the agent, apply the rules, settle. The rules of each step are in its own module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from config.agents import MAIN_AGENT, normalize_agent_id
from config.host_keys import tolerates
from config.keys import SECTIONS
from config.keys.tree import ANY_NAME
from config.loading.build import build_settings, field_of
from config.loading.content import FileContent, read_content
from config.loading.directories import Surroundings
from config.loading.resolve import Chosen, choose
from config.loading.rules import apply_rules
from config.loading.shared_index import refuse_shared_index
from config.settings import Origin, Settings
from config.source.discover import Found, LoadRequest, discover
from config.source.environment import Variables, gather_variables
from config.source.located import render_path
from config.source.reading import Reading

__all__ = ["LoadRequest", "load_settings"]

_DEFAULT = Origin(kind="default")


def load_settings(request: LoadRequest) -> Settings:
    """The effective settings of the agent that the request means.

    Without a configuration file everything is a default. Raises `ConfigInvalidError` with every
    problem of the file at once, `ConfigNotFoundError` for a named file that does not exist.
    """
    return load_found(request, discover(request))


def load_found(request: LoadRequest, found: Found) -> Settings:
    """The same for a file that was read before. Raises `ConfigInvalidError`."""
    variables = gather_variables(request.environment, found.state_dir, found.root)
    file = found.root.source.path if found.root else None
    reading = Reading(variables.values, file, tolerates)
    content = read_content(found.root, reading)
    surroundings = Surroundings(request, found, content)
    agent_id = normalize_agent_id(request.agent_id or content.default_agent)
    chosen = choose(content.givens, content.places(agent_id), reading)
    apply_rules(chosen, reading)
    settings = _settle(surroundings, agent_id, chosen, variables)
    refuse_shared_index(settings, chosen, surroundings, reading)
    _warn_unlisted(content, agent_id, reading)
    others = content.places_of_others(agent_id)
    return msgspec.structs.replace(settings, warnings=reading.warnings(except_below=others))


def _settle(
    surroundings: Surroundings, agent_id: str, chosen: Mapping[str, Chosen], variables: Variables
) -> Settings:
    dirs, workspace_origin = surroundings.directories(agent_id, chosen)
    found, keys = surroundings.found, variables.keys()
    return msgspec.structs.replace(
        surroundings.with_claude_code(build_settings(chosen, dirs), dirs),
        workspace=dirs.workspace,
        enabled_key=_key_of(chosen.get("memorySearch.enabled")),
        config_path=found.root.source.path if found.root else None,
        environment_keys=keys,
        origins={
            **dict(_key_origins(chosen)),
            **{name: variables.origin(name) for name in keys},
            "agentId": _agent_origin(surroundings, agent_id),
            "configPath": found.config_origin,
            "stateDir": found.state_origin,
            "workspace": workspace_origin,
        },
    )


def _key_of(chosen: Chosen | None) -> str | None:
    return render_path(chosen.given.at) if chosen and chosen.given else None


def _key_origins(chosen: Mapping[str, Chosen]) -> Iterator[tuple[str, Origin]]:
    """An origin for every key that fills a field, given or not, and for what has a free name."""
    for section in SECTIONS:
        for key in section.keys:
            name = section.documented(key)
            if field_of(section, key):
                yield name, chosen[name].origin if name in chosen else _DEFAULT
    for name, item in chosen.items():
        if item.given and ANY_NAME in item.given.leaf.key.path:
            yield name, item.origin


def _agent_origin(surroundings: Surroundings, agent_id: str) -> Origin:
    if surroundings.request.agent_id:
        return Origin(kind="command-line", detail="--agent")
    entry = surroundings.content.agent(agent_id)
    return Origin(kind="file", detail=render_path(entry.prefixes[0])) if entry else _DEFAULT


def _warn_unlisted(content: FileContent, agent_id: str, reading: Reading) -> None:
    if content.agents and agent_id != MAIN_AGENT and content.agent(agent_id) is None:
        listed = ", ".join(entry.id for entry in content.agents)
        message = f"the agent {agent_id!r} is not listed; listed are {listed}"
        reading.warn(("agents", "list"), None, message)
