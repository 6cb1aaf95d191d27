"""All parts of one working QMD put together, and kept working until cancelled.

Owns the order of starting: collections, server, first update, schedule; and the repair of a damaged index,
for which the server must not hold the old file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import anyio

from backends.qmd.models import SearchMode, absent, missing_models
from backends.qmd.places import Places
from backends.qmd.schedule import Schedule
from backends.qmd.server import WarmServer
from backends.qmd.sidecar import Sidecar
from backends.qmd.upkeep import Upkeep
from config.settings import QmdSettings


class Engine:
    """One QMD at work."""

    def __init__(
        self,
        sidecar: Sidecar,
        settings: QmdSettings,
        places: Places,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self.sidecar = sidecar
        self._settings = settings
        self.upkeep = Upkeep(sidecar, places, settings.update, environment)
        self.schedule = Schedule(
            self.upkeep, settings.update, may_embed=self._may_embed, repair=self._repair
        )
        self.server = WarmServer(sidecar)
        self.index_is_kept = False
        """Whether the index of an earlier run answers, without an update at the start."""

    async def run(self, *, ready: Callable[[], None]) -> None:
        """Works until cancelled; `ready` is called when QMD may be asked."""
        at_once = self._settings.update.on_boot or not self.sidecar.home.index.exists()
        self.index_is_kept = not at_once
        if not at_once:
            await self.upkeep.register()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.server.run)
            ready()
            await self.schedule.run(at_once=at_once)

    def why_not_ready(self) -> str | None:
        """Why an empty answer would mean nothing now; None when QMD knows the files."""
        if not self.schedule.updated.is_set():
            if self.index_is_kept:
                return None
            return self.schedule.last_error or "QMD's first update has not ended."
        if self.sidecar.home.index_identity() != self.upkeep.index:
            self.schedule.request()
            return "QMD's index is new and not filled yet."
        return None

    @property
    def search_mode(self) -> SearchMode:
        """What can be done now: words alone until the models and the vectors are there."""
        if not self._may_embed() or self.schedule.embedded_at is None:
            return "search"
        return self._settings.search_mode

    @property
    def missing_models(self) -> tuple[str, ...]:
        return missing_models(
            self._settings.search_mode, self.sidecar.models, self.sidecar.home.models
        )

    @property
    def warning(self) -> str | None:
        """Why answers are weaker than configured."""
        wanted = self._settings.search_mode
        if wanted in ("search", self.search_mode):
            return None
        if missing := self.missing_models:
            return (
                f"QMD searches by words only: {absent(missing)} "
                "(memory-gateway qmd -- pull fetches QMD's models)."
            )
        return "QMD searches by words only until its embeddings are computed."

    def _may_embed(self) -> bool:
        return self._settings.search_mode != "search" and not self.missing_models

    async def _repair(self) -> None:
        """QMD never repairs: the damaged file goes aside, and the server to a new one."""
        await self.upkeep.set_index_aside()
        self.server.suspect()
