"""Beside the real OpenClaw 2026.9.6: both work, whichever starts first, and neither touches the other's files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import anyio
import pytest

from fakes.openclaw import MAIN, HostError, OpenClaw, RunningHost, install_openclaw
from fakes.openclaw_model import FakeModel, ToolCall

pytestmark = [pytest.mark.anyio, pytest.mark.shares_a_host]

PATIENCE_S = 120
SEARCH = {
    "provider": "none",
    "sources": ["memory", "sessions"],
    "experimental": {"sessionMemory": True},
}
INDEX = "memory/main.memory-gateway.sqlite"
FORMER_INDEX = "memory/main.sqlite"


class Beside(NamedTuple):
    """An installation of the host, and ours on the same state directory, workspace and configuration."""

    host: OpenClaw
    home: Any
    model: FakeModel


@pytest.fixture(scope="module")
def openclaw_command() -> str:
    return install_openclaw()


@pytest.fixture(scope="module")
def install(openclaw_command, make_home) -> Iterator[Any]:
    """Makes fresh installations; checks at the end that the models had to refuse nothing.

    They are on a persistent disk, whatever the other tests use: OpenClaw's doctor complains about others.
    """
    with ExitStack() as stack:
        models = []

        def fresh() -> Beside:
            model = stack.enter_context(FakeModel())
            models.append(model)
            lasting = TemporaryDirectory(
                dir="/var/tmp", prefix="beside-", ignore_cleanup_errors=True
            )
            home = make_home(Path(stack.enter_context(lasting)))
            host = OpenClaw(openclaw_command, home.root, model)
            host.configure({"memory": {"search": SEARCH}})
            home.config = host.config
            return Beside(host, home, model)

        yield fresh
        assert [refused for model in models for refused in model.refused] == []


@pytest.fixture(scope="module")
def beside(install) -> Beside:
    return install()


@pytest.fixture(scope="module")
def found_meanwhile() -> list[bool]:
    """One value for each search of ours while the host started: True if it found its note."""
    return []


@pytest.fixture(scope="module")
def running(beside, found_meanwhile) -> Iterator[RunningHost]:
    """The host, which started together with a gateway of ours: a start takes long."""
    with ExitStack() as stack:
        yield anyio.run(started_beside_us, beside, stack, found_meanwhile)


async def started_beside_us(beside, stack, found) -> RunningHost:
    async with anyio.create_task_group() as tasks:
        ready: list[RunningHost] = []

        async def start_the_host():
            starting = beside.host.gateway()
            ready.append(await anyio.to_thread.run_sync(stack.enter_context, starting))

        tasks.start_soon(start_the_host)
        async with beside.home.gateway() as client:
            with anyio.fail_after(2 * PATIENCE_S):
                while not ready:
                    found.append(await finds_the_greenhouse(client))
                    await anyio.sleep(0.05)
            found.append(await finds_the_greenhouse(client))
            assert ready[0].say("The plover runs.") == "Noted: The plover runs."
    return ready[0]


async def search(client, query, source):
    params = {"query": query, "sources": [source], "sessionKey": MAIN}
    return (await client.call("memory_search", params))["results"]


async def finds_the_greenhouse(client):
    (hit, *_) = await search(client, "greenhouse sensor", "memory")
    return hit["path"] == "memory/2026-02-01.md"


def make_former_index(home) -> None:
    """Makes an index as releases up to 0.1 did: the same file, at the place of the host's own former one."""
    place = {
        "agents": {
            "defaults": {"memorySearch": {"store": {"path": str(home.state / FORMER_INDEX)}}}
        }
    }
    settings, home.config = home.config, home.root / "0.1.json"
    home.configure(place)
    done = home.run("index")
    home.config = settings
    assert done.returncode == 0, done
    assert (home.state / FORMER_INDEX).exists()


async def test_both_start_at_once_and_the_host_goes_on_without_us(running, found_meanwhile):
    assert len(found_meanwhile) > 1
    assert all(found_meanwhile)
    assert running.say("The plover rests.") == "Noted: The plover rests."


