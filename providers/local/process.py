"""One worker process: its environment, its start, its pipe, and that it is surely gone at the end."""

from __future__ import annotations

import re
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import Process

from config.runtime.children import end_child, kill_group, start_child
from config.runtime.start import command_of
from providers.errors import ProviderTransientError, ProviderUnavailableError
from providers.local.protocol import (
    FrameReader,
    Open,
    Opened,
    ProtocolError,
    Refused,
    Reply,
    Request,
    frame,
)

_PASSED = frozenset(
    "PATH HOME LANG TMPDIR LD_LIBRARY_PATH DYLD_LIBRARY_PATH LLAMA_CPP_LIB_PATH "
    "CUDA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES "
    "PYTHONPATH PYTHONHOME VIRTUAL_ENV".split()
)
_PASSED_PREFIXES = ("LC_", "GGML_", "OMP_", "KMP_", "GOMP_")
_OWN = {
    # Threads that spin while they wait make everything ten times slower beside other work.
    "OMP_WAIT_POLICY": "passive",
    # An abort would start a debugger on the dying process.
    "GGML_NO_BACKTRACE": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def worker_variables(environment: Mapping[str, str]) -> dict[str, str]:
    passed = {
        name: value
        for name, value in environment.items()
        if name in _PASSED or name.startswith(_PASSED_PREFIXES)
    }
    return {**passed, **_OWN}


COMMAND: Final = command_of("providers.local.worker")
_LAST_WORDS: Final = 4096
_ASSERTION: Final = re.compile(r"GGML_ASSERT\(.{1,160}\) failed")
_REAP_S: Final = 5.0


class Worker:
    """Make it with `started`. Only one task sends at a time."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._reader = FrameReader(Reply)
        self._said = bytearray()

    @property
    def pid(self) -> int:
        return self._process.pid

    async def open(self, order: Open, *, within_s: float) -> Opened:
        """Loads the model. Raises ProviderUnavailableError, also when the worker dies of it."""
        name = Path(order.path).name
        reply: Reply | None = None
        with anyio.move_on_after(within_s) as scope:
            await self.send(order)
            reply = next(iter(await self.receive()), None)
        match reply:
            case Opened():
                return reply
            case Refused(message):
                cause = message
            case _ if scope.cancelled_caught:
                cause = f"it was not loaded within {within_s:g} s"
            case _:
                cause = f"llama.cpp ended while loading it ({await self.cause_of_death()})"
        raise ProviderUnavailableError(
            f"The model {name} cannot be used: {cause}.",
            remedy="Name another one in memorySearch.local.modelPath, or check that it is complete "
            "and that there is enough memory.",
        )

    async def send(self, message: Request) -> None:
        """What a dead worker does not get is noticed by `receive`."""
        assert self._process.stdin is not None
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._process.stdin.send(frame(message))

    async def receive(self) -> list[Reply]:
        """What comes next; nothing when the worker ended, or says what it should not."""
        assert self._process.stdout is not None
        try:
            while True:
                piece = await self._process.stdout.receive()
                if replies := list(self._reader.feed(piece)):
                    return replies
        except (ProtocolError, anyio.EndOfStream, anyio.BrokenResourceError):
            return []

    async def listen_to_errors(self) -> None:
        """Keeps the last of what llama.cpp complains about."""
        assert self._process.stderr is not None
        async for piece in self._process.stderr:
            self._said += piece
            del self._said[:-_LAST_WORDS]

    def kill(self) -> None:
        kill_group(self._process)

    async def cause_of_death(self) -> str:
        """`SIGABRT, GGML_ASSERT(...) failed`, or the exit status."""
        self.kill()  # changes nothing where it has ended already
        with anyio.move_on_after(_REAP_S):
            await self._process.wait()
        code = self._process.returncode
        how = f"exit {code}" if code is None or code >= 0 else _signal_name(-code)
        words = _ASSERTION.search(self._said.decode("utf-8", "replace"))
        return f"{how}, {words[0]}" if words else how


@asynccontextmanager
async def started(
    environment: Mapping[str, str], command: Sequence[str] = COMMAND
) -> AsyncIterator[Worker]:
    """A worker that waits for its model; it is gone at the end. Raises ProviderTransientError."""
    try:
        # Elsewhere a module of the same name could be taken for ours.
        process = await start_child(command, worker_variables(environment), directory="/")
    except OSError as error:
        raise ProviderTransientError(
            f"The worker for local embeddings cannot be started: {error.strerror}."
        ) from None
    try:
        yield Worker(process)
    finally:
        await end_child(process)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
