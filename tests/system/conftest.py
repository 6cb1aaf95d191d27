"""A real workspace, an empty home, and gateways that are real processes."""

from __future__ import annotations

import json
import os
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from gateway.client import SpawnedGateway, spawn_gateway

NOTES = {
    "MEMORY.md": "# Memory\n\n- The boiler is serviced by Hartmann, every October.\n",
    "memory/2026-02-01.md": (
        "# 2026-02-01\n\n## 09:00\n\n- The greenhouse sensor reported minus four degrees.\n"
        "- Ordered a new membrane for the heating pump.\n"
    ),
    "memory/2026-02-02.md": "# 2026-02-02\n\n- 今天和供应商谈了茶叶的价格。\n- Тренировка перенесена на четверг.\n",
    "memory/projects/server.md": "# Server move\n\n- Commit `a828e60` fixes `memorySearch.query.hybrid`.\n",
}  # fmt: skip


class Home:
    """An isolated home with one workspace. Nothing of the machine's own configuration is seen."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.workspace = root / "workspace"
        self.state = root / "state"
        self.config = root / "openclaw.json"
        self.state.mkdir(parents=True)
        self.configure({})
        for path, text in NOTES.items():
            self.write(path, text)

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        return {**kept, "HOME": str(self.root), "PYTHONDONTWRITEBYTECODE": "1"}

    @property
    def arguments(self) -> list[str]:
        return [
            "--config", str(self.config), "--workspace", str(self.workspace),
            "--state-dir", str(self.state),
        ]  # fmt: skip

    def configure(self, content: dict[str, object]) -> None:
        self.config.write_text(json.dumps(content), encoding="utf-8")

    def write(self, path: str, text: str) -> Path:
        file = self.workspace / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def gateway(self, *arguments: str) -> AbstractAsyncContextManager[SpawnedGateway]:
        """The daemon on this home: `async with home.gateway() as client`."""
        return spawn_gateway([*self.arguments, *arguments], environment=self.environment)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")
