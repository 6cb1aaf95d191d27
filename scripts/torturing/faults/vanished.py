"""Faults of the place of the notes: it is away for a while, as an unmounted disk is."""

from __future__ import annotations

from pathlib import Path

from torturing.faults.base import Fault
from torturing.scene import Scene

_WRITES = "it writes into the workspace, which is away meanwhile"


class VanishedWorkspace(Fault):
    """The workspace is renamed, later renamed back; answers meanwhile are stale."""

    name = "vanished"
    about = "the workspace is renamed for a second, then back: no row may leave the index"
    hold_s = 1.0
    impossible = dict.fromkeys(("first-index", "re-sync", "rebuild", "batch", "download"), _WRITES)

    async def strike(self, scene: Scene) -> None:
        scene.subject.workspace.rename(_aside(scene))

    async def lift(self, scene: Scene) -> None:
        aside = _aside(scene)
        if aside.exists():
            aside.rename(scene.subject.workspace)

    async def after(self, scene: Scene) -> None:
        await self.lift(scene)


def _aside(scene: Scene) -> Path:
    return scene.subject.workspace.with_name("workspace-aside")
