"""A host that was broken, in every known way, and works again: soon everything has its vector."""

from __future__ import annotations

from contextlib import asynccontextmanager, closing, suppress

import anyio
import pytest
from msgspec.structs import replace

from backends.builtin.embedding.backfill import Backfill
from backends.builtin.store.postgres.store import PostgresStore
from backends.builtin.store.sqlite.store import SqliteStore
from config.settings import CacheSettings, Secret, StoreSettings
from fakes.clock import SteppedClock
from fakes.faults import fault, openai_quota, rate_limited, redirect, status
from fakes.settings import make_settings, remote
from fakes.vendors import FakeVendor
from providers.choosing import provider
from providers.embedding.service import REMOTE, Embeddings, EmbeddingService
from providers.provider_interface import ProviderError, ProviderRequest

pytestmark = [pytest.mark.anyio, pytest.mark.every_store]

NOTES = 12
BROKEN_S = 300
HEALED_S = 60
STORE = "backends.builtin.store.sqlite.embeddings"
SETTLED = 3
"""The number of looks in a row that find nothing changed: all tasks left then wait for the clock."""
PAUSE_S = 0.005
PATIENCE_S = 60


class Watched:
    """An embedder that shows whether it is being asked: no time may pass then."""

    def __init__(self, embedder) -> None:
        self._embedder = embedder
        self.asked = 0

    def __getattr__(self, name):
        return getattr(self._embedder, name)

    async def embed_documents(self, texts):
        return await self._counted(self._embedder.embed_documents(texts))

    async def embed_query(self, text):
        return await self._counted(self._embedder.embed_query(text))

    async def _counted(self, call):
        self.asked += 1
        try:
            return await call
        finally:
            self.asked -= 1


class World:
    """One index whose texts are being embedded, one host, and the clock that both follow."""

    def __init__(self, home, clock, embedder, embeddings, backfill, count) -> None:
        self.home, self.clock, self.embeddings, self.backfill = home, clock, embeddings, backfill
        self._embedder = embedder
        self._count = count

    @property
    def embedded(self) -> int:
        return sum(self._count(self.home.index).values())

    async def pass_time(self, done) -> None:
        """Passes time until the condition holds."""
        with anyio.fail_after(PATIENCE_S):
            while not done():
                await self.settle()
                if not done():
                    self.clock.step()

    async def settle(self) -> None:
        """Waits until all tasks wait for the clock."""
        alike, before = 0, None
        while alike < SETTLED or self._embedder.asked:
            await anyio.sleep(PAUSE_S)
            now = (self._embedder.asked, frozenset(self.clock.sleepers))
            alike, before = (alike + 1 if now == before else 0), now


@pytest.fixture
def vendor():
    with FakeVendor("openai") as host:
        yield host


@pytest.fixture
def world(home, tmp_path, monkeypatch, vectors_in):
    """Everything that waits follows one clock, as do the times in the index."""
    clock = SteppedClock()
    monkeypatch.setattr(f"{STORE}.now_ms", lambda: int(clock.now() * 1000))

    @asynccontextmanager
    async def run(host, **options):
        for number in range(NOTES):
            home.write(f"memory/{number:02}.md", f"The boiler number {number}.\n")
        await home.synced()
        search = {"provider": "openai", "remote": remote(host.base_url, host.key)}
        settings = make_settings(tmp_path, search=search)
        embedder = Watched(provider("openai").create(ProviderRequest(settings, "primary")))
        service = EmbeddingService(
            embedder, clock=clock, draw=lambda: 0.0, options=replace(REMOTE, **options)
        )
        embeddings = Embeddings(service, clock=clock)
        with closing(SqliteStore(home.index)) as store:
            backfill = Backfill(store, embeddings, CacheSettings(), clock=clock)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(backfill.run)
                tasks.start_soon(embeddings.watch)
                yield World(home, clock, embedder, embeddings, backfill, vectors_in)
                tasks.cancel_scope.cancel()
            await embeddings.aclose()

    return run


