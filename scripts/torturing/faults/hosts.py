"""Faults of the provider: every way in which its host can misbehave."""

from __future__ import annotations

from typing import Final

from fakes import faults
from torturing.faults.base import Fault
from torturing.scene import Scene

KINDS: Final = (
    faults.status(500), faults.status(503), faults.status(401), faults.rate_limited(),
    faults.rate_limited("1"), faults.openai_quota(), faults.fault("hang"), faults.fault("drip"),
    faults.fault("reset"), faults.redirect("http://localhost:1/elsewhere"),
    faults.fault("invalid-json"), faults.fault("html"), faults.fault("huge"), faults.fault("short"),
    faults.fault("reordered"), faults.fault("wrong-dimension"), faults.fault("nan"), faults.fault("zero"),
)  # fmt: skip


class Provider(Fault):
    """Keywords answer all the while, and no vector that was made of it may be stored."""

    name = "provider"
    about = f"{len(KINDS)} ways in which the host of the embeddings misbehaves, for a second"
    hold_s = 1.0
    needs_host = True
    runs = len(KINDS)

    async def before(self, scene: Scene) -> None:
        """Some texts have no vector yet, so that the host is asked."""
        scene.subject.edit()

    async def strike(self, scene: Scene) -> None:
        assert scene.subject.host is not None
        scene.subject.host.misbehave(KINDS[scene.number % len(KINDS)])

    async def lift(self, scene: Scene) -> None:
        assert scene.subject.host is not None
        scene.subject.host.heal()

    async def after(self, scene: Scene) -> None:
        await self.lift(scene)
