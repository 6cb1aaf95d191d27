"""Running programs: deadlines, whole groups, bounded output."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from backends.qmd.engine import file_lock
from backends.qmd.process import MAX_OUTPUT_BYTES, QmdUnavailableError, run
from endurance.processes import has_ended
from fakes.each import each
from fakes.qmd import PATIENCE_S, until

pytestmark = pytest.mark.anyio

VARIABLES = {"PATH": os.environ["PATH"]}


def shell(script: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", script)


async def test_streams_and_exit_code_are_told_apart():
    finished = await run(shell("echo out; echo err >&2; exit 3"), VARIABLES, timeout_s=10)
    assert finished == (3, "out\n", "err\n")
    assert finished.cause == "broken"


async def test_an_end_by_a_signal_is_a_crash():
    finished = await run(shell("kill -SEGV $$"), VARIABLES, timeout_s=10)
    assert finished.cause == "crashed"
    assert (await run(shell("exit 139"), VARIABLES, timeout_s=10)).cause == "crashed"


async def test_a_time_out_ends_the_whole_group(tmp_path):
    script = f"sleep 300 & echo $! > {tmp_path}/child; wait"
    for timeout_s in (0.5, 5, 50):  # a slow machine takes long to get so far
        with pytest.raises(QmdUnavailableError, match=f"longer than {timeout_s} s") as caught:
            await run(shell(script), VARIABLES, timeout_s=timeout_s)
        assert caught.value.cause == "timeout"
        if (tmp_path / "child").exists() and (tmp_path / "child").read_text(encoding="ascii"):
            break
    assert await has_gone(tmp_path)


async def test_what_a_launcher_leaves_behind_does_not_hold_the_answer_back(tmp_path):
    script = f"sleep 300 & echo $! > {tmp_path}/child; echo done"
    finished = await run(shell(script), VARIABLES, timeout_s=20)
    assert finished.stdout == "done\n"
    assert await has_gone(tmp_path)


async def test_cancelling_ends_the_process(tmp_path):
    async with anyio.create_task_group() as tasks:
        script = f"sleep 300 & echo $! > {tmp_path}/child; wait"
        tasks.start_soon(lambda: run(shell(script), VARIABLES, timeout_s=300))

        async def runs() -> bool:
            return bool(child(tmp_path))

        await until(runs, "the process has started")
        tasks.cancel_scope.cancel()
    assert await has_gone(tmp_path)


@pytest.mark.parametrize("steps", range(1, 9))
async def test_cancelling_a_start_at_any_step_leaves_no_process(tmp_path, steps):
    script = f"sleep 300 & echo $! > {tmp_path}/child; wait"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: run(shell(script), VARIABLES, timeout_s=300))
        for _ in range(steps):
            await anyio.lowlevel.checkpoint()
        if is_running(script):  # the event loop stands still meanwhile, as it may on a busy machine
            latest = time.monotonic() + PATIENCE_S
            while not child(tmp_path) and time.monotonic() < latest:
                os.sched_yield()
        tasks.cancel_scope.cancel()
    if child(tmp_path):
        assert await has_gone(tmp_path)


def is_running(script: str) -> bool:
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if script.encode() in entry.read_bytes():
                return True
    return False


def child(directory: Path) -> str:
    file = directory / "child"
    return file.read_text(encoding="ascii").strip() if file.exists() else ""


async def has_gone(directory: Path) -> bool:
    """Returns whether the child ends in time."""

    async def ended() -> bool:
        return has_ended(int(child(directory)))

    return await until(ended, "the child is gone")


async def test_endless_output_is_bounded_and_does_not_block_the_program():
    script = f"head -c {MAX_OUTPUT_BYTES + 5_000_000} /dev/zero; echo end >&2"
    finished = await run(shell(script), VARIABLES, timeout_s=30)
    assert len(finished.stdout) == MAX_OUTPUT_BYTES
    assert finished.stderr == "end\n"


async def test_a_program_that_is_not_there_is_missing():
    with pytest.raises(QmdUnavailableError) as caught:
        await run(("/no/such/program",), VARIABLES, timeout_s=5)
    assert caught.value.cause == "missing"


async def test_the_working_directory_is_neutral_and_priority_can_be_low():
    finished = await run(shell("pwd; nice"), VARIABLES, timeout_s=10, niced=True)
    assert finished.stdout.split()[0] == "/"


@each(
    ("stderr", "line"),
    [
        ("\nwarming up\nSqliteError: no such table\n    at x.js:1\n", "SqliteError: no such table"),
        ("plain words\n", "plain words"),
        ("", "it said nothing"),
    ],
)
async def test_the_complaint_is_the_line_that_says_most(stderr, line):
    finished = await run(
        ("/bin/sh", "-c", 'printf %s "$0" >&2; exit 1', stderr), VARIABLES, timeout_s=9
    )
    assert finished.complaint == f"{line} (exit 1)"


async def test_a_lock_is_held_by_one_at_a_time(tmp_path):
    inside, most = 0, 0

    async def work() -> None:
        nonlocal inside, most
        async with file_lock(tmp_path / "lock"):
            inside += 1
            most = max(most, inside)
            await anyio.lowlevel.checkpoint()
            inside -= 1

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(work)
    assert most == 1
