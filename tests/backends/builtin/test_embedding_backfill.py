"""Texts get their vectors in the background: together, once, and never twice."""

from __future__ import annotations

import threading
import time
from collections import Counter

import anyio
import numpy as np
import pytest
from msgspec.structs import replace

from backends.interface import SearchRequest, SyncRequest
from config.settings import CacheSettings, StoreSettings, VectorStoreSettings

pytestmark = [pytest.mark.anyio, pytest.mark.every_store]


@pytest.fixture
def library_of(embedding_home):
    """Writes that many notes of one chunk each, all different."""

    def write(count, start=0):
        for number in range(start, start + count):
            embedding_home.write(f"memory/{number:03}.md", f"The boiler number {number}.\n")

    return write


async def test_the_chunks_of_many_files_share_one_request(
    embedding_home, vendor, library_of, indexed_alone, embedded
):
    library_of(60)
    await indexed_alone(embedding_home)
    async with embedding_home.open() as backend:
        report = await embedded(backend)
    assert report["coverage"] == {
        "total": 60, "embedded": 60, "failed": 0, "dimensions": 64, "stored": 60,
    }  # fmt: skip
    assert len(vendor.requests) == 1
    assert Counter(vendor.embedded()).most_common(1)[0][1] == 1


async def test_vectors_are_stored_as_float32_of_length_one(
    embedding_home, library_of, embedded, look
):
    library_of(3)
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
    with look(embedding_home.index) as db:
        for (blob,) in db.execute("SELECT vector FROM embeddings"):
            assert np.linalg.norm(np.frombuffer(blob, "<f4")) == pytest.approx(1, abs=1e-5)


async def test_what_a_damaged_index_had_embedded_is_embedded_again(
    embedding_home, vendor, library_of, embedded, spoil, vectors_in
):
    library_of(5)
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
        vendor.requests.clear()
        spoil(embedding_home.index)
        assert (await backend.search(SearchRequest(query="boiler 3"))).hits
        assert any("was damaged" in note for note in (await backend.status()).issues)
        assert (await embedded(backend))["coverage"]["embedded"] == 5
    texts = Counter(text for text in vendor.embedded() if text != "boiler 3")
    assert sum(texts.values()) == len(texts) == 5
    assert vectors_in(embedding_home.index) == {"text-embedding-3-small": 5}


async def test_renaming_and_indexing_by_force_embed_nothing(
    embedding_home, vendor, long_note, embedded
):
    note = embedding_home.write("memory/a.md", long_note(1, 2, 3))
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
        before = len(vendor.requests)
        note.rename(note.with_name("b.md"))
        await backend.sync(SyncRequest())
        await backend.sync(SyncRequest(force=True))
        await embedded(backend)
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest(force=True))
        await embedded(backend)
    assert len(vendor.requests) == before


async def test_a_line_at_the_top_of_a_file_embeds_at_most_two_chunks_anew(
    embedding_home, vendor, long_note, embedded
):
    text = long_note(*range(8))
    note = embedding_home.write("memory/a.md", text)
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        total = (await embedded(backend))["coverage"]["total"]
        assert total > 5
        paid = len(vendor.embedded())
        note.write_text(f"A new first line.\n{text}", encoding="utf-8")
        await backend.sync(SyncRequest())
        await embedded(backend)
    assert 1 <= len(vendor.embedded()) - paid <= 2


async def test_a_text_that_is_written_by_a_search_gets_its_vector(embedding_home, vendor, embedded):
    async with embedding_home.open() as backend:
        embedding_home.write("memory/a.md", "A kingfisher sat on the weir.\n")
        assert (await backend.search(SearchRequest(query="kingfisher"))).hits
        assert (await embedded(backend))["coverage"]["embedded"] == 1


