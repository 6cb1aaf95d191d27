"""Starts a gateway as a child and talks to it, as a chat gateway does.

When the child ends, its last output is part of the error. However the caller leaves, the child is first
asked to end, then sent SIGTERM, then killed, each within a time limit.
"""

from __future__ import annotations

import subprocess
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio
from anyio.abc import Process
from anyio.streams.text import TextReceiveStream

from config.errors import ungrouped
from config.runtime.start import command_of
from gateway.client.calls import Client, NotificationCallback

GATEWAY_COMMAND: Final = (*command_of("gateway"), "serve")

PATIENCE_S: Final = 3.0
"""The gateway promises to end within 2 s of the end of its input, and of SIGTERM."""
LAST_OUTPUT_S: Final = 1.0
_LAST_WORDS_LINES: Final = 20
_LONGEST_WORD: Final = 4096


class SpawnedGateway(Client):
    """A client whose gateway is a child of this process."""

    def __init__(self, process: Process, notified: NotificationCallback | None) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        listener: dict[str, Any] = {"notified": notified} if notified else {}
        super().__init__(process.stdout, process.stdin, why_ended=self._obituary, **listener)
        self.process = process
        self.last_words: deque[str] = deque(maxlen=_LAST_WORDS_LINES)
        """The newest lines of its standard error."""
        self._silent = anyio.Event()

    async def listen(self) -> None:
        """Reads its standard error, if that is ours, so that it never waits for a reader."""
        rest = ""
        if self.process.stderr is not None:
            async for text in TextReceiveStream(self.process.stderr, errors="replace"):
                *lines, rest = (rest[-_LONGEST_WORD:] + text).split("\n")
                self.last_words.extend(lines)
        self.last_words.extend([rest] if rest else [])
        self._silent.set()

    async def stop(self, patience_s: float = PATIENCE_S) -> None:
        """Ends the child: end of input, then SIGTERM, then SIGKILL, with so much patience each."""
        process = self.process
        assert process.stdin is not None
        with anyio.CancelScope(shield=True):
            await process.stdin.aclose()
            for push in (process.terminate, process.kill):
                with anyio.move_on_after(patience_s):
                    await process.wait()
                    break
                push()
            await process.wait()

    async def _obituary(self) -> str:
        with anyio.move_on_after(LAST_OUTPUT_S):
            code = await self.process.wait()
            await self._silent.wait()
        if self.process.returncode is None:
            return "The gateway closed its output but is still running."
        return "\n".join([f"The gateway ended with exit code {code}.", *self.last_words])


@asynccontextmanager
async def spawn_gateway(
    arguments: Sequence[str] = (),
    *,
    environment: Mapping[str, str] | None = None,
    working_directory: Path | None = None,
    notified: NotificationCallback | None = None,
    command: Sequence[str] = GATEWAY_COMMAND,
    share_stderr: bool = False,
    patience_s: float = PATIENCE_S,
) -> AsyncIterator[SpawnedGateway]:
    """A running `memory-gateway serve` with these further arguments; ended when the body is left.

    `environment` is all of the child's environment; None: that of this process. With `share_stderr`
    its log goes where ours goes; else only its last words are kept. `patience_s` is how long the child
    may take to end before it is told more firmly.
    """
    process = await anyio.open_process(
        [*command, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None if share_stderr else subprocess.PIPE,
        env=environment,
        cwd=working_directory,
    )
    gateway = SpawnedGateway(process, notified)
    with ungrouped():
        async with process, anyio.create_task_group() as tasks:
            try:
                await tasks.start(gateway.run)
                tasks.start_soon(gateway.listen)
                yield gateway
            finally:
                await gateway.stop(patience_s)
                tasks.cancel_scope.cancel()
