"""Measures what a gateway loses when the primary of a synchronous pair is killed and its standby promoted.

One task writes notes and waits until each is in the index; another one searches all the time. The gateway knows only
an address that names both servers and asks for the writable one.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

import anyio
from msgspec.structs import replace

from backends.builtin.backend import BuiltinBackend, open_builtin
from backends.interface import IndexUnavailableError, SearchRequest, SyncRequest
from config.settings import Secret, StoreSettings
from fakes import postgres
from fakes.settings import make_settings

DETECTION_S = 1.0
"""The time until somebody notices that the primary is gone and promotes the standby."""


def standby_of(primary: postgres.Server, root: Path) -> postgres.Server:
    programs = postgres.binaries()
    assert programs is not None
    if os.geteuid() == 0:
        os.chown(root, primary.root.stat().st_uid, primary.root.stat().st_gid)
    standby = postgres.Server(root, programs)
    standby.run(
        "pg_basebackup", f"--pgdata={standby.data}", f"--host={primary.root}",
        f"--username={postgres.SUPERUSER}", "--write-recovery-conf", "--checkpoint=fast",
    )  # fmt: skip
    with (standby.data / "postgresql.conf").open("a") as file:
        file.write(f"unix_socket_directories = '{root}'\n")
    standby.start()
    return standby


class Load:
    """Writes notes and searches; remembers the acknowledged notes, and the time of each success."""

    def __init__(self, backend: BuiltinBackend, workspace: Path) -> None:
        self._backend = backend
        self._workspace = workspace
        self.acknowledged: list[str] = []
        self.errors = 0
        self.answers: list[float] = []
        self.writes: list[float] = []

    async def write(self) -> None:
        while True:
            name = f"memory/note-{len(self.acknowledged):05}.md"
            (self._workspace / name).write_text(f"The visit {name} of the boiler.\n")
            try:
                report = await self._backend.sync(SyncRequest())
            except IndexUnavailableError:
                self.errors += 1
                await anyio.sleep(0.02)
                continue
            if report.complete and not report.error:
                self.acknowledged.append(name)
                self.writes.append(time.monotonic())

    async def search(self) -> None:
        while True:
            try:
                await self._backend.search(SearchRequest(query="visit boiler"))
            except IndexUnavailableError:
                await anyio.sleep(0.02)
                continue
            self.answers.append(time.monotonic())
            await anyio.sleep(0.01)


def after(times: list[float], moment: float) -> str:
    """Returns how long after this moment the first success came."""
    return f"{min(one for one in times if one > moment) - moment:.2f} s"


async def run(options: argparse.Namespace) -> None:
    root = Path(tempfile.mkdtemp(prefix="mg-sb-"))
    workspace = root / "workspace"
    (workspace / "memory").mkdir(parents=True)
    place = Path(tempfile.mkdtemp(prefix="mg-pg-"))
    with postgres.running() as primary:
        name = primary.migrated()
        standby = standby_of(primary, place)
        for setting in ("synchronous_standby_names = '*'", "synchronous_commit = on"):
            primary.sql(f"ALTER SYSTEM SET {setting}")
        primary.sql("SELECT pg_reload_conf()")
        hosts = ",".join(quote(str(one.root), safe="") for one in (primary, standby))
        url = (
            f"postgresql://{postgres.SERVING}@/{name}?host={hosts}&target_session_attrs=read-write"
        )
        settings = make_settings(root, search={"provider": "none"})
        store = StoreSettings(path=root / "unused", driver="postgres", url=Secret(url))
        settings = replace(settings, search=replace(settings.search, store=store))
        async with open_builtin(settings) as backend, anyio.create_task_group() as tasks:
            load = Load(backend, workspace)
            tasks.start_soon(load.write)
            tasks.start_soon(load.search)
            await anyio.sleep(options.seconds)
            before = len(load.acknowledged)
            assert primary.process is not None
            primary.process.send_signal(signal.SIGKILL)
            killed = time.monotonic()
            await anyio.sleep(DETECTION_S)
            promote = standby.run
            await anyio.to_thread.run_sync(promote, "pg_ctl", "promote", f"--pgdata={standby.data}")
            promoted = time.monotonic()
            await anyio.sleep(options.seconds)
            tasks.cancel_scope.cancel()
        there = {
            path for (path,) in standby.sql("SELECT path FROM memory_gateway.files", database=name)
        }
        standby.stop()
    lost = [one for one in load.acknowledged if one not in there]
    print(
        f"acknowledged writes: {len(load.acknowledged):,} ({before:,} before the loss), lost: {len(lost)}"
    )
    print(f"first answer after the promotion: {after(load.answers, promoted)}")
    print(f"first write after the promotion: {after(load.writes, promoted)}")
    print(
        f"from the loss to the first write: {after(load.writes, killed)}, {promoted - killed:.2f} s of it promotion"
    )
    shutil.rmtree(place, ignore_errors=True)
    shutil.rmtree(root, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=15, help="before and after the loss")
    anyio.run(run, parser.parse_args())


if __name__ == "__main__":
    main()
