"""Running QMD: no shell, own process group, deadlines, bounded output; ending what an earlier gateway left."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final, Literal, NamedTuple

import anyio
from anyio.abc import ByteReceiveStream, Process

from backends.qmd.home import NEUTRAL_DIRECTORY, QmdHome
from config.errors import ErrorKind, MemoryGatewayError
from config.runtime import PROC
from config.runtime.children import end_child, kill_group, start_child

Cause = Literal[
    "missing", "broken", "not_ready", "timeout", "crashed", "bad_answer", "corrupt_index", "away"
]


class QmdUnavailableError(MemoryGatewayError):
    """QMD cannot answer now. `cause` is the kind of reason."""

    kind = ErrorKind.QMD_UNAVAILABLE

    def __init__(self, cause: Cause, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.cause: Cause = cause


MAX_OUTPUT_BYTES: Final = 8 * 1024 * 1024
"""The most that is kept of each stream. What comes later is read and dropped."""
_NICENESS: Final = 15


class Finished(NamedTuple):
    """A process that ended by itself. `returncode` is negative when a signal ended it."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def cause(self) -> Cause:
        """`crashed` if a signal ended it, which a launcher reports as 128 plus its number, else `broken`."""
        return "crashed" if self.returncode < 0 or self.returncode > 128 else "broken"

    @property
    def complaint(self) -> str:
        """The line that says best what went wrong."""
        lines = [line.strip() for line in f"{self.stderr}\n{self.stdout}".splitlines()]
        said = [line for line in lines if line and not line.startswith(("at ", "^", "\x1b"))]
        errors = [line for line in said if "Error" in line or "error" in line]
        chosen = (errors or said or ["it said nothing"])[0]
        return f"{chosen[:300]} (exit {self.returncode})"


async def _drain(stream: ByteReceiveStream | None, said: bytearray) -> None:
    """Reads to the end, so that the process never waits for a reader."""
    assert stream is not None
    async for piece in stream:
        said += piece[: max(0, MAX_OUTPUT_BYTES - len(said))]


@asynccontextmanager
async def started(
    argv: Sequence[str], environment: Mapping[str, str], *, niced: bool = False
) -> AsyncIterator[Process]:
    """Yields a running process; its group is killed at the end. Raises QmdUnavailableError."""
    try:
        process = await start_child(argv, environment, directory=NEUTRAL_DIRECTORY)
    except OSError as error:
        raise QmdUnavailableError(
            "missing",
            f"{argv[0]!r} cannot be started: {error.strerror}.",
            remedy="Install QMD, or name its command in qmd.command.",
        ) from None
    try:
        if niced:
            with suppress(OSError):
                os.setpriority(os.PRIO_PGRP, process.pid, _NICENESS)
        yield process
    finally:
        await end_child(process)


async def run(
    argv: Sequence[str], environment: Mapping[str, str], *, timeout_s: float, niced: bool = False
) -> Finished:
    """Runs a program to its end. Raises QmdUnavailableError: `missing`, or `timeout` after `timeout_s`."""
    out, err = bytearray(), bytearray()
    try:
        with anyio.fail_after(timeout_s):
            async with (
                started(argv, environment, niced=niced) as process,
                anyio.create_task_group() as readers,
            ):
                readers.start_soon(_drain, process.stdout, out)
                readers.start_soon(_drain, process.stderr, err)
                returncode = await process.wait()
                # What a launcher leaves behind would keep the pipes open.
                kill_group(process)
    except TimeoutError:
        raise QmdUnavailableError(
            "timeout", f"QMD took longer than {timeout_s:g} s and was ended."
        ) from None
    return Finished(returncode, out.decode(errors="replace"), err.decode(errors="replace"))


_VARIABLE: Final = "MEMORY_GATEWAY_PROCESS"


def owner_variables() -> dict[str, str]:
    """Returns the variable that marks processes as started by this gateway; none if that is not possible."""
    started = _start_time(os.getpid())
    return {} if started is None else {_VARIABLE: f"{os.getpid()}:{started}"}


def end_orphans(home: QmdHome) -> list[int]:
    """Ends processes left by gateways that are gone, and returns their ids. Blocks."""
    ended = []
    mark = f"QMD_CONFIG_DIR={home.config_dir}".encode()
    for directory in Path(PROC).glob("[0-9]*"):
        with suppress(OSError):
            variables = (directory / "environ").read_bytes().split(b"\0")
            if mark in variables and _is_orphan(variables):
                os.kill(int(directory.name), signal.SIGKILL)
                ended.append(int(directory.name))
    return ended


def _is_orphan(variables: list[bytes]) -> bool:
    """Returns whether the variables name a gateway that does not run any more."""
    for one in variables:
        name, _, owner = os.fsdecode(one).partition("=")
        if name == _VARIABLE:
            pid, _, started = owner.partition(":")
            return pid.isdigit() and str(_start_time(int(pid))) != started
    return False


def _start_time(pid: int) -> int | None:
    """Returns the start time in clock ticks since boot; None when no such process runs, or it is unknown."""
    with suppress(OSError, ValueError, IndexError):
        text = Path(f"{PROC}/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        # The name of the program, in brackets, may contain anything.
        state, *fields = text.rpartition(")")[2].split()
        return None if state == "Z" else int(fields[18])
    return None
