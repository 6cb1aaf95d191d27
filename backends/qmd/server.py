"""The warm QMD: `qmd mcp --http` in the foreground on loopback, supervised.

Owns its life: starting on a free port, health checks, restarting with growing pauses, recycling an idle
one that has loaded models (that release crashes when it unloads them), ending it with the gateway.
"""

from __future__ import annotations

import os
import re
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio
import structlog
from anyio.abc import ByteReceiveStream, Process

from backends.qmd.errors import QmdUnavailableError
from backends.qmd.http import HOST, get_health
from backends.qmd.process import started
from backends.qmd.sidecar import Sidecar
from config.runtime.tasks import Backoff

_log = structlog.get_logger(__name__)

START_TIMEOUT_S: Final = 20.0
CHECK_EVERY_S: Final = 5.0
CHECK_TIMEOUT_S: Final = 2.0
RECYCLE_IDLE_S: Final = 240.0
"""QMD unloads its models after five minutes without a question."""
_STABLE_S: Final = 30.0
_SAID_BYTES: Final = 2000
_LISTENING = re.compile(rb"listening on http://[^\s:]+:(\d+)/")


class WarmServer:
    """One supervised server. `run` keeps it alive until it is cancelled."""

    def __init__(self, sidecar: Sidecar) -> None:
        self._sidecar = sidecar
        self._pause = Backoff(0.1, 0.5, 5.0)
        self._suspicion = anyio.Event()
        self._asked_at = 0.0
        self._models_loaded = False
        self._said = b""
        self._announced = anyio.Event()
        self.port: int | None = None
        """Where it answers; None while it does not."""
        self.pid: int | None = None
        self.starts = 0
        self.tried = anyio.Event()
        """Set when the first start has ended, well or not."""
        self.last_error: str | None = None

    @property
    def memory_bytes(self) -> int | None:
        """Resident memory, where the system tells it."""
        with suppress(OSError, ValueError, IndexError):
            pages = Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1]
            return int(pages) * os.sysconf("SC_PAGE_SIZE")
        return None

    def note_question(self, *, with_models: bool) -> None:
        """A question begins: it counts as use, and perhaps loads models."""
        self._asked_at = time.monotonic()
        self._models_loaded = self._models_loaded or with_models

    def suspect(self) -> None:
        """A question failed: look at once whether the server is still well."""
        self._suspicion.set()

    async def run(self) -> None:
        """Works until cancelled."""
        while True:
            began = time.monotonic()
            try:
                await self._live()
            except QmdUnavailableError as error:
                self.last_error = str(error)
                _log.warning("qmd server ended", error=str(error), cause=error.cause)
            finally:
                self.port = self.pid = None
                self.tried.set()
            if time.monotonic() - began > _STABLE_S:
                self._pause.succeeded()
            self._pause.failed()
            await anyio.sleep(self._pause.left_s)

    async def _live(self) -> None:
        """One life of the server: returns when it is to be replaced."""
        port = _free_port()
        arguments = ("mcp", "--http", "--port", str(port), "--host", HOST)
        argv = (*self._sidecar.program.command.argv, *arguments)
        self.starts += 1
        self._models_loaded, self._said, self._announced = False, b"", anyio.Event()
        failure: QmdUnavailableError | None = None
        async with started(argv, self._sidecar.variables) as process:
            self.pid = process.pid
            async with anyio.create_task_group() as tasks:
                assert process.stdout is not None
                assert process.stderr is not None
                tasks.start_soon(self._listen, process.stdout, port)
                tasks.start_soon(self._listen, process.stderr, port)
                tasks.start_soon(self._await_end, process, tasks.cancel_scope)
                try:
                    await self._serve(port)
                except QmdUnavailableError as error:
                    failure = error
                tasks.cancel_scope.cancel()
            ended_by_itself = process.returncode is not None
        if failure is None and ended_by_itself:
            said = self._said.decode("utf-8", "replace").strip().splitlines()
            reason = said[-1] if said else f"exit {process.returncode}"
            failure = QmdUnavailableError("crashed", f"QMD's server ended: {reason[:200]}.")
        if failure is not None:
            raise failure

    async def _serve(self, port: int) -> None:
        await self._await_start(port)
        self.port, self.last_error = port, None
        self.tried.set()
        await self._watch(port)

    async def _await_start(self, port: int) -> None:
        """Its own word comes first: on a port that was taken, somebody else would answer."""
        with anyio.move_on_after(START_TIMEOUT_S):
            await self._announced.wait()
            await get_health(port, timeout_s=CHECK_TIMEOUT_S)
            return
        raise QmdUnavailableError(
            "timeout", f"QMD's server did not start within {START_TIMEOUT_S:g} s."
        )

    async def _watch(self, port: int) -> None:
        """Returns when the server should be recycled; raises when it does not answer."""
        index = self._sidecar.home.index_identity()
        while True:
            with anyio.move_on_after(CHECK_EVERY_S):
                await self._suspicion.wait()
            self._suspicion = anyio.Event()
            await get_health(port, timeout_s=CHECK_TIMEOUT_S)
            now = self._sidecar.home.index_identity()
            idle_s = time.monotonic() - self._asked_at
            if (index is not None and now != index) or (
                self._models_loaded and idle_s > RECYCLE_IDLE_S
            ):
                return
            index = now

    async def _await_end(self, process: Process, scope: anyio.CancelScope) -> None:
        await process.wait()
        scope.cancel()

    async def _listen(self, stream: ByteReceiveStream, port: int) -> None:
        async for piece in stream:
            self._said = (self._said + piece)[-_SAID_BYTES:]
            announced = _LISTENING.search(self._said)
            if announced is not None and int(announced[1]) == port:
                self._announced.set()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
