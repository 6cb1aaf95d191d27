"""Faults of disks that do not answer for a while: that of the notes, and that of the index."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from fakes import hung_disk
from fakes.hung_disk import HungDisk
from torturing.faults.base import Fault, Impossible
from torturing.scene import Scene


class _Hung(Fault):
    hold_s = 3.0
    runs = 3
    impossible: ClassVar = {
        "download": "a model is loaded by a process of its own, which is not told apart",
    }

    def __init__(self) -> None:
        self._disk: HungDisk | None = None

    def require(self) -> None:
        if not hung_disk.is_possible():
            raise Impossible(hung_disk.NEEDS)

    def below(self, scene: Scene) -> tuple[Path, ...]:
        raise NotImplementedError

    async def before(self, scene: Scene) -> None:
        self._disk = HungDisk(scene.subject.root, *self.below(scene))
        scene.launch.environment = self._disk.environment

    async def strike(self, _scene: Scene) -> None:
        assert self._disk is not None
        self._disk.hang()

    async def lift(self, _scene: Scene) -> None:
        if self._disk is not None:
            self._disk.answer()

    async def after(self, scene: Scene) -> None:
        await self.lift(scene)


class HungNotes(_Hung):
    name = "hung-notes"
    about = "the disk of notes and transcripts answers nothing for 3 s"

    def below(self, scene: Scene) -> tuple[Path, ...]:
        return (scene.subject.workspace, scene.subject.state / "agents")


class HungIndex(_Hung):
    name = "hung-index"
    about = "the disk of the index answers nothing for 3 s"

    def below(self, scene: Scene) -> tuple[Path, ...]:
        return (scene.subject.index.parent,)
