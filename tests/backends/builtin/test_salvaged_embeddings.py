"""What a damaged index had embedded is neither lost nor paid for again, as far as it can be read."""

from __future__ import annotations

from random import Random

import pytest

from backends.builtin.storage.connections import open_unchanging
from backends.interface import SearchRequest, SyncRequest
from config.settings import CacheSettings

pytestmark = pytest.mark.anyio

PAGE = 4096
NOTES = 60
MODEL = "text-embedding-3-small"


@pytest.fixture
def vectors_of(look):
    """Each stored vector by its text, as it lies there."""

    def read(path):
        with look(path) as db:
            return {bytes(key): bytes(blob) for key, blob in db.execute(
                "SELECT text_hash, vector FROM embeddings"
            )}  # fmt: skip

    return read


@pytest.fixture
async def library(embedding_home, vendor, embedded):
    """An index with all of its vectors, which nobody has open; no request was counted."""
    for number in range(NOTES):
        embedding_home.write(f"memory/{number:02}.md", f"The boiler number {number}.\n")
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
    vendor.requests.clear()
    return embedding_home


def damage(path, *pages):
    """One bit in each."""
    data = bytearray(path.read_bytes())
    for page in pages:
        data[page * PAGE + 2000] ^= 4
    path.write_bytes(data)


def pages_of(path, table, kind="leaf"):
    connection = open_unchanging(path)
    rows = connection.execute(
        "SELECT pageno - 1 FROM dbstat WHERE name = ? AND pagetype = ?", (table, kind)
    ).fetchall()
    connection.close()
    return sorted(page for (page,) in rows)


async def replaced(backend):
    """Comes upon the damage, wherever it is, and brings the new index level."""
    await backend.sync(SyncRequest(verify=True))
    status = await backend.status()
    assert any("was damaged" in note for note in status.issues)


async def notes_of(backend):
    return [note for note in (await backend.status()).issues if "embedding" in note]


async def test_damage_among_the_texts_costs_no_embedding(library, vendor, embedded, vectors_of):
    before = vectors_of(library.index)
    damage(library.index, *pages_of(library.index, "chunks"))
    async with library.open() as backend:
        assert (await backend.search(SearchRequest(query="boiler 7"))).hits
        report = await embedded(backend)
        assert report["coverage"]["embedded"] == NOTES
        (note,) = await notes_of(backend)
        assert note.startswith(f"{NOTES} of {NOTES} embeddings were taken over from main.sqlite.")
    assert vendor.embedded() == ["boiler 7"]
    assert vectors_of(library.index) == before


async def test_damage_among_the_vectors_costs_those_of_the_page(
    library, vendor, embedded, vectors_of
):
    before = vectors_of(library.index)
    pages = pages_of(library.index, "embeddings")
    damage(library.index, pages[1])
    async with library.open() as backend:
        await replaced(backend)
        await embedded(backend)
        (note,) = await notes_of(backend)
    lost = len(vendor.embedded())
    assert 1 <= lost <= 2 * NOTES / len(pages)
    assert note.startswith(f"{NOTES - lost} of {NOTES} embeddings")
    assert vectors_of(library.index) == before


async def test_an_index_that_is_damaged_when_it_is_opened_keeps_its_vectors_too(
    library, vendor, embedded, vectors_of
):
    before = vectors_of(library.index)
    data = library.index.read_bytes()
    library.index.write_bytes(data[:-PAGE])
    async with library.open() as backend:
        assert any("was damaged" in note for note in (await backend.status()).issues)
        await backend.sync(SyncRequest())
        await embedded(backend)
    assert len(vendor.embedded()) <= NOTES / 2
    assert vectors_of(library.index) == before


async def test_every_kind_of_damage_ends_with_the_right_vectors(
    library, vendor, embedded, vectors_of
):
    before = vectors_of(library.index)
    sound = library.index.read_bytes()
    for seed in range(6):
        rng = Random(seed)
        data = bytearray(sound)
        for _ in range(4):
            start = PAGE * rng.randrange(1, len(data) // PAGE)
            data[start : start + PAGE] = rng.choice([bytes(PAGE), rng.randbytes(PAGE)])
        library.index.write_bytes(data)
        async with library.open() as backend:
            await backend.sync(SyncRequest(verify=True))
            await embedded(backend)
        assert vectors_of(library.index) == before


@pytest.mark.parametrize(
    "content", [b"\xa5" * 20 * PAGE, b"SQLite format 3\x00" + b"\xa5" * 5 * PAGE]
)
async def test_a_file_that_is_no_index_gives_nothing_and_hinders_nothing(
    library, vendor, embedded, content
):
    header = library.index.read_bytes()[:100]
    library.index.write_bytes(header[:16] + content[16:60] + header[60:] + content[100:])
    async with library.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
        assert any("No embedding could be taken over" in note for note in await notes_of(backend))
    assert len(vendor.embedded()) == NOTES


async def test_vectors_whose_texts_are_not_indexed_yet_are_not_dropped(
    library, vendor, embedded, vectors_in, until, look
):
    library.embed_with(vendor, cache=CacheSettings(enabled=False))
    damage(library.index, *pages_of(library.index, "meta"))  # is read before anything else
    (library.workspace / "memory/00.md").unlink()

    def unused():
        with look(library.index) as db:
            assert db.execute("SELECT count(*) FROM excerpts").get == 0
            return db.execute("SELECT count(*) FROM embeddings WHERE used_at_ms > 0").get

    async with library.open() as backend:
        assert "was damaged" in (await backend.status()).issues[0]
        await until(lambda: unused() == NOTES)  # the backfill has done all it can
        await backend.sync(SyncRequest())
        await embedded(backend)
        await until(lambda: vectors_in(library.index) == {MODEL: NOTES - 1})
    assert vendor.embedded() == []


async def test_who_has_no_provider_today_finds_the_vectors_tomorrow(
    library, vendor, embedded, vectors_in
):
    damage(library.index, *pages_of(library.index, "chunks"))
    settings = library.settings
    library.configure()
    await library.synced()
    async with library.open() as backend:
        await replaced(backend)
    assert vectors_in(library.index) == {}
    library.settings = settings
    async with library.open() as backend:
        await embedded(backend)
    assert vendor.embedded() == []
    assert vectors_in(library.index) == {MODEL: NOTES}
