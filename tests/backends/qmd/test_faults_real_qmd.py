"""Faults of the real program: killed, stopped, slow, or with a damaged index."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import time
from pathlib import Path

import anyio
import pytest

from backends.interface import SearchRequest, SyncRequest
from backends.qmd.backend import open_qmd
from backends.qmd.server import free_port
from backends.qmd.sidecar import home_of, qmd_environment
from backends.qmd.sidecar import qmd_command as command_of
from fakes.qmd import (
    answered,
    clean_environment,
    failing,
    processes_in,
    qmd_settings,
    until,
    wrapper,
)

REPOSITORY = Path(__file__).resolve().parents[3]

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("notes")]


@pytest.mark.promises_seconds
async def test_a_killed_server_is_told_at_once_and_comes_back(tmp_path, environment, qmd_command):
    async with open_qmd(qmd_settings(tmp_path, qmd_command), environment) as backend:
        await answered(backend, "boiler")
        server = backend.engine.server
        os.killpg(server.pid, signal.SIGKILL)
        started = time.monotonic()
        error = await failing(backend)
        assert error.cause in {"crashed", "not_ready"}
        assert time.monotonic() - started < 1
        await answered(backend, "boiler")
        assert server.starts == 2


@pytest.mark.promises_seconds
async def test_a_stopped_server_costs_one_time_out_and_is_replaced(
    tmp_path, environment, qmd_command, hasty_server
):
    settings = qmd_settings(tmp_path, qmd_command, limits={"timeout_ms": 400})
    async with open_qmd(settings, environment) as backend:
        await answered(backend, "boiler")
        os.killpg(backend.engine.server.pid, signal.SIGSTOP)
        started = time.monotonic()
        assert (await failing(backend)).cause == "timeout"
        assert time.monotonic() - started < 1
        await answered(backend, "boiler")
        assert backend.engine.server.starts == 2


async def test_a_damaged_index_is_set_aside_and_rebuilt(tmp_path, environment, qmd_command):
    settings = qmd_settings(tmp_path, qmd_command)
    async with open_qmd(settings, environment) as backend:
        await answered(backend, "boiler")
    index = home_of(settings).index
    for log in index.parent.glob("index.sqlite-*"):
        log.unlink()
    index.write_bytes(b"this is no database " * 500)
    async with open_qmd(settings, environment) as backend:
        answer = await answered(backend, "boiler")
        assert answer.hits[0].path == "MEMORY.md"
        assert index.with_name("index.sqlite.damaged").exists()


async def test_an_index_damaged_under_a_running_server_is_rebuilt(
    tmp_path, environment, qmd_command
):
    settings = qmd_settings(tmp_path, qmd_command)
    async with open_qmd(settings, environment) as backend:
        await answered(backend, "boiler")
        index = home_of(settings).index
        # The log too: a checkpoint would write its whole pages over the damage.
        for damaged in index.parent.glob("index.sqlite*"):
            with damaged.open("r+b") as file:
                file.write(b"\xff" * damaged.stat().st_size)
        await backend.sync(SyncRequest())
        assert (await answered(backend, "boiler")).hits[0].path == "MEMORY.md"
        assert index.with_name("index.sqlite.damaged").exists()


async def test_a_lost_index_is_never_an_empty_answer_and_is_made_again(
    tmp_path, environment, qmd_command
):
    settings = qmd_settings(tmp_path, qmd_command)
    async with open_qmd(settings, environment) as backend:
        await answered(backend, "boiler")
        for file in home_of(settings).index.parent.glob("index.sqlite*"):
            file.unlink()
        assert (await failing(backend)).cause == "not_ready"
        assert (await answered(backend, "boiler")).hits[0].path == "MEMORY.md"


async def test_a_home_that_was_removed_is_made_again(tmp_path, environment, qmd_command):
    settings = qmd_settings(tmp_path, qmd_command)
    async with open_qmd(settings, environment) as backend:
        await answered(backend, "boiler")
        shutil.rmtree(home_of(settings).root)
        assert (await failing(backend)).cause == "not_ready"
        assert (await answered(backend, "boiler")).hits[0].path == "MEMORY.md"


@pytest.mark.promises_seconds
async def test_a_slow_start_keeps_nobody_waiting(tmp_path, environment, qmd_command):
    slow = wrapper(tmp_path / "bin/qmd", qmd_command, before="sleep 0.7")
    async with open_qmd(qmd_settings(tmp_path, slow), environment) as backend:
        started = time.monotonic()
        assert (await failing(backend)).cause == "not_ready"
        assert time.monotonic() - started < 0.5
        assert (await answered(backend, "boiler")).hits


async def test_searches_wait_for_the_first_update_where_that_is_wanted(
    tmp_path, environment, qmd_command
):
    settings = qmd_settings(
        tmp_path,
        qmd_command,
        update={"wait_for_boot_sync": True},
        limits={"timeout_ms": 60_000},
    )
    async with open_qmd(settings, environment) as backend:
        assert (await backend.search(SearchRequest(query="boiler"))).hits


async def test_the_server_ends_when_its_gateway_is_killed(tmp_path, environment, qmd_command):
    settings = qmd_settings(tmp_path, qmd_command)
    owner = f"""
