"""A real gateway whose user may start few threads: it waits for them or reports it, and continues."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import anyio
import pytest

from config.errors import ErrorKind
from gateway.client import RemoteError, spawn_gateway
from tests.system.conftest import PATIENCE_S, Home

NOBODY = 64_321
"""A user without other processes: the limit counts all processes of one user, and not those of root."""

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        os.geteuid() != 0 or not (shutil.which("setpriv") and shutil.which("prlimit")),
        reason="only root can become a user of whom nothing else runs",
    ),
]


@pytest.fixture
def far(threads):
    user = NOBODY + threads  # threads are counted by user, and tests run beside each other
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        home = Home(Path(directory) / "home")
        for place in (home.root, *home.root.rglob("*")):
            os.chown(place, user, user)
        yield home


@pytest.mark.parametrize("threads", [2, 3, 4, 5, 6, 8])
async def test_twenty_searches_are_answered_or_told_of_the_shortage_and_the_process_stays(
    far, threads
):
    user = NOBODY + threads
    command = [
        "prlimit", f"--nproc={threads}", "setpriv", f"--reuid={user}", f"--regid={user}",
        "--clear-groups", sys.executable, "-P", "-m", "gateway", "serve",
    ]  # fmt: skip
    async with spawn_gateway(
        far.arguments, environment=far.environment, command=command, patience_s=PATIENCE_S
    ) as client:

        async def search():
            try:
                await client.call("memory_search", {"query": "boiler"}, timeout_s=PATIENCE_S)
            except RemoteError as error:
                if error.kind != ErrorKind.OVERLOADED or "TasksMax" not in (error.remedy or ""):
                    raise

        for _ in range(3):
            async with anyio.create_task_group() as tasks:
                for _ in range(20):
                    tasks.start_soon(search)
            await anyio.sleep(0.5)  # the watcher begins by then
        assert client.process.returncode is None
    assert client.process.returncode == 0
