"""When the resident vectors are loaded, renewed and given back.

Owns the one task that does it, in threads and beside the searches, which never wait for it: loaded after
the first answer, level again soon after each change, gone when nobody searches or memory is short.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import anyio
import structlog
from anyio.to_thread import run_sync

from backends.builtin.vectors import store
from backends.builtin.vectors.pressure import memory_is_short
from backends.errors import IndexUnavailableError

if TYPE_CHECKING:
    from backends.builtin.storage.database import Database
    from backends.builtin.vectors.select import VectorSearch
    from providers.fingerprint import Fingerprint

_log = structlog.get_logger(__name__)

IDLE_S: Final = 30 * 60.0
"""Loading a hundred thousand vectors again takes a second or two."""
_LOOK_S: Final = 10.0
"""How often memory and idleness are looked at while vectors are held."""
_SHORTEST_PAUSE_S: Final = 0.1
_SHARE: Final = 0.1
"""Of one core, at most, for renewals while changes keep coming."""


class Upkeep:
    """Belongs to one event loop; `run` must be running."""

    def __init__(
        self,
        database: Database,
        engines: VectorSearch,
        *,
        idle_s: float = IDLE_S,
        look_s: float = _LOOK_S,
        is_short: Callable[[], bool] = memory_is_short,
    ) -> None:
        self._database = database
        self._engines = engines
        self._idle_s = idle_s
        self._look_s = look_s
        self._is_short = is_short
        self._wake = anyio.Event()
        self._wanted: Fingerprint | None = None
        """Whose vectors were searched last; None: nobody's since they were given back."""
        self._used_at = 0.0
        self._behind = False

    def used(self, fingerprint: Fingerprint) -> None:
        """A search was answered by the vectors of this provider."""
        self._used_at = anyio.current_time()
        if self._wanted != fingerprint:
            self._wanted = fingerprint
            self.changed()

    def changed(self) -> None:
        """Chunks or vectors were written."""
        self._behind = True
        if self._wanted is not None:
            self._wake.set()

    async def run(self) -> None:
        """Works until cancelled."""
        try:
            while True:
                await self._woken()
                if self._wanted is None:
                    continue
                if reason := await self._reason_to_release():
                    self._engines.release()
                    self._wanted = None
                    _log.info("resident vectors given back", reason=reason)
                elif self._behind:
                    await self._renew(self._wanted)
        finally:
            self._engines.release()  # also ends a loading that is under way

    async def _woken(self) -> None:
        with anyio.move_on_after(None if self._wanted is None else self._look_s):
            await self._wake.wait()
        self._wake = anyio.Event()

    async def _reason_to_release(self) -> str | None:
        if anyio.current_time() - self._used_at >= self._idle_s:
            return "nobody searched"
        return "memory is short" if await run_sync(self._is_short) else None

    async def _renew(self, fingerprint: Fingerprint) -> None:
        self._behind = False
        started = anyio.current_time()
        try:
            await run_sync(self._refresh, fingerprint, abandon_on_cancel=True)
        except IndexUnavailableError as error:
            _log.warning("resident vectors not renewed", error=str(error), kind=error.kind)
        except Exception:  # noqa: BLE001 - ours; another engine answers, and the process must go on
            _log.exception("resident vectors not renewed")
        spent = anyio.current_time() - started
        await anyio.sleep(max(_SHORTEST_PAUSE_S, spent * (1 / _SHARE - 1)))

    def _refresh(self, fingerprint: Fingerprint) -> None:
        with self._database.reading() as connection:
            number = store.fingerprint_id(connection, fingerprint)
            if number is not None:
                self._engines.refresh(connection, number)
