"""A gateway beside, after and before one of an earlier release, which has the index elsewhere.

An earlier release is today's program with `store.path` set to where that release had it: it locks, opens
and makes the same files.
"""

from __future__ import annotations

import anyio
import pytest

pytestmark = pytest.mark.anyio

WAIT_S = 120
FORMER, NEW = "main.sqlite", "main.memory-gateway.sqlite"


@pytest.fixture
def folder(home):
    return home.state / "memory"


@pytest.fixture
def earlier(home, folder):
    """Makes the next process of this home one of the earlier release; with `earlier(False)`, one of today's."""

    def be(is_earlier=True):
        store = {"store": {"path": str(folder / FORMER)}} if is_earlier else {}
        home.configure({"agents": {"defaults": {"memorySearch": store}}})

    return be


def names(folder):
    return sorted(path.name for path in folder.glob("*.sqlite"))


async def status_of(client):
    return await client.call("status", timeout_s=WAIT_S)


async def test_the_first_start_moves_the_index_and_status_says_so_once(home, folder, earlier):
    earlier()
    home.run("index")
    assert names(folder) == [FORMER]
    earlier(False)
    async with home.gateway() as client:
        status = await status_of(client)
        assert status["databasePath"] == str(folder / NEW)
        assert any("moved here from" in issue for issue in status["issues"])
        assert status["sources"][0]["indexed"] == status["sources"][0]["onDisk"]
    assert names(folder) == [NEW]
    async with home.gateway() as client:
        assert not any("moved" in issue for issue in (await status_of(client))["issues"])


async def test_beside_an_older_gateway_a_newer_one_is_its_guest_and_moves_the_index_after_it(
    home, folder, earlier
):
    earlier()
    async with home.gateway() as older:
        assert (await status_of(older))["databasePath"] == str(folder / FORMER)
        earlier(False)
        async with home.gateway() as newer:
            assert (await status_of(newer))["pid"] == older.process.pid
            assert names(folder) == [FORMER]
            older.process.kill()
            with anyio.fail_after(WAIT_S):
                await older.process.wait()
                status = await status_of(newer)
            assert status["pid"] == newer.process.pid
            assert status["databasePath"] == str(folder / NEW)
    assert names(folder) == [NEW]


async def test_beside_a_newer_gateway_an_older_one_is_its_guest_and_makes_no_index(
    home, folder, earlier
):
    async with home.gateway() as newer:
        assert (await status_of(newer))["databasePath"] == str(folder / NEW)
        earlier()
        async with home.gateway() as older:
            assert (await status_of(older))["pid"] == newer.process.pid
        assert home.command("status", "--json")["pid"] == newer.process.pid
    assert names(folder) == [NEW]


async def test_what_an_older_gateway_made_since_is_deleted_by_the_next_newer_one(
    home, folder, earlier
):
    home.run("index")
    earlier()
    home.run("index")
    assert names(folder) == [NEW, FORMER]
    earlier(False)
    async with home.gateway() as client:
        status = await status_of(client)
        assert status["databasePath"] == str(folder / NEW)
        assert any("was deleted" in issue for issue in status["issues"])
    assert names(folder) == [NEW]


async def test_two_that_start_at_once_move_it_once(home, folder, earlier):
    earlier()
    home.run("index")
    earlier(False)
    pids = []
    both = anyio.Event()

    async def start():
        async with home.gateway() as client:
            pids.append((await status_of(client))["pid"])
            if len(pids) == 2:
                both.set()
            await both.wait()

    with anyio.fail_after(2 * WAIT_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(start)
            tasks.start_soon(start)
    assert len(set(pids)) == 1
    assert names(folder) == [NEW]


def test_a_command_moves_it_as_well_and_doctor_says_where_it_is(home, folder, earlier):
    earlier()
    home.run("index")
    earlier(False)
    findings = [
        one for one in home.command("doctor", "--json")["findings"] if one["check"] == "index"
    ]
    assert any("OpenClaw" in one["cause"] for one in findings)
    assert names(folder) == [FORMER]
    found = home.command("search", "boiler", "--json")
    assert [hit["path"] for hit in found["results"]] == ["MEMORY.md"]
    assert names(folder) == [NEW]
    findings = [
        one for one in home.command("doctor", "--json")["findings"] if one["check"] == "index"
    ]
    assert [one["severity"] for one in findings] == ["ok"]
    assert findings[0]["place"] == str(folder / NEW)
