"""Faults of the provider: every way in which its host can misbehave."""

from __future__ import annotations

from typing import Final

from fakes import faults
from fakes.hub import FakeHub, Misbehaviour
from torturing.faults.base import Fault
from torturing.scene import Scene

KINDS: Final = (
    faults.status(500), faults.status(503), faults.status(401), faults.rate_limited(),
    faults.rate_limited("1"), faults.openai_quota(), faults.fault("hang"), faults.fault("drip"),
    faults.fault("reset"), faults.redirect("http://localhost:1/elsewhere"),
    faults.fault("invalid-json"), faults.fault("html"), faults.fault("huge"), faults.fault("short"),
    faults.fault("reordered"), faults.fault("wrong-dimension"), faults.fault("nan"), faults.fault("zero"),
)  # fmt: skip
HUB_KINDS: Final[tuple[Misbehaviour, ...]] = (
    "drop", "stall", "status", "html", "wrong-bytes", "wrong-size", "no-ranges", "circle",
)  # fmt: skip
_ANEW: Final = ("wrong-bytes", "wrong-size", "no-ranges")
"""What is there has to be fetched again: before the hub is well, and after it."""
_HUB_BYTES: Final = 200_000
"""Of an answer that breaks off, stands still or is cut."""


class Provider(Fault):
    """Keywords answer all the while, and no vector that was made of it may be stored.

    Where a model is fetched, it is the hub that misbehaves.
    """

    name = "provider"
    about = (
        f"{len(KINDS)} ways in which the host of the embeddings misbehaves, for a second; "
        f"{len(HUB_KINDS)} of the hub of a model"
    )
    hold_s = 1.0
    needs_host = True
    runs = len(KINDS)

    async def before(self, scene: Scene) -> None:
        """Some texts have no vector yet, so that the host is asked."""
        scene.subject.edit()

    async def strike(self, scene: Scene) -> None:
        assert scene.subject.host is not None
        if scene.subject.hub is not None:
            kind = HUB_KINDS[scene.number % len(HUB_KINDS)]
            _spoil(scene.subject.hub, kind)
            scene.refetched = 2 * (kind in _ANEW)
        else:
            scene.subject.host.misbehave(KINDS[scene.number % len(KINDS)])

    async def lift(self, scene: Scene) -> None:
        assert scene.subject.host is not None
        scene.subject.host.heal()
        if scene.subject.hub is not None:
            scene.subject.hub.heal()
            scene.subject.hub.hang_up()

    async def after(self, scene: Scene) -> None:
        await self.lift(scene)


def _spoil(hub: FakeHub, kind: Misbehaviour) -> None:
    """The answer under way is broken off, and those that follow are of this kind."""
    hub.misbehave(kind, times=None, after=_HUB_BYTES, status=503)
    hub.hang_up()
