"""The base of all faults: a fault happens to a gateway before it starts or while it is at work.

A run is: `before`, start, the activity begins, `inject` at a random instant, `hold_s` while the activity
goes on, `remove`; from there the time to the first right answer counts.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from endurance.run import Run

if TYPE_CHECKING:
    from endurance.database import Database


class Impossible(Exception):  # noqa: N818 - not an error: it is reported
    """This machine cannot do it; the message says why."""


class Fault:
    """A fault that does nothing. Subclasses override what they need."""

    name: ClassVar[str]
    about: ClassVar[str]
    hold_s: ClassVar[float] = 0.0
    """The time for which it lasts while the gateway is at work."""
    needs_host: ClassVar[bool] = False
    needs_database: ClassVar[bool] = False
    """True if the index is in PostgreSQL: the fault is one of the server, or of others who use it."""
    without_host: ClassVar[bool] = False
    tolerates_damaged: ClassVar[bool] = False
    """True if an index may be found damaged and set aside: the fault is the damage."""
    may_prevent_start: ClassVar[bool] = False
    """True if a gateway may refuse to start, with a reason, as long as the fault lasts."""
    kills_gateway: ClassVar[bool] = False
    """True if the fault ends the gateway, and a new one has to be started."""
    runs: ClassVar[int] = 6
    """The usual number of runs of one of its cells."""
    impossible: ClassVar[dict[str, str]] = {}
    """The activities that it cannot be combined with, and the reasons."""

    def require(self) -> None:
        """Raises Impossible where the machine lacks what it needs."""

    async def before(self, run: Run) -> None:
        """Prepares the fault while no process runs."""

    async def inject(self, run: Run) -> None:
        """Begins the fault while the gateway is at work."""

    async def remove(self, run: Run) -> None:
        """Ends a fault that lasts. The gateway may be gone."""

    async def after(self, run: Run) -> None:
        """Cleans up; called in any case, also when `before` failed."""

    def clean(self, root: Path) -> None:
        """Cleans up before the agent under `root` is deleted."""

    def clean_database(self, database: Database) -> None:
        """Cleans up before the server of a cell is stopped."""

    def leftovers(self) -> Collection[str]:
        """Returns the beginnings of names of files that may stay beside the index."""
        return (
            (".main.memory-gateway.sqlite.damaged", "main.memory-gateway.sqlite.damaged")
            if self.tolerates_damaged
            else ()
        )


class Lasting(Fault):
    """A fault that stays until it is removed, so `after` removes it in any case, even a second time."""

    async def after(self, run: Run) -> None:
        await self.remove(run)


def require_root() -> None:
    """Raises Impossible if this user may not mount a file system."""
    if os.geteuid() != 0:
        raise Impossible("only root may mount a tmpfs")
