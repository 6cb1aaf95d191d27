"""Owner and guest in one process: sockets that were handed in, taking over, closing."""

from __future__ import annotations

import contextlib
import socket
from contextlib import asynccontextmanager

import anyio
import pytest
from msgspec.structs import replace

from backends.interface import IndexUnavailableError
from config.settings import SyncSettings
from fakes.settings import make_settings
from gateway.client import RemoteError, connect
from gateway.ownership.host import Host
from gateway.ownership.owner import place_of, read_owner
from gateway.ownership.sockets import listen, reach_owner

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def runtime_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


@pytest.fixture
def settings(tmp_path):
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace/MEMORY.md").write_text("- The boiler.\n", encoding="utf-8")
    return make_settings(tmp_path, search={"provider": "none", "sync": SyncSettings()})


class Running:
    def __init__(self, host, shutdown, over):
        self.host, self.shutdown, self.over = host, shutdown, over

    async def end(self):
        self.shutdown.set()
        with anyio.fail_after(60):
            await self.over.wait()


@pytest.fixture
def run(settings):
    """Runs one more host without a pipe: `async with run(sockets=...) as running`."""

    @asynccontextmanager
    async def start(sockets=(), settings=settings, read_settings=None, idle_s=None):
        shutdown, over = anyio.Event(), anyio.Event()
        host = Host(
            settings, read_settings=read_settings or (lambda: settings), pipe=None,
            sockets=sockets, shutdown=shutdown, idle_s=idle_s,
        )  # fmt: skip

        async def serve():
            await host.run()
            over.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            with anyio.fail_after(60):
                yield Running(host, shutdown, over)
            shutdown.set()

    return start


async def ask(stream, method, params=None):
    async with stream, connect(stream, stream) as client:
        return await client.call(method, params)


async def test_the_owner_answers_its_own_socket_and_those_handed_in(run, settings, tmp_path):
    handed_in = listen(tmp_path / "activated")
    async with run(sockets=(handed_in,)):
        own = await reach_owner(place_of(settings).lock)
        assert (await ask(own, "memory_search", {"query": "boiler"}))["outcome"] == "ok"
        other = await anyio.connect_unix(tmp_path / "activated")
        assert (await ask(other, "memory_search", {"query": "boiler"}))["outcome"] == "ok"


async def test_a_guest_carries_the_clients_of_a_handed_in_socket_and_goes_on_as_owner(
    run, settings, tmp_path
):
    lock = place_of(settings).lock
    async with run() as owner:
        await (await reach_owner(lock)).aclose()
        handed_in = listen(tmp_path / "activated")
        async with run(sockets=(handed_in,)):
            stream = await anyio.connect_unix(tmp_path / "activated")
            async with stream, connect(stream, stream) as client:
                assert (await client.call("health"))["status"] == "ok"
                await owner.end()
                found = await client.call("memory_search", {"query": "boiler"})
                assert found["results"][0]["path"] == "MEMORY.md"
                status = await ask(await reach_owner(lock), "status")
                assert status["files"] == 1


async def test_an_owner_that_serves_another_workspace_is_not_asked(run, settings, tmp_path):
    """It may have become the owner after the guest had checked its workspace."""
    lock = place_of(settings).lock
    (tmp_path / "other").mkdir()
    others = replace(settings, workspace=tmp_path / "other")
    guest = Host(others, read_settings=lambda: others, pipe=None, shutdown=anyio.Event())
    async with run():
        await (await reach_owner(lock)).aclose()
        with pytest.raises(IndexUnavailableError, match="for the workspace"):
            await guest._reach(lock)


async def test_an_heir_reads_the_configuration_that_its_predecessor_had_reloaded(
    run, settings, tmp_path
):
    lock = place_of(settings).lock
    newer = replace(settings, citations="off")
    async with run() as owner:
        await (await reach_owner(lock)).aclose()
        handed_in = listen(tmp_path / "activated")
        async with run(sockets=(handed_in,), read_settings=lambda: newer):
            guest = await anyio.connect_unix(tmp_path / "activated")
            await ask(guest, "health")  # it found the owner, and stands by
            await owner.end()
            heir = await reach_owner(lock)
            assert (await ask(heir, "status"))["citations"] == "off"