@pytest.mark.promises_seconds
async def test_every_answer_is_stored_as_it_arrives_and_nothing_of_it_is_paid_again(
    embedding_home, vendor, library_of, until, vectors_in, embedded
):
    library_of(40)
    vendor.max_items = 4
    gate = threading.Event()

    def holds(_text):
        if len(vendor.embedded()) >= 16:
            gate.wait(10)
        return False

    vendor.rejects = holds
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        stored = await until(lambda: sum(vectors_in(embedding_home.index).values()) >= 16)
        assert stored
        started = time.monotonic()
    assert time.monotonic() - started < 2
    gate.set()
    vendor.rejects = lambda _text: False
    paid = vectors_in(embedding_home.index)["text-embedding-3-small"]
    first = len(vendor.requests)
    async with embedding_home.open() as backend:
        await embedded(backend)
    again = [text for seen in vendor.requests[first:] for text in seen.texts]
    assert len(again) == 40 - paid
    assert max(Counter(vendor.embedded()).values()) <= 2
    assert sum(count - 1 for count in Counter(vendor.embedded()).values()) <= 4 * 4


async def test_what_was_paid_for_waits_for_a_locked_database(
    embedding_home, vendor, library_of, look, until, embedded
):
    library_of(20)
    locked = threading.Event()
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
        with look(embedding_home.index) as db:
            library_of(1, start=20)
            vendor.rejects = lambda text: text.endswith(" 20.") and not locked.wait(60)
            await backend.search(SearchRequest(query="boiler"))
            db.execute("BEGIN IMMEDIATE")
            locked.set()
            await until(lambda: "The boiler number 20." in vendor.embedded())
            with anyio.fail_after(60):
                while (await backend.status()).details.vector.backfill.last_error is None:
                    await anyio.sleep(0.02)
            db.execute("ROLLBACK")
        report = await embedded(backend)
    assert report["coverage"]["embedded"] == 21
    assert vendor.embedded().count("The boiler number 20.") == 1


async def test_learned_limits_are_kept_by_the_next_process(
    embedding_home, vendor, library_of, embedded
):
    vendor.max_items, vendor.names_limit = 10, False
    library_of(64)
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
    refused = sum(seen.answered == 400 for seen in vendor.requests)
    assert refused
    library_of(30, start=100)
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
    assert sum(seen.answered == 400 for seen in vendor.requests) == refused


async def test_unused_vectors_are_kept_up_to_the_bound_of_the_cache(
    embedding_home, vendor, library_of, embedded, vectors_in, until
):
    embedding_home.embed_with(vendor, cache=CacheSettings(max_entries=12))
    library_of(10)
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
        for number in range(5):
            (embedding_home.workspace / f"memory/{number:03}.md").unlink()
        library_of(5, start=20)
        await backend.sync(SyncRequest())
        await embedded(backend)
        await until(lambda: sum(vectors_in(embedding_home.index).values()) == 12)
    assert sum(vectors_in(embedding_home.index).values()) == 12


async def test_without_a_cache_only_vectors_in_use_are_kept(
    embedding_home, vendor, library_of, embedded, vectors_in, until
):
    embedding_home.embed_with(vendor, cache=CacheSettings(enabled=False))
    library_of(6)
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
        embedding_home.write("memory/000.md", "Something else.\n")
        await backend.sync(SyncRequest())
        await embedded(backend)
        await until(lambda: sum(vectors_in(embedding_home.index).values()) == 6)
    assert sum(vectors_in(embedding_home.index).values()) == 6


async def test_with_vectors_switched_off_nothing_is_embedded(embedding_home, vendor, library_of):
    library_of(3)
    off = {"path": embedding_home.index, "vector": VectorStoreSettings(enabled=False)}
    search = replace(embedding_home.settings.search, store=StoreSettings(**off))
    embedding_home.settings = replace(embedding_home.settings, search=search)
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        answer = await backend.search(SearchRequest(query="boiler"))
        assert (len(answer.hits), answer.mode, answer.warning) == (3, "keyword", None)
        assert (await backend.status()).details.vector.enabled is False
    assert not vendor.requests


async def test_an_empty_memory_asks_its_host_for_nothing(embedding_home, vendor, embedded):
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        report = await embedded(backend)
        assert (await backend.search(SearchRequest(query="boiler"))).outcome == "empty"
    assert report["coverage"]["total"] == 0
    assert vendor.embedded() == ["boiler"]
