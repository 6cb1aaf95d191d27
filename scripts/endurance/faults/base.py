"""What every fault is: something that happens to a gateway before it starts or while it is at work.

A run goes: `before`, start, the activity begins, `inject` at a random instant, `hold_s` while the activity
goes on, `remove`, and from there the time to the first right answer counts.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from endurance.run import Run

if TYPE_CHECKING:
    from endurance.database import Database


class Impossible(Exception):  # noqa: N818 - it is no error, it is said
    """This machine cannot do it; the message says why."""


class Fault:
    """Does nothing by itself. Subclasses override what they need."""

    name: ClassVar[str]
    about: ClassVar[str]
    hold_s: ClassVar[float] = 0.0
    """How long it lasts while the gateway is at work."""
    needs_host: ClassVar[bool] = False
    needs_database: ClassVar[bool] = False
    """Whether the index is in PostgreSQL: the fault is one of the server, or of those who share it."""
    without_host: ClassVar[bool] = False
    tolerates_damaged: ClassVar[bool] = False
    """Whether an index may be found damaged and set aside: the fault is the damage."""
    may_prevent_start: ClassVar[bool] = False
    """Whether a gateway may refuse to start, with a reason, as long as it lasts."""
    kills_gateway: ClassVar[bool] = False
    """Whether the gateway ends by it, and a new one has to be started."""
    runs: ClassVar[int] = 6
    """What is usual for one of its cells."""
    impossible: ClassVar[dict[str, str]] = {}
    """Activities that it cannot meet, with the reason."""

    def require(self) -> None:
        """Raises Impossible where the machine lacks what it needs."""

    async def before(self, run: Run) -> None:
        """While no process runs."""

    async def inject(self, run: Run) -> None:
        """While the gateway is at work."""

    async def remove(self, run: Run) -> None:
        """Ends what lasts. The gateway may be gone."""

    async def after(self, run: Run) -> None:
        """Cleans up; called in any case, also when `before` failed."""

    def clean(self, root: Path) -> None:
        """Before the agent below `root` is deleted."""

    def clean_database(self, database: Database) -> None:
        """Before the server of a cell goes."""

    def leftovers(self) -> Collection[str]:
        """Beginnings of names that may stay beside the index."""
        return (
            (".main.memory-gateway.sqlite.damaged", "main.memory-gateway.sqlite.damaged")
            if self.tolerates_damaged
            else ()
        )


class Lasting(Fault):
    """Stays until it is removed, so it is removed in any case, once more if need be."""

    async def after(self, run: Run) -> None:
        await self.remove(run)


def require_root() -> None:
    """For a mount. Raises Impossible."""
    if os.geteuid() != 0:
        raise Impossible("only root may mount a tmpfs")
