"""A client over in-memory streams, the methods it calls, and a way to run code in a real process."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest

import gateway
from gateway.rpc.connection import ClientConnection, ConnectionLimits, Dispatcher
from gateway.rpc.registry import Method, MethodRegistry, NoParams, RequestContext, Session

WAIT_S = 30


class EchoParams(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    text: str = ""
    max_results: int = 6


class CountParams(msgspec.Struct, forbid_unknown_fields=True):
    steps: int = 3


class Workshop:
    """Methods whose progress a test can watch and steer."""

    def __init__(self) -> None:
        self.release = anyio.Event()
        self.shutdown = anyio.Event()
        self.active = 0
        self.most_active = 0
        self.cancelled = 0
        self.noted: list[str] = []
        self.contexts: list[RequestContext] = []

    async def echo(self, params: EchoParams, context: RequestContext) -> object:
        self.contexts.append(context)
        return {"text": params.text, "maxResults": params.max_results}

    async def wait(self, _params: NoParams, _context: RequestContext) -> str:
        self.active += 1
        self.most_active = max(self.most_active, self.active)
        try:
            await self.release.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled += 1
            raise
        finally:
            self.active -= 1
        return "released"

    async def quiet(self, params: CountParams, context: RequestContext) -> str:
        try:
            return await self.wait(NoParams(), context)
        finally:
            context.notify("progress", {"step": params.steps})

    async def stubborn(self, _params: NoParams, _context: RequestContext) -> str:
        self.active += 1
        with anyio.CancelScope(shield=True):
            await self.release.wait()
        self.active -= 1
        return "finally"

    async def crash(self, params: EchoParams, _context: RequestContext) -> None:
        raise RuntimeError(f"secret {params.text}")

    async def orphan(self, _params: NoParams, _context: RequestContext) -> None:
        import asyncio

        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    async def count(self, params: CountParams, context: RequestContext) -> int:
        self.contexts.append(context)
        for step in range(params.steps):
            context.notify("progress", {"step": step + 1})
        return params.steps

    async def steps(self, params: CountParams, context: RequestContext) -> int:
        for step in range(params.steps):
            context.notify("progress", {"step": step + 1})
            await anyio.sleep(0.001)
        return params.steps

    async def note(self, params: EchoParams, _context: RequestContext) -> None:
        self.noted.append(params.text)

    async def big(self, params: CountParams, _context: RequestContext) -> str:
        return "x" * params.steps

    async def unencodable(self, _params: NoParams, _context: RequestContext) -> object:
        return object()

    async def stop(self, _params: NoParams, _context: RequestContext) -> str:
        self.shutdown.set()
        return "stopping"

    def registry(self) -> MethodRegistry:
        return MethodRegistry(
            [
                Method("echo", EchoParams, self.echo),
                Method("wait", NoParams, self.wait),
                Method("quiet", CountParams, self.quiet, silent_when_cancelled=True),
                Method("hurried", NoParams, self.wait, timeout_s=0.05),
                Method("stubborn", NoParams, self.stubborn),
                Method("unending", NoParams, self.stubborn, silent_when_cancelled=True),
                Method("crash", EchoParams, self.crash),
                Method("orphan", NoParams, self.orphan),
                Method("count", CountParams, self.count),
                Method("steps", CountParams, self.steps),
                Method("note", EchoParams, self.note, accepts_notification=True),
                Method("big", CountParams, self.big),
                Method("unencodable", NoParams, self.unencodable),
                Method("stop", NoParams, self.stop),
            ]
        )


class MemoryReader:
    def __init__(self) -> None:
        self.feed, self._stream = anyio.create_memory_object_stream[bytes](100_000)
        self.is_hung_up = False
        self.chunks_taken = 0

    async def receive(self) -> bytes:
        try:
            data = await self._stream.receive()
        except anyio.EndOfStream:
            return b""
        self.chunks_taken += 1
        return data

    def hung_up(self) -> bool:
        return self.is_hung_up

    def close(self) -> None:
        self.feed.close()
        self._stream.close()


class MemoryWriter:
    """Takes frames while `open_for_reading`; once `broken`, none for ever."""

    def __init__(self) -> None:
        self.out, self.frames = anyio.create_memory_object_stream[bytes](100_000)
        self.reading = anyio.Event()
        self.reading.set()
        self.broken = False
        self.closed = False

    async def send(self, data: bytes) -> None:
        await self.reading.wait()
        if self.broken:
            raise anyio.BrokenResourceError
        self.out.send_nowait(data)

    async def aclose(self) -> None:
        self.closed = True
        self.out.close()

    def close(self) -> None:
        self.out.close()
        self.frames.close()


class Client:
    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.reader = MemoryReader()
        self.writer = MemoryWriter()
        self.workshop = Workshop()
        self.session = Session(connection="test")
        self.ended = anyio.Event()
        self._pending: list[Any] = []
        self._rest = b""

    async def serve(self) -> None:
        connection = ClientConnection(
            self.reader,
            self.writer,
            shutdown=self.workshop.shutdown,
            limits=self.limits,
            session=self.session,
        )
        await connection.serve(partial(Dispatcher, self.workshop.registry()))
        self.ended.set()

    def send_bytes(self, data: bytes) -> None:
        self.reader.feed.send_nowait(data)

    def send(self, message: object) -> None:
        self.send_bytes(json.dumps(message).encode() + b"\n")

    def request(self, request_id: object, method: str, params: object = None) -> None:
        message = {"jsonrpc": "2.0", "id": request_id, "method": method}
        self.send(message if params is None else message | {"params": params})

    def notify(self, method: str, params: object = None) -> None:
        message = {"jsonrpc": "2.0", "method": method}
        self.send(message if params is None else message | {"params": params})

    def end_input(self) -> None:
        self.reader.feed.close()

    async def receive_line(self) -> bytes:
        """Return the next frame, without its newline; `b""` once the connection is closed."""
        with anyio.fail_after(WAIT_S):
            while b"\n" not in self._rest:
                try:
                    self._rest += await self.writer.frames.receive()
                except anyio.EndOfStream:
                    assert self._rest == b"", "the last frame is torn"
                    return b""
        line, self._rest = self._rest.split(b"\n", 1)
        return line

    async def receive(self) -> Any:
        return json.loads(await self.receive_line())

    async def call(self, request_id: object, method: str, params: object = None) -> Any:
        self.request(request_id, method, params)
        return await self.receive()

    async def all_frames(self) -> list[Any]:
        """Return what is left until the connection closes."""
        frames = []
        while line := await self.receive_line():
            frames.append(json.loads(line))
        return frames

    async def until(self, condition: Callable[[], bool]) -> None:
        with anyio.fail_after(WAIT_S):
            while not condition():
                await anyio.lowlevel.checkpoint()


Connect = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture
def connect() -> Connect:
    """Start a connection: `async with connect(running=2) as client`, limits by keyword."""

    @asynccontextmanager
    async def start(**limits: Any) -> AsyncIterator[Client]:
        client = Client(ConnectionLimits(**limits))
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.serve)
                yield client
                tasks.cancel_scope.cancel()
                client.workshop.release.set()
        finally:
            client.reader.close()
            client.writer.close()

    return start


@pytest.fixture
def run_python() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start a real process that runs a script with this package importable; ended with the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start(script: str, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        root = Path(gateway.__file__).parent.parent
        environment = os.environ | {"PYTHONPATH": str(root)}
        command = [sys.executable, "-c", script, *arguments]
        started.append(subprocess.Popen(command, env=environment, **options))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
