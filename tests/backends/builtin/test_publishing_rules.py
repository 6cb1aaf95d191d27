"""Answers that must never be given: deleted text, and half of a change of the settings."""

from __future__ import annotations

import shutil
from functools import partial

import anyio
import pytest
from anyio.to_thread import run_sync

from backends.interface import SearchRequest, SyncRequest
from config.settings import ChunkingSettings, ExtraPath

pytestmark = [pytest.mark.anyio, pytest.mark.every_store]


@pytest.mark.parametrize("deleted", [True, False])
async def test_text_that_went_while_its_embedding_was_in_flight_is_never_found(
    embedding_home, vendor, embedded, hits_of, deleted, check
):
    note = embedding_home.write("memory/a.md", "the boiler of the old house\n")
    embedding_home.write("memory/sibling.md", "the greenhouse\n")
    vendor.delay_s = 0.3
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        await run_sync(partial(vendor.wait_until, lambda host: bool(host.requests)))
        if deleted:
            note.unlink()
        else:
            note.write_text("a pump in the new house\n", encoding="utf-8")
        await backend.sync(SyncRequest())
        await embedded(backend)
        texts = [hit.snippet for hit in await hits_of(backend, "the boiler of the old house")]
        assert not any("boiler" in text for text in texts)
        assert [hit.path for hit in await hits_of(backend, "greenhouse")][:1] == [
            "memory/sibling.md"
        ]
        assert not (await backend.status()).dirty
    check(embedding_home.index)


async def test_what_was_paid_for_is_not_paid_again_when_the_text_comes_back(
    embedding_home, vendor, embedded
):
    note = embedding_home.write("memory/a.md", "the boiler of the old house\n")
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
        note.unlink()
        await backend.sync(SyncRequest())
        embedding_home.write("memory/b.md", "the boiler of the old house\n")
        await backend.sync(SyncRequest())
        await embedded(backend)
    assert vendor.embedded().count("the boiler of the old house") == 1


@pytest.mark.parametrize("change", ["chunking", "paths"])
async def test_searches_are_answered_at_every_moment_of_a_change_of_the_settings(
    home, paths_of, quiet, long_note, tmp_path, change
):
    for number in range(20):
        home.write(f"memory/{number}.md", long_note(*range(number, number + 4)))
    await home.synced()
    (tmp_path / "more").mkdir()
    other = {
        "chunking": {"chunking": ChunkingSettings(tokens=100, overlap=20)},
        "paths": {"extra_paths": (ExtraPath(path=tmp_path / "more", raw="more"),)},
    }[change]
    home.configure(**quiet, **other)
    counts = []
    async with home.open() as backend:

        async def ask() -> None:
            while True:
                counts.append(len(await paths_of(backend, "boiler serviced", max_results=200)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await backend.sync(SyncRequest(force=True))
            tasks.cancel_scope.cancel()
    assert counts
    assert min(counts) > 0


@pytest.mark.parametrize("force", [True, False])
async def test_the_log_of_another_index_is_put_right_by_force_or_by_a_second_look_a_minute_later(
    home, new_home, content, check, paths_of, a_minute_later, force
):
    other, fresh = new_home("other"), new_home("fresh")
    for number in range(30):
        text = f"# Boiler\n\n- Visit {number} of the boiler.\n"
        home.write(f"memory/{number}.md", text)
        fresh.write(f"memory/{number}.md", text)
        other.write(f"memory/pump{number}.md", f"- Pump {number}.\n")
    await home.synced()
    await fresh.synced()
    async with other.open() as backend:
        await backend.sync(SyncRequest())
        shutil.copy(f"{other.index}-wal", f"{home.index}-wal")
    async with home.open() as backend:
        report = await backend.sync(SyncRequest(force=force))
        assert not any("pump" in path for path in await paths_of(backend, "pump"))
        assert len(await paths_of(backend, "boiler")) == 30
    if not report.complete:  # the absence of all notes is not believed at the first look
        assert not force
        assert report.removed == 0
        assert "count as deleted if a look 60 s later" in (report.error or "")
        a_minute_later(home.index)
        report = await home.synced()
        assert report.complete
    assert report.removed in {0, 30}
    check(home.index)
    assert content(home.index) == content(fresh.index)


async def test_an_index_file_that_may_not_be_written_still_answers_and_says_what_it_misses(
    public_home, unprivileged, paths_of
):
    note = public_home.write("memory/a.md", "boiler\n")
    public_home.workspace.joinpath("memory").chmod(0o777)
    async with public_home.open() as backend:
        await backend.sync(SyncRequest())
    note.write_text("boiler pump\n", encoding="utf-8")
    public_home.index.chmod(0o444)
    with unprivileged():
        async with public_home.open() as backend:
            assert await paths_of(backend, "boiler") == ["memory/a.md"]
            stale = (await backend.search(SearchRequest(query="boiler"))).stale
    assert stale is not None
    assert "could not be indexed" in stale.reason
    assert f"{public_home.index} belongs to user root (mode 0444)" in stale.reason