FAULTS = {
    "500": status(500),
    "503": status(503),
    "429": rate_limited(),
    "429 with a pause": rate_limited("20"),
    "no credit": openai_quota(),
    "wrong key": status(401),
    "forbidden": status(403),
    "no such model": status(404),
    "everything rejected": status(400),
    "redirect": redirect("https://elsewhere.example/"),
    "reset": fault("reset"),
    "half an answer": fault("invalid-json"),
    "a page": fault("html"),
    "too few vectors": fault("short"),
    "nan": fault("nan"),
    "zero": fault("zero"),
    "wrong dimension": fault("wrong-dimension"),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_a_broken_host_is_asked_seldom_and_within_a_minute_of_its_recovery_all_is_embedded(
    name, world, vendor
):
    vendor.misbehave(FAULTS[name])
    async with world(vendor) as running:
        started = running.clock.now()
        await running.pass_time(lambda: running.clock.now() >= started + BROKEN_S)
        assert running.embedded < NOTES
        asked_at_first = len(vendor.requests)
        await running.pass_time(lambda: running.clock.now() >= started + 2 * BROKEN_S)
        assert len(vendor.requests) - asked_at_first <= 2 * BROKEN_S / 30
        vendor.heal()
        healed = running.clock.now()
        await running.pass_time(lambda: running.embedded == NOTES)
        assert running.clock.now() - healed <= HEALED_S


async def test_a_host_that_is_lost_with_its_reason_is_not_asked_at_once_again(world, vendor):
    vendor.misbehave(status(401))
    async with world(vendor) as broken:
        await broken.pass_time(lambda: broken.backfill.last_error)
        await broken.settle()
        assert not broken.backfill.running
        assert "refused the credential" in broken.backfill.last_error
        assert "The next attempt" not in broken.backfill.last_error


async def test_what_is_told_of_a_host_that_wants_a_pause_does_not_grow_old(world, vendor):
    vendor.misbehave(rate_limited("3600"))
    async with world(vendor) as broken:
        await broken.pass_time(lambda: broken.backfill.last_error)
        assert "asks for fewer requests" in broken.backfill.last_error
        assert "The next attempt" not in broken.backfill.last_error


async def test_a_text_at_which_the_host_breaks_stops_no_other(world, vendor):
    vendor.breaks_at = lambda text: text == "The boiler number 7."
    async with world(vendor) as going_on:
        await going_on.pass_time(lambda: going_on.embedded == NOTES - 1)


async def test_who_waits_for_all_vectors_waits_for_those_beside_a_text_at_which_the_host_breaks(
    world, vendor
):
    vendor.breaks_at = lambda text: text == "The boiler number 7."
    states = []
    async with world(vendor) as going_on, anyio.create_task_group() as tasks:

        async def wait():
            states.append(await going_on.backfill.rested(None))

        tasks.start_soon(wait)
        await going_on.pass_time(lambda: states)
    assert (states[0].coverage.embedded, states[0].coverage.failed) == (NOTES - 1, 1)


async def test_a_host_that_hung_is_forgiven_within_a_minute(world, vendor):
    vendor.misbehave(fault("hang"))
    async with world(vendor, timeout_s=0.2) as running:
        await running.pass_time(lambda: running.embeddings.state().active.status == "open")
        vendor.heal()
        healed = running.clock.now()
        await running.pass_time(lambda: running.embedded == NOTES)
        assert running.clock.now() - healed <= HEALED_S


async def test_a_host_that_refused_connections_is_forgiven_within_a_minute(world):
    with FakeVendor("openai") as gone:
        port = gone.port
    async with world(gone) as running:
        await running.pass_time(lambda: running.embeddings.state().active.status == "open")
        with FakeVendor("openai", at_port=port):
            healed = running.clock.now()
            await running.pass_time(lambda: running.embedded == NOTES)
            assert running.clock.now() - healed <= HEALED_S


async def test_a_host_that_gave_vectors_of_another_length_at_first_is_believed_in_the_end(
    world, vendor, monkeypatch
):
    monkeypatch.setattr("providers.remote.embedder._TIME_TO_BELIEVE_S", 0.0)
    vendor.dimensions = 32
    async with world(vendor) as running:
        await running.pass_time(lambda: running.embedded == NOTES)
        vendor.dimensions = 64
        healed = running.clock.now()
        running.home.write("memory/new.md", "A new note.\n")
        await running.home.synced()
        running.backfill.wake()
        await running.pass_time(
            lambda: running.embedded == NOTES + 1 and running.backfill.last_error is None
        )
        assert running.embeddings.state().active.dimensions == 64
        assert running.clock.now() - healed <= HEALED_S


async def test_the_vector_of_a_query_offers_a_refused_text_again_but_not_with_every_query(
    world, vendor
):
    vendor.rejects = lambda text: "number 7" in text
    async with world(vendor) as running:
        await running.pass_time(lambda: running.embedded == NOTES - 1)

        async def ask(query):
            running.backfill.note_query(await running.embeddings.embed_query(query))

        for _ in range(3):  # its pauses have grown by now
            count = len(vendor.requests)
            await running.pass_time(lambda count=count: len(vendor.requests) > count)
        asked = len(vendor.requests)
        for number in range(5):
            await ask(f"boiler {number}")
            await running.settle()
            while any(due <= running.clock.now() + 1 for due in running.clock.sleepers.values()):
                running.clock.step()
                await running.settle()
        offered = [seen for seen in vendor.requests[asked:] if "The boiler number 7." in seen.texts]
        assert len(offered) == 1


@pytest.mark.parametrize(
    "name",
    [
        "this text alone gets none",
        "too few vectors",
        "nan",
        "zero",
        "wrong dimension",
        "half an answer",
    ],
)
@pytest.mark.parametrize("are_asked", [False, True], ids=["without queries", "beside queries"])
async def test_a_new_note_whose_vector_did_not_come_has_one_within_a_minute_of_the_hosts_recovery(
    name, are_asked, world, vendor
):
    """It is one text alone in its request, which is not the first request to the host."""
    async with world(vendor) as running:
        await running.pass_time(lambda: running.embedded == NOTES)
        if name.startswith("this text"):
            vendor.loses = lambda text: "new" in text
        else:
            vendor.misbehave(FAULTS[name])
        running.home.write("memory/new.md", "A new note.\n")
        await running.home.synced()
        running.backfill.wake()

        async def pass_a_while(seconds, done=lambda: False):
            """Asks a question every ten seconds, whatever the answer."""
            ends, number = running.clock.now() + seconds, 0
            while running.clock.now() < ends and not done():
                number += 1
                due = min(running.clock.now() + 10, ends)
                await running.pass_time(lambda due=due: running.clock.now() >= due or done())
                if are_asked:
                    with suppress(ProviderError):
                        text = f"question {number} until {ends}"
                        running.backfill.note_query(await running.embeddings.embed_query(text))

        await pass_a_while(BROKEN_S)
        assert running.embedded == NOTES
        vendor.heal()
        vendor.loses = lambda _text: False
        healed = running.clock.now()
        await pass_a_while(1_000, lambda: running.embedded == NOTES + 1)
        assert running.clock.now() - healed <= HEALED_S


async def test_a_database_that_is_away_while_texts_wait_is_asked_after_a_pause(tmp_path, capfd):
    clock = SteppedClock()
    url = Secret(f"postgresql://gateway@/memory?host={tmp_path}")
    address = StoreSettings(path=tmp_path / "index.sqlite", driver="postgres", url=url)
    search = {"provider": "openai", "remote": remote("http://127.0.0.1:9", "key")}
    embedder = provider("openai").create(
        ProviderRequest(make_settings(tmp_path, search=search), "primary")
    )
    embeddings = Embeddings(EmbeddingService(embedder, clock=clock), clock=clock)
    store = PostgresStore(address, "main", viewpoint="here")
    backfill = Backfill(store, embeddings, CacheSettings(), clock=clock)
    running = World(None, clock, Watched(embedder), embeddings, backfill, None)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(backfill.run)
        await running.pass_time(lambda: backfill.last_error)
        await running.settle()
        tasks.cancel_scope.cancel()
    await embeddings.aclose()
    assert capfd.readouterr().out.count("embedding paused") == 1