import anyio
from pathlib import Path
from fakes.qmd import answered, qmd_settings
from backends.qmd.backend import open_qmd

async def main():
    settings = qmd_settings(Path({str(tmp_path)!r}), {qmd_command!r})
    async with open_qmd(settings, {environment!r}) as backend:
        await answered(backend, "boiler")
        print("ready", flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""
    variables = {**os.environ, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'tests'}"}
    process = await anyio.open_process([sys.executable, "-c", owner], env=variables)
    async with process:
        said = b""
        with anyio.fail_after(180):
            async for piece in process.stdout:
                said += piece
                if b"ready\n" in said:
                    break
        assert processes_in(home_of(settings).config_dir)
        process.kill()

        async def gone() -> bool:
            return not processes_in(home_of(settings).config_dir)

        await until(gone, "the server has noticed")


async def test_two_agents_at_once_lose_no_collection(tmp_path, environment, qmd_command):
    both = [qmd_settings(tmp_path, qmd_command, agent=name) for name in ("one", "two")]
    async with open_qmd(both[0], environment) as one, open_qmd(both[1], environment) as two:
        for backend in (one, two):
            assert (await answered(backend, "boiler")).hits
            assert backend.engine.upkeep.registered.names == backend.places.collections.keys()


async def test_a_port_that_somebody_else_holds_is_left_for_another(
    tmp_path, environment, qmd_command, monkeypatch
):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken, given = [other.getsockname()[1]], []

        def next_port() -> int:
            given.append(taken.pop() if taken else free_port())
            return given[-1]

        monkeypatch.setattr("backends.qmd.server.free_port", next_port)
        async with open_qmd(qmd_settings(tmp_path, qmd_command), environment) as backend:
            assert (await answered(backend, "boiler")).hits
            assert len(given) >= 2
            assert (backend.engine.server.port, backend.engine.server.starts) == (
                given[-1], len(given),
            )  # fmt: skip


async def test_an_operator_works_on_the_same_index(tmp_path, environment, qmd_command):
    settings = qmd_settings(tmp_path, qmd_command)
    async with open_qmd(settings, environment) as backend:
        await answered(backend, "boiler")
        done = await anyio.run_process(
            [*command_of(settings, environment), "search", "boiler", "--json"],
            env=qmd_environment(settings, environment),
        )
        assert b"qmd://memory-root/MEMORY.md" in done.stdout
        await anyio.run_process(
            [
                *command_of(settings, environment),
                "collection",
                "add",
                str(tmp_path),
                "--name",
                "mine",
            ],
            env=qmd_environment(settings, environment),
        )
        await backend.sync(SyncRequest())
        document = home_of(settings).config_file.read_text(encoding="utf-8")
        assert all(name in document for name in ("mine", "memory-root", "memory-dir"))


async def test_no_credential_reaches_the_program_and_nothing_of_it_runs_on_at_the_end(
    tmp_path, qmd_command
):
    spy = wrapper(tmp_path / "bin/qmd", qmd_command, before=f"env >> {tmp_path}/variables")
    environment = clean_environment(tmp_path, OPENAI_API_KEY="sk-hidden", CI="true", LC_ALL="C")
    settings = qmd_settings(tmp_path, spy)
    async with open_qmd(settings, environment) as backend:
        await answered(backend, "boiler")
        assert processes_in(home_of(settings).config_dir)

    async def gone() -> bool:
        # The system takes its time to end a killed program; only the wrapper is our child.
        return not processes_in(home_of(settings).config_dir)

    await until(gone, "everything of it has ended")
    variables = (tmp_path / "variables").read_text(encoding="utf-8")
    assert "sk-hidden" not in variables
    assert "CI=" not in variables.replace("QMD_CI=", "")
    assert "LC_ALL=C" in variables