async def test_the_wish_to_end_of_a_socket_s_client_ends_its_own_connection_only(run, settings):
    lock = place_of(settings).lock
    async with run():
        stream = await reach_owner(lock)
        async with stream:
            await stream.send(b'{"jsonrpc":"2.0","id":1,"method":"shutdown"}\n')
            received = b"".join([piece async for piece in stream])
        assert b'"stopping":true' in received
        assert (await ask(await reach_owner(lock), "health"))["status"] == "ok"


async def test_an_owner_that_can_have_no_socket_serves_without_one(run, settings, tmp_path):
    (tmp_path / "memory-gateway").write_text("in the way", encoding="utf-8")
    (tmp_path / "run").write_text("in the way", encoding="utf-8")
    async with run() as running:
        lock = place_of(settings).lock
        while (record := read_owner(lock)) is None:
            await anyio.sleep(0.001)
        assert record.socket is None
        await running.end()


async def test_a_host_leaves_neither_socket_nor_record(run, settings):
    place = place_of(settings)
    async with run() as running:
        await (await reach_owner(place.lock)).aclose()
        assert place.sockets[0].is_socket()
        await running.end()
    assert not place.sockets[0].exists()
    assert read_owner(place.lock) is None


async def test_a_descriptor_shortage_delays_new_clients_and_ends_nothing(run, settings):
    import resource

    lock = place_of(settings).lock
    async with run():
        await ask(await reach_owner(lock), "sync")  # nothing else opens files from now on
        first = await reach_owner(lock)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        hoard = []
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))
        try:
            with contextlib.suppress(OSError):
                hoard.extend(socket.socket(socket.AF_UNIX) for _ in range(1000))
            hoard.pop().close()
            waiting = await anyio.connect_unix(read_owner(lock).socket)
            for one in hoard:
                one.close()
            assert (await ask(waiting, "health"))["status"] == "ok"
            assert (await ask(first, "health"))["status"] == "ok"
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_switched_off_memory_is_owned_by_nobody(run, settings, tmp_path):
    off = replace(settings, memory_slot="none")
    handed_in = listen(tmp_path / "activated")
    async with run(sockets=(handed_in,), settings=off):
        stream = await anyio.connect_unix(tmp_path / "activated")
        assert (await ask(stream, "memory_search", {"query": "boiler"}))["disabled"]
    assert not place_of(settings).lock.exists()


async def test_one_that_stays_for_a_while_ends_when_nobody_is_connected_any_more(run, settings):
    lock = place_of(settings).lock
    async with run(idle_s=2) as staying:
        stream = await reach_owner(lock)
        assert not staying.over.is_set()
        assert (await ask(stream, "memory_search", {"query": "boiler"}))["outcome"] == "ok"
        await staying.over.wait()


def delete_index(settings):
    """Deletes an index with the files beside it; returns their names."""
    index = settings.search.store.path
    there = list(index.parent.glob(f"{index.name}*"))
    for one in there:
        one.unlink()
    return [one.name for one in there]


async def test_one_that_stays_ends_once_its_index_was_deleted_and_leaves_no_new_one(run, settings):
    async with run(idle_s=3600) as staying:
        stream = await reach_owner(place_of(settings).lock)
        async with stream, connect(stream, stream) as client:
            assert (await client.call("memory_search", {"query": "boiler"}))["results"] != []
            delete_index(settings)
            (settings.workspace / "MEMORY.md").write_text("- The kettle.\n", encoding="utf-8")
            with pytest.raises(RemoteError, match="was deleted, and this process, which ends"):
                await client.call("sync")
            await staying.over.wait()
    assert delete_index(settings) == []


async def test_one_that_stays_leaves_an_index_that_was_deleted_and_made_again_to_its_new_owner(
    run, settings
):
    lock = place_of(settings).lock
    async with run(idle_s=3600) as staying:
        await (await reach_owner(lock)).aclose()
        delete_index(settings)
        async with run() as owner:
            await staying.over.wait()
            stream = await reach_owner(lock)
            assert (await ask(stream, "memory_search", {"query": "boiler"}))["outcome"] == "ok"
            assert not owner.over.is_set()


async def test_one_that_stays_while_it_is_needed_leaves_the_index_to_its_owner(run, settings):
    async with run() as owner:
        await (await reach_owner(place_of(settings).lock)).aclose()
        async with run(idle_s=3600) as needless:
            await needless.over.wait()
        assert not owner.over.is_set()
