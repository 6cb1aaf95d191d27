"""Refusing what was meant otherwise: a workspace or an agent that is nowhere.

Owns the question whether anybody knows them. Looks at the disk, makes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from config import paths
from config.errors import ConfigNotFoundError
from config.loading.load import read_content
from config.settings import Settings
from config.source.discover import LoadRequest, discover
from config.source.environment import gather_variables
from config.source.located import Reading


def refuse_slips(
    request: LoadRequest, settings: Settings, is_known: Callable[[Settings], bool]
) -> None:
    """Raises `ConfigNotFoundError`, which names what there is instead.

    `is_known`: whether a workspace that does not exist was one, whose disk may be away.
    """
    if request.notes is not None:
        return  # found when it was discovered
    is_missing = request.workspace is not None and not settings.workspace.is_dir()
    if is_missing and (paths.exists(settings.workspace) or not is_known(settings)):
        raise _no_workspace(request, settings)
    if request.agent_id is not None and request.workspace is None:
        _refuse_unknown(request, settings)


def _no_workspace(request: LoadRequest, settings: Settings) -> ConfigNotFoundError:
    usual = _usual_workspace(request)
    there = "is no directory" if paths.exists(settings.workspace) else "does not exist"
    known = (
        f"The workspace of agent {settings.agent_id} is {usual}."
        if usual is not None
        else "Make it first, if it is to be a new one."
    )
    return ConfigNotFoundError(
        f"The workspace {settings.workspace}, which --workspace names, {there}.",
        remedy=f"Correct --workspace. {known}",
    )


def _usual_workspace(request: LoadRequest) -> Path | None:
    """The workspace without the option, if there is one."""
    import msgspec  # noqa: PLC0415 - only for a message

    from config.loading.load import load_settings  # noqa: PLC0415 - likewise

    usual = load_settings(msgspec.structs.replace(request, workspace=None)).workspace
    return usual if usual.is_dir() else None


def _refuse_unknown(request: LoadRequest, settings: Settings) -> None:
    found = discover(request)
    variables = gather_variables(request.environment, found.state_dir, found.root)
    content = read_content(found.root, Reading(variables.values))
    listed = {entry.id for entry in content.agents} | {name for name, _ in content.at_home}
    agent_id = settings.agent_id
    if agent_id in listed or agent_id == content.default_agent:
        return
    places = (settings.workspace, settings.agent_dir.parent, settings.search.store.path)
    if any(paths.exists(place) for place in places):
        return
    known = sorted({content.default_agent, *listed, *_with_directories(settings.state_dir)})
    raise ConfigNotFoundError(
        f"There is no agent {agent_id!r}: neither the configuration nor {settings.state_dir} knows it.",
        remedy=f"Known: {', '.join(known)}. A new agent is named with its --workspace.",
    )


def _with_directories(state: Path) -> set[str]:
    try:
        with os.scandir(state / "agents") as entries:
            return {entry.name for entry in entries if entry.is_dir()}
    except OSError:
        return set()
