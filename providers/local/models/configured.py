"""What the configuration says about models: which one, where they are kept, and as whom to fetch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from config.paths import home_dir, variable
from config.settings import Settings


class ConfiguredModels(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `obtain` and `locate`."""

    reference: str
    """`memorySearch.local.modelPath`, or the default model."""
    cache_dir: Path
    environment: Mapping[str, str]
    """Holds a secret: never shown."""


def configured_models(settings: Settings, environment: Mapping[str, str]) -> ConfiguredModels:
    """`environment`: of the process; HF_TOKEN may also come from `.env` or the `env` block.

    Raises `ConfigNotFoundError` for a user without a home.
    """
    token = settings.environment_keys.get("HF_TOKEN")
    local = settings.search.local
    return ConfiguredModels(
        reference=local.model_path,
        cache_dir=local.model_cache_dir or default_cache_dir(environment),
        environment={**environment, **({"HF_TOKEN": token.reveal()} if token else {})},
    )


def default_cache_dir(environment: Mapping[str, str]) -> Path:
    """`memory-gateway/models` in XDG_CACHE_HOME (a relative one does not count) or `~/.cache`."""
    named = variable(environment, "XDG_CACHE_HOME")
    if named and Path(named[1]).is_absolute():
        cache = Path(named[1])
    else:
        cache = home_dir(environment, Path("/")) / ".cache"
    return cache / "memory-gateway" / "models"
