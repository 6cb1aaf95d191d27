"""The commands that change QMD's index, one at a time.

Owns the locks around them and what their output says. When they run is `schedule`'s business.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
import msgspec
from anyio.to_thread import run_sync

from backends.files.scan import FoundFile, scan
from backends.qmd.configuration import Registered, register
from backends.qmd.errors import QmdUnavailableError
from backends.qmd.home import embed_lock
from backends.qmd.places import Places
from backends.qmd.sidecar import Sidecar
from config.disk.locking import open_lock, try_lock
from config.settings import QmdUpdateSettings, Source

_COUNTS = re.compile(r"Indexed: (\d+) new, (\d+) updated, (\d+) unchanged, (\d+) removed")
_OTHER_MODEL = re.compile(r"dimension|embed -f|different (?:embedding )?model", re.IGNORECASE)
_BUSY: Final = "already running"
_SMALL_BATCH: Final = ("--max-docs-per-batch", "8")
"""Progress is saved after each batch: a small one also ends on a slow machine."""
_LOG_PATIENCE_MS: Final = 2000
_POLL_S: Final = 0.1


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
        places: Places,
        settings: QmdUpdateSettings,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._sidecar = sidecar
        self._places = places
        self._settings = settings
        self._embed_lock = embed_lock(environment)
        self._changing = anyio.Lock()
        self.registered = Registered()
        self.seen: Mapping[str, FoundFile] = {}
        """The files as they were when the last good update began, by shown name."""
        self.index: tuple[int, int] | None = None
        """Which file that update wrote: another one knows nothing yet."""

    def searched(self, sources: Collection[Source] | None = None) -> tuple[str, ...]:
        """The collections worth asking: QMD searches each one apart, also when nothing is in it."""
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
            seen = await run_sync(self._scan)
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

    async def set_index_aside(self) -> None:
        """Renames an index that is of no use, of which only the newest is kept. QMD makes a new one."""
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

    def _scan(self) -> dict[str, FoundFile]:
        return self._places.seen_by_qmd(scan(self._places.roots).files)

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        async with self._changing, self._locked(self._sidecar.home.lock):
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
    """While a server has the index open, the write-ahead log keeps what was deleted."""
    import apsw  # noqa: PLC0415 - only here and in status is the index itself opened

    try:
        connection = apsw.Connection(str(index), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            connection.set_busy_timeout(_LOG_PATIENCE_MS)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            connection.close()
    except apsw.Error as error:
        raise QmdUnavailableError("broken", f"QMD's log cannot be emptied: {error}.") from None
