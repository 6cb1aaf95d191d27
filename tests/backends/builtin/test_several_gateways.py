"""Several gateways of one agent share an index in PostgreSQL: no text is embedded twice, even if one is lost."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from contextlib import closing

import anyio
import pytest
from msgspec.structs import replace

from backends.builtin.backend import open_builtin
from backends.builtin.embedding import backfill
from backends.builtin.store import leasing
from backends.builtin.store.postgres.store import PostgresStore
from backends.interface import SyncRequest
from fakes.faults import status

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("postgres_settings", ["direct", "pooled"], indirect=True),
]


@pytest.fixture(autouse=True)
def short_leases(monkeypatch):
    """Shortens the waits for a turn."""
    monkeypatch.setattr(leasing, "_RENEWALS", 300)
    monkeypatch.setattr(backfill, "LOOK_S", 0.05)


@pytest.fixture
def shared_home(embedding_home, postgres_settings):
    """An agent whose index is in PostgreSQL."""
    store = replace(postgres_settings, view="test")
    search = replace(embedding_home.settings.search, store=store)
    embedding_home.settings = replace(embedding_home.settings, search=search)
    return embedding_home


def write(home, count):
    for number in range(count):
        home.write(f"memory/{number:03}.md", f"The boiler number {number}.\n")


def notes_of_requests(vendor):
    return [text for seen in vendor.requests for text in seen.texts if "boiler number" in text]


def notes_of(vendor):
    return Counter(text for text in vendor.embedded() if "boiler number" in text)


async def until_embedded(backend, count):
    with anyio.fail_after(60):
        while (await backend.status()).details.vector.backfill.coverage.embedded < count:
            await anyio.sleep(0.01)


async def test_each_text_is_embedded_by_one_of_two_gateways(shared_home, vendor, embedded):
    write(shared_home, 30)
    async with shared_home.open() as first, shared_home.open() as second:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(first.sync, SyncRequest())
            tasks.start_soon(second.sync, SyncRequest())
        for backend in (first, second):
            assert (await embedded(backend))["coverage"]["embedded"] == 30
    counts = notes_of(vendor)
    assert (len(counts), counts.most_common(1)[0][1]) == (30, 1)


async def test_what_another_gateway_published_and_left_is_embedded_by_one_that_was_idle(
    shared_home, vendor, embedded
):
    async with shared_home.open() as idle:
        await embedded(idle)
        write(shared_home, 3)
        alone = replace(
            shared_home.settings, search=replace(shared_home.settings.search, provider="none")
        )
        async with open_builtin(alone) as other:
            await other.sync(SyncRequest())
        while (await embedded(idle))["coverage"]["embedded"] < 3:
            await anyio.sleep(0.01)
    assert set(notes_of(vendor).values()) == {1}


async def test_who_lost_the_lease_while_the_vendor_worked_writes_nothing_and_pays_nothing_twice(
    shared_home, vendor, embedded, postgres_settings
):
    answer = threading.Event()
    vendor.rejects = lambda text: "boiler number" in text and not answer.wait(60)
    write(shared_home, 3)
    with closing(PostgresStore(postgres_settings, "main", viewpoint="test")) as outside:
        async with shared_home.open() as backend:
            await backend.sync(SyncRequest())
            with anyio.fail_after(60):
                while not vendor.requests:
                    await anyio.sleep(0.01)
            with outside._transaction(read_only=False) as transaction:
                transaction.end("UPDATE leases SET until = now() WHERE work = 'embedding'", {})
            lease = outside.lease("embedding", 600)
            answer.set()
            with anyio.fail_after(60):
                while (await backend.status()).details.vector.backfill.running:
                    await anyio.sleep(0.01)
            report = (await backend.status()).details.vector.backfill
            assert (report.coverage.embedded, report.last_error) == (0, None)
            assert (await backend.status()).details.store.role == "leader"  # role of this process
            outside.give_back(lease)
            while (await embedded(backend))["coverage"]["embedded"] < 3:
                await anyio.sleep(0.01)
    assert set(notes_of(vendor).values()) == {1}


async def test_what_was_sent_before_the_lease_was_lost_is_left_to_who_sent_it(
    shared_home, vendor, postgres_settings
):
    answer = threading.Event()
    vendor.rejects = lambda text: "boiler number 0" in text and not answer.wait(60)
    shared_home.write("memory/000.md", "The boiler number 0.\n")
    with closing(PostgresStore(postgres_settings, "main", viewpoint="test")) as outside:
        async with shared_home.open() as stopped:
            await stopped.sync(SyncRequest())
            with anyio.fail_after(60):
                while not notes_of_requests(vendor):
                    await anyio.sleep(0.01)
            with outside._transaction(read_only=False) as transaction:
                transaction.end("UPDATE leases SET until = now() WHERE work = 'embedding'", {})
            lease = outside.lease("embedding", 600)
            async with shared_home.open() as other:
                shared_home.write("memory/001.md", "The boiler number 1.\n")
                await other.sync(SyncRequest())
                outside.give_back(lease)
                await until_embedded(other, 1)
                assert [text.strip() for text in notes_of(vendor)] == ["The boiler number 1."]
                answer.set()
                await until_embedded(other, 2)
    assert set(notes_of(vendor).values()) == {1}


async def test_texts_of_a_request_that_failed_are_sent_again_at_once_by_anybody(
    shared_home, vendor
):
    vendor.misbehave(status(500))
    write(shared_home, 3)
    async with shared_home.open() as first:
        await first.sync(SyncRequest())
        with anyio.fail_after(60):
            while (await first.status()).details.vector.backfill.last_error is None:
                await anyio.sleep(0.01)
    vendor.heal()
    async with shared_home.open() as second:
        await until_embedded(second, 3)
    assert len(set(vendor.embedded())) == 3


async def test_the_vectors_of_a_model_stay_while_another_gateway_uses_it(
    shared_home, vendor, embedded
):
    write(shared_home, 3)
    search = replace(shared_home.settings.search, model="text-embedding-3-large")
    newer = replace(shared_home.settings, search=search)
    async with shared_home.open() as former:
        await former.sync(SyncRequest())
        await embedded(former)
        async with open_builtin(newer) as latter:
            await latter.sync(SyncRequest(force=True))
            assert (await embedded(latter))["coverage"]["stored"] == 6
            shared_home.write("memory/000.md", "The boiler number 1000.\n")
            await former.sync(SyncRequest())
            assert (await embedded(former))["coverage"]["embedded"] == 3
            assert (await embedded(latter))["coverage"]["embedded"] == 3
    texts = Counter(
        (seen.body and "large" in str(seen.body), text)
        for seen in vendor.requests
        if seen.answered == 200
        for text in seen.texts
    )
    assert max(texts.values()) == 1


async def test_they_stay_while_a_gateway_whose_clock_is_40_days_ahead_uses_another_one(
    shared_home, embedded, monkeypatch
):
    write(shared_home, 3)
    async with shared_home.open() as former:
        await former.sync(SyncRequest())
        await embedded(former)
        with anyio.fail_after(60):
            while not (before := models_in_use(former)):
                await anyio.sleep(0.01)
    true = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: true() + 40 * 24 * 3600 * 10**9)
    search = replace(shared_home.settings.search, model="text-embedding-3-large")
    async with open_builtin(replace(shared_home.settings, search=search)) as latter:
        await latter.sync(SyncRequest(force=True))
        await embedded(latter)
        with anyio.fail_after(60):
            while (now := models_in_use(latter)) == before:
                await anyio.sleep(0.01)
        assert now > before
        assert (await embedded(latter))["coverage"]["stored"] == 6


def models_in_use(backend):
    with backend._store.view() as view:
        return set(json.loads(view.remembered(backfill._MODELS_KEY) or "{}"))


async def test_only_one_gateway_of_a_view_verifies_at_a_time(shared_home, postgres_settings):
    write(shared_home, 2)
    shared_home.settings = replace(
        shared_home.settings, search=replace(shared_home.settings.search, provider="none")
    )
    with closing(PostgresStore(postgres_settings, "main", viewpoint="test")) as outside:
        async with shared_home.open() as backend:
            await backend.sync(SyncRequest())
            lease = outside.lease("verify", 600)
            with anyio.fail_after(60):
                while (await backend.sync(SyncRequest())).bytes_read:  # notes so new are read again
                    await anyio.sleep(0.1)
            assert (await backend.sync(SyncRequest(verify=True))).bytes_read == 0
            outside.give_back(lease)
            assert (await backend.sync(SyncRequest(verify=True))).bytes_read > 0
