"""From the shared options to the settings of one agent."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec.structs import replace

from config.errors import ConfigNotFoundError
from config.loading.load import LoadRequest, load_settings
from config.settings import Settings, StartedAs
from gateway.cli.options import Options


def load(options: Options, started_as: StartedAs = "command") -> Settings:
    """Raises ConfigInvalidError, ConfigNotFoundError."""
    return replace(load_settings(load_request(options)), started_as=started_as)


def load_request(options: Options) -> LoadRequest:
    """What to load, as the options say. Raises ConfigNotFoundError."""
    try:
        here = Path.cwd()
    except FileNotFoundError:
        raise ConfigNotFoundError(
            "The working directory does not exist any more.", remedy="Change to another directory."
        ) from None
    return LoadRequest(
        environment=os.environ,
        cwd=here,
        agent_id=options.agent,
        config_path=options.config,
        state_dir=options.state_dir,
        workspace=options.workspace,
        claude_code=options.claude_code,
    )
