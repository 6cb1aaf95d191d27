"""An operator's work beside the real process: doctor, reload, and watching the status."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

import anyio
import pytest

pytestmark = pytest.mark.anyio

PATIENCE_S = 120


async def run(home, *arguments, **environment):
    command = [sys.executable, "-m", "gateway", arguments[0], *home.arguments, *arguments[1:]]
    with anyio.fail_after(PATIENCE_S):
        done = await anyio.run_process(command, env=home.environment | environment, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


async def findings(home, check, **environment):
    _, out, _ = await run(home, "doctor", "--json", **environment)
    return [one for one in json.loads(out)["findings"] if one["check"] == check]


async def test_the_doctor_asks_the_owner_and_leaves_it_at_work(home):
    async with home.gateway() as client:
        await client.call("sync", {})
        (one,) = await findings(home, "owner")
        assert (one["severity"], "is ok" in one["cause"]) == ("ok", True)
        assert [one["severity"] for one in await findings(home, "index")] == ["ok"]
        assert (await client.call("health"))["status"] == "ok"
        assert (await client.call("memory_search", {"query": "boiler"}))["results"]


async def test_the_doctor_recognises_an_owner_that_was_killed(home):
    async with home.gateway() as client:
        await client.call("sync", {})
        os.kill((await client.call("status"))["pid"], signal.SIGKILL)
    (one,) = await findings(home, "owner")
    assert (one["severity"], "is gone" in one["cause"]) == ("note", True)


SYSTEMCTL = """#!/bin/sh
printf 'LoadState=loaded\\nActiveState=failed\\nSubState=failed\\n'
"""


async def test_the_doctor_tells_of_a_service_that_failed(home):
    assert await findings(home, "service") == []
    units = home.root / ".config/systemd/user"
    drop_in = units / "memory-gateway@main.service.d/installed.conf"
    drop_in.parent.mkdir(parents=True)
    drop_in.write_text("", encoding="utf-8")
    (one,) = await findings(home, "service")
    assert "its unit file is missing" in one["cause"]
    (units / "memory-gateway@.service").write_text("", encoding="utf-8")
    (home.root / "systemctl").write_text(SYSTEMCTL, encoding="utf-8")
    (home.root / "systemctl").chmod(0o755)
    path = f"{home.root}{os.pathsep}{home.environment['PATH']}"
    (one,) = await findings(home, "service", PATH=path)
    assert (one["severity"], "failed" in one["cause"]) == ("warning", True)
    assert "journalctl --user -u memory-gateway@main.service" in one["fix"]


async def test_reload_applies_what_changed_and_says_so(home):
    async with home.gateway() as client:
        await client.call("health")
        home.configure({"agents": {"defaults": {"memorySearch": {"query": {"maxResults": 2}}}}})
        code, out, _ = await run(home, "reload")
        assert (code, out.splitlines()[0]) == (0, "Changed: query.maxResults")
        code, out, _ = await run(home, "reload", "--json")
        assert (code, json.loads(out)["changed"]) == (0, [])
        home.configure({"agents": {"defaults": {"memorySearch": {"enabled": False}}}})
        assert (await run(home, "reload"))[0] == 0
        assert "enabled" in (await client.call("status"))["disabled"]


async def test_reload_without_a_gateway_says_so(home):
    code, out, said = await run(home, "reload")
    assert (code, out) == (os.EX_UNAVAILABLE, "")
    assert "No gateway runs for agent main on this index" in said and "store.path" in said


@contextmanager
def watching(home, *arguments, output, **environment):
    command = [sys.executable, "-m", "gateway", "status", "--watch", *home.arguments, *arguments]
    with subprocess.Popen(
        command, env=home.environment | environment, stdout=output, stderr=subprocess.PIPE
    ) as process:
        bound = threading.Timer(PATIENCE_S, process.kill)
        bound.start()
        try:
            yield process
        finally:
            bound.cancel()
            process.kill()


def until(descriptor, text):
    """Reads until the text was shown."""
    seen = b""
    while text not in seen:
        seen += os.read(descriptor, 65_536)
    return seen


def test_watching_without_a_terminal_gives_a_line_each_time(home):
    with watching(home, "--index", output=subprocess.PIPE) as process:
        lines = [process.stdout.readline().decode() for _ in range(2)]
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130
    assert all("4/4 files" in line and "\x1b" not in line for line in lines)


def test_watching_as_json_gives_a_document_a_line_and_sees_changes(home):
    with watching(home, "--index", "--json", output=subprocess.PIPE) as process:
        assert json.loads(process.stdout.readline())["files"] == 4
        home.write("memory/new.md", "# New\n")
        while (seen := json.loads(process.stdout.readline()))["sources"][0]["onDisk"] == 4:
            assert seen["files"] == 4
        assert seen["dirty"]


def test_watching_on_a_terminal_draws_in_place(home):
    ours, theirs = pty.openpty()
    try:
        with watching(home, output=theirs, TERM="xterm") as process:
            os.close(theirs)
            drawn = until(ours, b"`memory-gateway models")
            assert b"Memory of agent main" in drawn and b"Workspace" in drawn
            until(ours, b"without a key")  # the end of the longest line
            again = until(ours, b"Memory of agent main")
            assert b"\x1b[1A" in again, "the cursor did not go up"
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_S) == 130
    finally:
        os.close(ours)