async def test_a_conversation_that_the_host_held_is_found_word_for_word(beside, running):
    beside.model.script("The avocet wades in the salt marsh.")
    running.say("Which bird did we see at the Dollart?")
    running.say("The bittern booms by the reed bed.", "agent:main:second")
    async with beside.home.gateway() as client:
        await client.call("sync", {})
        (asked, *_) = await search(client, "Which bird at the Dollart?", "sessions")
        assert "Which bird did we see at the Dollart?" in asked["snippet"]
        (said, *_) = await search(client, "avocet salt marsh", "sessions")
        assert "The avocet wades in the salt marsh." in said["snippet"]
        (other, *_) = await search(client, "bittern reed bed", "sessions")
        assert other["path"] != said["path"]
        # New notes written while the gateway runs are found at the next sync.
        running.say("The curlew calls at low tide.")
        await client.call("sync", {})
        (later, *_) = await search(client, "curlew low tide", "sessions")
        assert later["path"] == said["path"]


async def test_what_a_tool_of_the_host_gave_is_no_part_of_a_conversation(beside, running):
    (beside.host.workspace / "tide-table.txt").write_text("The oystercatcher rests at noon.\n")
    place = str(beside.host.workspace / "tide-table.txt")
    beside.model.script(ToolCall("read", {"path": place}), "The table is read.")
    assert running.say("Please read the tide table.", "agent:main:tools") == "The table is read."
    async with beside.home.gateway() as client:
        await client.call("sync", {})
        assert await search(client, "read the tide table", "sessions")
        hits = await search(client, "oystercatcher noon", "sessions")
        assert not any("oystercatcher" in hit["snippet"] for hit in hits)


async def test_reading_changes_no_file_of_the_host_and_needs_nothing_that_it_holds(beside, running):
    running.say("The wigeon whistles.", "agent:main:frozen")
    with running.frozen():
        before = beside.host.files()
        async with beside.home.gateway() as client:
            await client.call("sync", {"force": True})
            (hit, *_) = await search(client, "wigeon whistles", "sessions")
            assert "The wigeon whistles." in hit["snippet"]
            await client.call("memory_get", {"path": hit["path"]})
        assert changes(before, beside.host.files()) == set()
    assert running.say("The wigeon sleeps.").startswith("Noted")


def test_the_doctor_of_the_host_finds_no_fault_of_ours(beside, running):
    index = (beside.home.state / "memory").iterdir()
    before = {path.name: path.lstat().st_ino for path in index}
    done = beside.host.run("doctor", "--non-interactive")
    said = re.sub(r"[\s│]+", "", done.stdout)  # boxes break names and paths at their borders
    assert done.returncode == 0, done.stdout
    assert "Doctorcomplete" in said
    for ours in ("memory-gateway", "state/memory", "sidecar", "memoryindex"):
        assert ours not in said, done.stdout
    after = {path.name: path.lstat().st_ino for path in (beside.home.state / "memory").iterdir()}
    assert before == after


async def test_what_our_former_release_broke_works_after_our_update_on_what_we_left(install):
    host, home, _ = install()
    make_former_index(home)
    former = (home.state / FORMER_INDEX).stat().st_ino
    with pytest.raises(HostError, match="not a legacy memory index"), host.gateway():
        pass
    async with home.gateway() as client:
        assert await finds_the_greenhouse(client)
        assert not (home.state / FORMER_INDEX).exists()
        assert (home.state / INDEX).stat().st_ino == former
        with host.gateway() as running:  # it starts beside us, and stops beside us
            assert running.say("The dunlin feeds.") == "Noted: The dunlin feeds."
            assert await finds_the_greenhouse(client)
        assert await finds_the_greenhouse(client)
    before = host.files()
    async with home.gateway() as client:
        await client.call("sync", {"force": True})
        assert await finds_the_greenhouse(client)
        assert (
            "The dunlin feeds." in (await search(client, "dunlin feeds", "sessions"))[0]["snippet"]
        )
    assert changes(before, host.files()) == set()
    assert (host.workspace / "MEMORY.md").read_text(
        "utf-8"
    ) == "# Memory\n\n- The boiler is serviced by Hartmann, every October.\n"


def changes(before: dict[str, str], after: dict[str, str]) -> set[str]:
    """Returns the entries that are new, gone or changed, except ours and the memory that SQLite shares."""
    differing = {
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    }
    return {name for name in differing if not (_is_ours(name) or name.endswith("-shm"))}


def _is_ours(name: str) -> bool:
    alone = {"memory", "memory-gateway", "run", "memory/main.sqlite.lock"}
    return name in alone or name.startswith(
        ("memory/main.memory-gateway.", "memory-gateway/", "run/")
    )
