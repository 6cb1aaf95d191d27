"""Finding the state directory and the configuration file, and reading the latter.

A file that was named must exist; a file that was merely looked for need not.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from config import paths
from config.errors import ConfigNotFoundError
from config.settings import Origin
from config.source.located import Located


class LoadRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Whose settings to load, and what the command line says about where things are."""

    environment: Mapping[str, str]
    cwd: Path
    """Relative paths of the command line, the environment and most keys are taken from here."""
    agent_id: str | None = None
    """None: the default agent of the configuration."""
    config_path: str | Path | None = None
    state_dir: str | Path | None = None
    workspace: str | Path | None = None
    claude_code: bool = False
    """Adds Claude Code's memory, whatever the file says."""


class Found(msgspec.Struct, frozen=True):
    """What there is before any key is looked at."""

    home: Path
    state_dir: Path
    state_origin: Origin
    root: Located | None
    """None: there is no configuration file."""
    config_origin: Origin


def discover(request: LoadRequest) -> Found:
    """Raises `ConfigNotFoundError` for a named file that is missing, else `ConfigInvalidError`."""
    home = paths.home_dir(request.environment, request.cwd)
    state, state_origin = _state_dir(request, home)
    root, config_origin = _named_config(request, home) or _usual_config(request, home, state)
    return Found(home, state, state_origin, root, config_origin)


def _state_dir(request: LoadRequest, home: Path) -> tuple[Path, Origin]:
    if request.state_dir is not None:
        chosen = paths.resolve_path(str(request.state_dir), home=home, base=request.cwd)
        return chosen, Origin(kind="command-line", detail="--state-dir")
    named = paths.variable(request.environment, *paths.STATE_DIR_VARIABLES)
    origin = Origin(kind="environment", detail=named[0]) if named else Origin(kind="default")
    return paths.state_dir(request.environment, home=home, cwd=request.cwd), origin


def _named_config(request: LoadRequest, home: Path) -> tuple[Located, Origin] | None:
    if request.config_path is not None:
        text, origin = str(request.config_path), Origin(kind="command-line", detail="--config")
    else:
        named = paths.variable(request.environment, *paths.CONFIG_PATH_VARIABLES)
        if named is None:
            return None
        text, origin = named[1], Origin(kind="environment", detail=named[0])
    path = paths.resolve_path(text, home=home, base=request.cwd)
    root = _read(path)
    if root is None:
        message = f"There is no configuration file {path}, which {origin.detail} names."
        remedy = f"Correct {origin.detail}, or leave it out to use the usual places."
        raise ConfigNotFoundError(message, remedy=remedy)
    return root, origin


def _usual_config(request: LoadRequest, home: Path, state: Path) -> tuple[Located | None, Origin]:
    everywhere = request.state_dir is None
    for path in paths.config_candidates(state, home=home, everywhere=everywhere):
        root = _read(path) if paths.exists(path) else None
        if root is not None:
            return root, Origin(kind="default")
    return None, Origin(kind="default")


def _read(path: Path) -> Located | None:
    from config.source.includes import resolve_includes  # noqa: PLC0415 - only when there is a file
    from config.source.json5 import read_json5, require_object  # noqa: PLC0415 - likewise

    try:
        return require_object(resolve_includes(read_json5(path)))
    except FileNotFoundError:
        return None
