"""The upkeep of one QMD: registering collections, updating and embedding on time, one change at a time."""

from __future__ import annotations

import os
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Final

import anyio
import msgspec
from anyio.to_thread import run_sync

from backends.files.scan import FoundFile, scan
from backends.qmd.collections import CollectionPlaces
from backends.qmd.process import QmdUnavailableError, SearchMode, absent, embed_lock, missing_models
from backends.qmd.server import WarmServer
from backends.qmd.sidecar import Registered, Sidecar, register
from config.runtime.files import open_lock, try_lock
from config.runtime.logs import Log
from config.runtime.tasks import Backoff, ResettableEvent
from config.settings import QmdSettings, QmdUpdateSettings, Source

_COUNTS = re.compile(r"Indexed: (\d+) new, (\d+) updated, (\d+) unchanged, (\d+) removed")
_OTHER_MODEL = re.compile(r"dimension|embed -f|different (?:embedding )?model", re.IGNORECASE)
_BUSY: Final = "already running"
_SMALL_BATCH: Final = ("--max-docs-per-batch", "8")
"""Progress is saved after each batch, and a small one ends in time on a slow machine, too."""
_LOG_PATIENCE_MS: Final = 2000
_POLL_S: Final = 0.1


Away = Callable[[], Awaitable[str | None]]
"""Returns the reason why notes are missing that may come back, if there is one."""
_log = Log()


class UpdateCounts(msgspec.Struct, frozen=True):
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0


