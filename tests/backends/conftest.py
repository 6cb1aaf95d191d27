"""Threads, processes and waiting, for every test of this floor."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

PATIENCE_S = 60


@pytest.fixture
def in_threads() -> Callable[[int, Callable[[int], Any]], list[Any]]:
    """Runs `work(number)` in that many threads that begin together; returns their results in order."""

    def run(count: int, work: Callable[[int], Any]) -> list[Any]:
        gate = threading.Barrier(count)

        def start(number: int) -> Any:
            gate.wait(PATIENCE_S)
            return work(number)

        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(start, range(count), timeout=PATIENCE_S * 3))

    return run


@pytest.fixture
def open_files() -> Callable[[], list[str]]:
    """Returns the names of the files that this process has open."""

    def names() -> list[str]:
        found = []
        for descriptor in Path("/dev/fd").iterdir():
            with suppress(OSError):
                found.append(str(descriptor.readlink()))
        return found

    return names


@pytest.fixture
def wait_until() -> Callable[[Callable[[], bool]], None]:
    """Waits, in a thread, until a condition holds."""

    def wait(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, "the condition did not come true"
            time.sleep(0.005)

    return wait


@pytest.fixture
def threads_in(wait_until) -> Callable[[str, Callable[[], Any]], threading.Thread]:
    """Starts work in a thread and returns once it is in the function of that name."""

    def start(function: str, work: Callable[[], Any]) -> threading.Thread:
        thread = threading.Thread(target=work)
        thread.start()

        def is_inside() -> bool:
            frame = sys._current_frames().get(thread.ident or 0)
            while frame is not None and frame.f_code.co_name != function:
                frame = frame.f_back
            return frame is not None

        wait_until(is_inside)
        return thread

    return start


@pytest.fixture
def python() -> list[str]:
    """The command that runs a script given as the next argument, with our packages."""
    return [sys.executable, "-c"]


@pytest.fixture
def environment() -> dict[str, str]:
    root = str(Path(__file__).parents[2])
    return {**os.environ, "PYTHONPATH": os.pathsep.join((root, f"{root}/tests"))}


@pytest.fixture
def patience_s() -> float:
    """The most seconds until a condition holds."""
    return PATIENCE_S


@pytest.fixture
def until(patience_s) -> Callable[[Callable[[], Any]], Any]:
    """Waits on the event loop until a condition holds, and returns what it gave."""

    async def wait(condition: Callable[[], Any]) -> Any:
        with anyio.fail_after(patience_s):
            while not (found := condition()):
                await anyio.sleep(0.01)
        return found

    return wait
