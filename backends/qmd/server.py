"""The warm QMD: `qmd mcp --http` in the foreground on loopback, supervised and asked over HTTP."""

from __future__ import annotations

import http.client
import json
import re
import socket
import time
from typing import Any, Final

import anyio
import structlog
from anyio.abc import ByteReceiveStream, Process
from anyio.to_thread import run_sync

from backends.qmd.process import MAX_OUTPUT_BYTES, QmdUnavailableError, started
from backends.qmd.sidecar import Sidecar
from config.runtime.children import resident_bytes
from config.runtime.tasks import Backoff, ResettableEvent

HOST: Final = "127.0.0.1"


async def get_health(port: int, *, timeout_s: float) -> None:
    """Raises QmdUnavailableError when the server does not answer as a healthy QMD."""
    await run_sync(_exchange, port, "GET", "/health", None, timeout_s, abandon_on_cancel=True)


async def post_query(port: int, question: dict[str, Any], *, timeout_s: float) -> Any:
    """The decoded answer. Raises QmdUnavailableError."""
    body = json.dumps(question).encode()
    return await run_sync(
        _exchange, port, "POST", "/query", body, timeout_s, abandon_on_cancel=True
    )


def _exchange(port: int, method: str, path: str, body: bytes | None, timeout_s: float) -> Any:
    connection = http.client.HTTPConnection(HOST, port, timeout=timeout_s)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        with (
            connection.getresponse() as response
        ):  # it holds the socket if it is not read to its end
            data = response.read(MAX_OUTPUT_BYTES)
    except TimeoutError:
        raise QmdUnavailableError(
            "timeout", f"QMD's server did not answer within {timeout_s:.3g} s."
        ) from None
    except (OSError, http.client.HTTPException) as error:
        raise QmdUnavailableError(
            "crashed", f"QMD's server is gone: {str(error) or type(error).__name__}."
        ) from None
    finally:
        connection.close()
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError):
        raise QmdUnavailableError("bad_answer", "QMD's server did not answer in JSON.") from None
    if response.status != http.client.OK:
        raise QmdUnavailableError(
            "bad_answer", f"QMD's server answered {response.status}: {str(answer)[:200]}."
        )
    return answer


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
        self._suspicion = ResettableEvent()
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
        return None if self.pid is None else resident_bytes(self.pid)

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
            self._suspicion.clear()
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
