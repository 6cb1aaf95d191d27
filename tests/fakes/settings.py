"""Effective settings of an agent for tests, at their defaults except for those that are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from config.settings import (
    MemorySearchSettings,
    QmdSessionsSettings,
    QmdSettings,
    RemoteSettings,
    Secret,
    Settings,
    StoreSettings,
)


def make_settings(root: Path, *, agent: str = "main", **changes: Any) -> Settings:
    """Returns settings under `root`. `search` takes the fields of `MemorySearchSettings` as a mapping."""
    search = MemorySearchSettings(
        store=StoreSettings(path=root / f"{agent}.sqlite"), **changes.pop("search", {})
    )
    return Settings(
        agent_id=agent,
        workspace=root / "workspace",
        state_dir=root,
        agent_dir=root / "agents" / agent / "agent",
        sessions_dir=root / "agents" / agent / "sessions",
        config_path=None,
        search=search,
        qmd=QmdSettings(sessions=QmdSessionsSettings(export_dir=root / "qmd")),
        **changes,
    )


def remote(base_url: str | None = None, key: str | None = None, **headers: str) -> RemoteSettings:
    """Returns settings of `remote.*`; header names are given with `_` for `-`."""
    return RemoteSettings(
        base_url=base_url,
        api_key=Secret(key) if key else None,
        headers={name.replace("_", "-"): value for name, value in headers.items()},
    )
