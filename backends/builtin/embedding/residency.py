"""When the resident vectors are loaded, renewed, and given back, also when the machine is short of memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from backends.backend_errors import IndexUnavailableError
from config.runtime.logs import Log
from config.runtime.priority import SearchPriority
from config.runtime.system import PROC
from config.runtime.tasks import BoundedWork, ResettableEvent

if TYPE_CHECKING:
    from backends.builtin.store.port import Store, VectorMemory
    from providers.provider_interface import Fingerprint


STALLED_PERCENT: Final = 10.0
_PROC: Final = Path(PROC)
_CGROUPS: Final = Path("/sys/fs/cgroup")
_SOME: Final = re.compile(r"^some avg10=([0-9.]+)", re.MULTILINE)
_log = Log()


def memory_is_short(proc: Path = _PROC, cgroups: Path = _CGROUPS) -> bool:
    """Reads two small files; never raises."""
    return any(_stalled(path) >= STALLED_PERCENT for path in _sources(proc, cgroups))


def _sources(proc: Path, cgroups: Path) -> Iterator[Path]:
    yield proc / "pressure" / "memory"
    try:
        groups = (proc / "self" / "cgroup").read_text(encoding="utf-8")
    except OSError:
        return
    for line in groups.splitlines():
        if line.startswith("0::/"):
            yield cgroups / line.removeprefix("0::/") / "memory.pressure"


def _stalled(path: Path) -> float:
    try:
        found = _SOME.search(path.read_text(encoding="utf-8"))
    except OSError:
        return 0.0
    return float(found[1]) if found else 0.0


IDLE_S: Final = 30 * 60.0
"""Loading a hundred thousand vectors again takes a second or two."""
_LOOK_S: Final = 10.0
"""How often memory and idleness are looked at while vectors are held."""
_SHORTEST_PAUSE_S: Final = 0.1
_SHARE: Final = 0.1
"""The largest share of one core that renewals take while changes keep coming."""


class Residency:
    """Belongs to one event loop; `run` must be running."""

    def __init__(
        self,
        store: Store,
        held: VectorMemory,
        priority: SearchPriority,
        *,
        idle_s: float = IDLE_S,
        look_s: float = _LOOK_S,
        is_short: Callable[[], bool] = memory_is_short,
    ) -> None:
        self._store = store
        self._held = held
        self._priority = priority
        self._disk = BoundedWork("residency of vectors")
        self._idle_s = idle_s
        self._look_s = look_s
        self._is_short = is_short
        self._wake = ResettableEvent()
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
                    self._held.release()
                    self._wanted = None
                    _log.info("resident vectors given back", reason=reason)
                elif self._behind:
                    await self._renew(self._wanted)
        finally:
            self._held.release()  # also ends a loading that is under way

    async def _woken(self) -> None:
        with anyio.move_on_after(None if self._wanted is None else self._look_s):
            await self._wake.wait()
        self._wake.clear()

    async def _reason_to_release(self) -> str | None:
        if anyio.current_time() - self._used_at >= self._idle_s:
            return "nobody searched"
        return "memory is short" if await self._disk.run_out(self._is_short) else None

    async def _renew(self, fingerprint: Fingerprint) -> None:
        self._behind = False
        started = anyio.current_time()
        try:
            refresh = partial(self._refresh, fingerprint)
            await self._disk.run_out(self._priority.polite("vectors in memory", refresh))
        except IndexUnavailableError as error:
            _log.warning("resident vectors not renewed", error=str(error), kind=error.kind)
        except Exception:  # noqa: BLE001 - ours; another engine answers, and the process must go on
            _log.exception("resident vectors not renewed")
        spent = anyio.current_time() - started
        await anyio.sleep(max(_SHORTEST_PAUSE_S, spent * (1 / _SHARE - 1)))

    def _refresh(self, fingerprint: Fingerprint) -> None:
        with self._store.view() as view:
            space = view.vectors(fingerprint)
            if space is not None:
                space.refresh(self._priority.give_way)