class Upkeep:
    """Changes one index. All methods raise QmdUnavailableError."""

    def __init__(
        self,
        sidecar: Sidecar,
        places: CollectionPlaces,
        settings: QmdUpdateSettings,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._sidecar = sidecar
        self._places = places
        self._settings = settings
        self._environment = environment
        self._embed_lock = embed_lock(environment)
        self._changing = anyio.Lock()
        self.registered = Registered()
        self.seen: Mapping[str, FoundFile] = {}
        """The files as they were when the last good update began, by shown name."""
        self.index: tuple[int, int] | None = None
        """The identity of the index that this update wrote: another one is not filled yet."""

    def searched(self, sources: Collection[Source] | None = None) -> tuple[str, ...]:
        """Returns the collections worth asking: QMD searches each one separately, even an empty one."""
        collections = self._places.roots.collections
        filled = {collections[one.root].name for one in self.seen.values()}
        wanted = {one.name for one in collections if sources is None or one.source in sources}
        known = wanted & self.registered.names
        return tuple(sorted(filled & known or known))

    async def register(self) -> None:
        """Makes the planned collections known."""
        async with self._alone():
            await self._register()

    async def update(self) -> UpdateCounts:
        """Exports transcripts, registers the collections and lets QMD read what changed in them."""
        async with self._alone():
            await run_sync(self._places.exports.refresh)
            await self._register()
            seen = await run_sync(lambda: self._places.seen_by_qmd(scan(self._places.roots).files))
            finished = await self._sidecar.change(
                "update", timeout_s=self._settings.update_timeout_ms / 1000
            )
        self.seen, self.index = seen, self._sidecar.home.index_identity()
        counts = _COUNTS.findall(finished.stdout)
        return UpdateCounts(*(sum(map(int, column)) for column in zip(*counts, strict=True)))

    async def cleanup(self) -> None:
        """Drops the text of deleted and older files from the database for good."""
        async with self._alone():
            await self._sidecar.change("cleanup", timeout_s=self._settings.update_timeout_ms / 1000)
            await run_sync(_empty_log, self._sidecar.home.index)

    async def embed(self) -> None:
        """Computes the vectors that are missing; waits while another agent of this user does."""
        arguments = ("embed", *_SMALL_BATCH)
        timeout_s = self._settings.embed_timeout_ms / 1000
        async with self._locked(self._embed_lock), self._alone():
            finished = await self._sidecar.run(*arguments, timeout_s=timeout_s, niced=True)
            if finished.returncode != 0 and _OTHER_MODEL.search(finished.stderr + finished.stdout):
                finished = await self._sidecar.run(
                    *arguments, "-f", timeout_s=timeout_s, niced=True
                )
        if finished.returncode != 0 or _BUSY in finished.stderr + finished.stdout:
            raise QmdUnavailableError(finished.cause, f"qmd embed failed: {finished.complaint}.")

    async def vectors(self) -> int:
        """Returns the number of vectors; 0 if it is unknown."""
        return await run_sync(_count_vectors, self._sidecar.home.index)

    async def set_index_aside(self) -> None:
        """Renames an unusable index, of which only the newest is kept. QMD makes a new one."""
        async with self._alone():
            await run_sync(_set_aside, self._sidecar.home.index)

    async def _register(self) -> None:
        timeout_s = self._settings.command_timeout_ms / 1000
        try:
            self.registered = await register(
                self._sidecar, self._places.roots.collections, timeout_s=timeout_s
            )
        except OSError as error:
            raise QmdUnavailableError(
                "broken", f"QMD's configuration cannot be written: {error}."
            ) from None

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        home = self._sidecar.home
        async with self._changing:
            try:
                await run_sync(home.prepare, self._environment)  # somebody may have removed it
            except OSError as error:
                raise QmdUnavailableError(
                    "broken", f"{home.root} cannot be made: {error}."
                ) from None
            async with self._locked(home.lock):
                yield

    @asynccontextmanager
    async def _locked(self, path: Path) -> AsyncIterator[None]:
        try:
            async with file_lock(path):
                yield
        except OSError as error:
            raise QmdUnavailableError("broken", f"{path} cannot be locked: {error}.") from None


@asynccontextmanager
async def file_lock(path: Path) -> AsyncIterator[None]:
    """Waits until nobody else holds the lock. Raises OSError when the file cannot be opened."""
    descriptor = open_lock(path)
    try:
        while not try_lock(descriptor):  # noqa: ASYNC110 - another process sets no event
            await anyio.sleep(_POLL_S)
        yield
    finally:
        os.close(descriptor)


def _set_aside(index: Path) -> None:
    for suffix in ("-wal", "-shm"):
        index.with_name(index.name + suffix).unlink(missing_ok=True)
    if index.exists():
        index.replace(index.with_name(f"{index.name}.damaged"))


def _empty_log(index: Path) -> None:
    """Empties the write-ahead log, which keeps deleted text while a server has the index open."""
    import apsw  # noqa: PLC0415 - only here and in status is the index itself opened

    try:
        with closing(apsw.Connection(str(index), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
            connection.set_busy_timeout(_LOG_PATIENCE_MS)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except apsw.Error as error:
        raise QmdUnavailableError("broken", f"QMD's log cannot be emptied: {error}.") from None


def _count_vectors(index: Path) -> int:
    import apsw  # noqa: PLC0415 - as above

    try:
        with closing(apsw.Connection(str(index), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            connection.set_busy_timeout(_LOG_PATIENCE_MS)
            return int(connection.execute("SELECT count(*) FROM content_vectors").get)
    except apsw.Error:
        return 0


FIRST_PAUSE_S: Final = 1.0
SECOND_PAUSE_S: Final = 60.0
LONGEST_PAUSE_S: Final = 3600.0
CLEANUP_EVERY_S: Final = 300.0
AWAY_PAUSE_S: Final = 10.0
"""The pause between two checks whether a disk is back."""


class Schedule:
    """The upkeep of one index over time."""

    def __init__(
        self,
        upkeep: Upkeep,
        settings: QmdUpdateSettings,
        *,
        may_embed: Callable[[], bool],
        repair: Callable[[], Awaitable[None]],
        away: Away,
    ) -> None:
        """`away`: see `backends.qmd.backend.open_qmd`."""
        self._upkeep = upkeep
        self._away = away
        self._settings = settings
        self._may_embed = may_embed
        self._repair = repair
        self._wake = ResettableEvent()
        self._round = anyio.Lock()
        self._embedding = anyio.Lock()
        self._running: list[str] = []
        self._update_pause = Backoff(FIRST_PAUSE_S, SECOND_PAUSE_S, LONGEST_PAUSE_S)
        self._embed_pause = Backoff(SECOND_PAUSE_S, 2 * SECOND_PAUSE_S, LONGEST_PAUSE_S)
        self._away_pause = Backoff(FIRST_PAUSE_S, AWAY_PAUSE_S, AWAY_PAUSE_S)
        self._unclean_since: float | None = None
        self._cleaned_at = -CLEANUP_EVERY_S
        self.updated_at: float | None = None
        """The start of the last successful update, by the monotonic clock like the other times here."""
        self.embedded_at: float | None = None
        self.last_error: str | None = None
        self.embed_error: str | None = None
        self.updated = anyio.Event()
        """Set once an update of this process has succeeded."""

    def request(self) -> None:
        """Asks for an update soon, but not sooner than `debounceMs` after the last one."""
        self._wake.set()

    async def run(self, *, at_once: bool) -> None:
        """Works until cancelled."""
        if at_once:
            self._wake.set()
        async with anyio.create_task_group() as tasks:
            while True:
                await self._next()
                self._wake.clear()
                try:
                    await self._refresh("scheduled")
                except QmdUnavailableError as error:
                    _log.warning("qmd upkeep failed", error=str(error), cause=error.cause)
                    continue
                if not self._embedding.locked():
                    tasks.start_soon(self._embed)

    async def round(self, reason: str, *, force: bool = False) -> UpdateCounts:
        """Runs one update, with cleaning up and embedding when they are due.

        Raises QmdUnavailableError when the update fails; a failed embedding only delays the next.
        """
        counts = await self._refresh(reason, force=force)
        await self._embed(force=force)
        return counts

    @property
    def running(self) -> str | None:
        """The commands that run now, or wait for their turn."""
        return ", ".join(self._running) or None

    @contextmanager
    def _noted(self, what: str) -> Iterator[None]:
        self._running.append(what)
        try:
            yield
        finally:
            self._running.remove(what)

    async def _refresh(self, reason: str, *, force: bool = False) -> UpdateCounts:
        async with self._round:
            await self._check_places()
            started = time.monotonic()
            try:
                counts = await self._update()
            except QmdUnavailableError as error:
                self.last_error = str(error)
                self._update_pause.failed()
                self._wake.set()
                raise
            self.last_error = None
            self._update_pause.succeeded()
            self.updated_at = started
            self.updated.set()
            _log.debug("qmd updated", reason=reason, changed=counts.changed, added=counts.added)
            if counts.changed or counts.removed:
                self._unclean_since = started
            await self._clean(force=force)
            return counts

    async def _check_places(self) -> None:
        """Raises QmdUnavailableError while notes are missing: QMD would forget the documents of a missing directory."""
        reason = await self._away()
        if reason is None:
            self._away_pause.succeeded()
            return
        self.last_error = f"QMD is not updated: {reason}."
        self._away_pause.failed()
        self._wake.set()
        raise QmdUnavailableError("away", self.last_error)

    async def _update(self) -> UpdateCounts:
        with self._noted("update"):
            try:
                return await self._upkeep.update()
            except QmdUnavailableError as error:
                if error.cause != "corrupt_index":
                    raise
                _log.warning("qmd index set aside", error=str(error))
            await self._repair()
            self.embedded_at = None
            return await self._upkeep.update()

    async def _clean(self, *, force: bool) -> None:
        due = time.monotonic() >= self._cleaned_at + CLEANUP_EVERY_S
        if self._unclean_since is None or not (due or force):
            return
        self._cleaned_at = time.monotonic()
        try:
            with self._noted("cleanup"):
                await self._upkeep.cleanup()
            self._unclean_since = None
        except QmdUnavailableError as error:
            self.last_error = str(error)

    async def _embed(self, *, force: bool = False) -> None:
        """Embeds outside of the rounds: it may wait long for other agents while updates go on."""
        async with self._embedding:
            due = self._may_embed() and (force or self._embed_due())
            if not due or self._embed_pause.left_s:
                return
            started, before = time.monotonic(), await self._upkeep.vectors()
            try:
                with self._noted("embed"):
                    await self._upkeep.embed()
            except QmdUnavailableError as error:
                self.embed_error = str(error)
                if error.cause == "timeout" and await self._upkeep.vectors() > before:
                    self._embed_pause.succeeded()  # many texts take more than one run
                self._embed_pause.failed()
                _log.warning("qmd embed failed", error=str(error), cause=error.cause)
            else:
                self.embed_error = None
                self._embed_pause.succeeded()
                self.embedded_at = started

    def _embed_due(self) -> bool:
        if self.embedded_at is None:
            return True
        interval_s = self._settings.embed_interval_ms / 1000
        return bool(interval_s) and time.monotonic() >= self.embedded_at + interval_s

    @property
    def pause_left_s(self) -> float:
        """The time for which nothing is tried after failures."""
        return max(self._update_pause.left_s, self._embed_pause.left_s)

    async def _next(self) -> None:
        """Waits for a request or the interval, then for the end of every pause."""
        interval_ms = self._settings.interval_ms
        with anyio.move_on_after(interval_ms / 1000 if interval_ms else None):
            await self._wake.wait()
        pauses = (self._update_pause.left_s, self._away_pause.left_s, self._debounce_left_s())
        await anyio.sleep(max(pauses))

    def _debounce_left_s(self) -> float:
        if self.updated_at is None:
            return 0.0
        return max(0.0, self.updated_at + self._settings.debounce_ms / 1000 - time.monotonic())


class Engine:
    """One QMD at work."""

    def __init__(
        self,
        sidecar: Sidecar,
        settings: QmdSettings,
        places: CollectionPlaces,
        environment: Mapping[str, str] = os.environ,
        *,
        away: Away,
    ) -> None:
        """`away`: see `backends.qmd.backend.open_qmd`."""
        self.sidecar = sidecar
        self._settings = settings
        self.upkeep = Upkeep(sidecar, places, settings.update, environment)
        self.schedule = Schedule(
            self.upkeep, settings.update, may_embed=self._may_embed, repair=self._repair, away=away
        )
        self.server = WarmServer(sidecar)
        self.index_is_kept = False
        """True if the index of an earlier run answers, without an update at the start."""

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
        """Returns why an empty answer would mean nothing now; None when QMD knows the files."""
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
        """The mode that is possible now: words alone until the models and the vectors are there."""
        if not self._may_embed() or self.schedule.embedded_at is None:
            return "search"
        return self._settings.search_mode

    @property
    def models(self) -> Mapping[str, str]:
        """The models that QMD uses, as far as is known."""
        return self.upkeep.registered.models or self.sidecar.models

    @property
    def missing_models(self) -> tuple[str, ...]:
        return missing_models(self._settings.search_mode, self.models, self.sidecar.home.models)

    @property
    def warning(self) -> str | None:
        """The reason why answers are weaker than configured, if they are."""
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
        """Moves the damaged index aside, which QMD never repairs, and has the server checked at once."""
        await self.upkeep.set_index_aside()
        self.server.suspect()
