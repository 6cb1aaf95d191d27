"""Whether files that hold keys are closed to others. Looks at modes, reads nothing."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from config.paths import auth_profile_paths
from config.settings import Settings
from gateway.doctor.finding import Finding

_OTHERS: Final = 0o077


def check_secrets(settings: Settings) -> Iterator[Finding]:
    """Nothing to tell where every such file is private."""
    for path in dict.fromkeys(_files_with_keys(settings)):
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
        except OSError:
            continue
        if mode & _OTHERS:
            yield Finding(
                check="secrets",
                severity="warning",
                cause=f"It holds keys, and others may open it (mode {mode:03o}).",
                place=str(path),
                fix=f"chmod 600 {path}",
            )


def _files_with_keys(settings: Settings) -> Iterator[Path]:
    yield settings.state_dir / ".env"
    yield from auth_profile_paths(settings.state_dir, settings.agent_dir)
    keys = [settings.search.remote.api_key]
    keys += [one.api_key for one in settings.model_providers.values()]
    if settings.config_path and any(keys):
        yield settings.config_path
