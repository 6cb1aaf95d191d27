"""The counts of a real memory at work."""

from __future__ import annotations

from pathlib import Path

import anyio
import anyio.lowlevel
import msgspec
import pytest

from backends.interface import Hit, IndexUnavailableError, SyncRequest
from config.runtime.remembered import ENTRY_BYTES, size_of
from fakes.details import details
from fakes.sessions import OPERATOR
from fakes.settings import make_settings
from gateway.agent.memory import open_memory
from gateway.metrics import Metrics, ShownNote, ShownNotes
from gateway.recalled import UseRecord
from gateway.tools.search import SearchParams
from gateway.tools.status import families_of, write_status

pytestmark = pytest.mark.anyio


@pytest.fixture
def settings(tmp_path: Path):
    (tmp_path / "workspace/memory").mkdir(parents=True)
    (tmp_path / "workspace/memory/a.md").write_text("- The boiler.\n", encoding="utf-8")
    return make_settings(tmp_path, search={"provider": "none"})


def samples(result) -> dict[tuple[str, ...], float]:
    return {
        (family.name, *one.labels): one.value
        for family in result.families
        for one in family.samples
    }


async def test_searches_and_syncs_are_counted_whoever_asks(settings):
    async with open_memory(settings, background=False) as memory:
        await memory.sync(SyncRequest())
        await memory.search(SearchParams("boiler"))
        await memory.search(SearchParams("zzzz"))
        memory.counts.answered("memory_search", "ok", 0.01)
        memory.counts.answered("memory_search", "cancelled", 0.01)
        found = samples(await memory.metrics())
        activity = (await memory.status()).activity
    assert found["searches", "builtin", "keyword", "ok"] == 1
    assert found["searches", "builtin", "keyword", "empty"] == 1
    assert found["search_lanes", "keyword"] == 2
    assert found["syncs", "complete"] == 1
    assert found["synced_files", "added"] == 1
    assert found["requests", "memory_search", "cancelled"] == 1
    assert found["files_indexed", "memory"] == 1
    assert found["chunks",] == 1
    assert found["search_seconds", "total"] >= found["search_seconds", "search"] > 0
    assert activity is not None
    assert (activity.requests, activity.failed_requests, activity.syncs) == (2, 1, 1)
    assert activity.searches == {"keyword": 2}
    assert activity.search_ms_median is not None


async def test_syncs_in_the_background_are_counted_too(settings):
    async with open_memory(settings) as memory:
        with anyio.fail_after(60):
            while (activity := (await memory.status()).activity) is None or not activity.syncs:
                await anyio.lowlevel.checkpoint()
        assert samples(await memory.metrics())["synced_files", "added"] == 1


async def test_a_memory_that_is_off_has_metrics_too(tmp_path):
    settings = make_settings(tmp_path, search={"enabled": False})
    async with open_memory(settings) as memory:
        found = samples(await memory.metrics())
    assert found["enabled",] == 0
    assert ("chunks",) not in found


class Broken:
    """A backend on a disk that is gone."""

    async def search(self, request):
        raise IndexUnavailableError("Gone.")

    async def sync(self, request, *, progress=None):
        raise IndexUnavailableError("Gone.")


async def test_failures_are_counted_and_go_through():
    metrics, backend = Metrics(), Broken()
    for observed in (
        metrics.observe_search("builtin", backend.search(None)),
        metrics.observe_sync(backend.sync(SyncRequest())),
    ):
        with pytest.raises(IndexUnavailableError):
            await observed
    counted = {
        (family.name, *one.labels) for family in metrics.families() for one in family.samples
    }
    assert ("searches", "builtin", "none", "failed") in counted
    assert ("syncs", "failed") in counted


def test_the_counts_of_providers_and_what_waits_for_vectors_are_read_off_a_status(tmp_path):
    off = write_status(make_settings(tmp_path), None)
    parts = details("vector", vector__provider__fallback=None)
    status = msgspec.structs.replace(off, enabled=True, details=parts)
    found = {
        (family.name, *one.labels): one.value
        for family in families_of(status)
        for one in family.samples
    }
    assert found["embedding_retries", "openai"] == 2
    assert found["query_embedding_cache_hits", "openai"] == 3
    assert found["embedding_queue_texts",] == 100


async def test_an_overview_tells_searches_by_mode_and_to_the_operator_the_notes_shown(settings):
    async with open_memory(settings, background=False) as memory:
        await memory.sync(SyncRequest())
        for query in ("boiler", "the boiler", "zzzz"):
            await memory.search(SearchParams(query))
        guest = (await memory.overview()).counted
        seen = await memory.overview(OPERATOR)
    assert guest is not None
    assert guest.shown is None
    assert seen.counted is not None
    assert seen.counted.shown == (ShownNote("memory/a.md", 2),)
    (mode,) = seen.counted.searches
    assert (mode.backend, mode.mode, mode.outcomes) == ("builtin", "keyword", {"ok": 2, "empty": 1})
    assert mode.ms_median is not None
    assert mode.ms_p95 is not None
    assert mode.ms_p95 >= mode.ms_median > 0
    assert seen.index is not None
    assert [(one.day, one.files) for one in seen.index.days] == [(None, 1)]


def test_shown_notes_are_bounded_and_the_often_shown_ones_stay():
    shown = ShownNotes(most_bytes=13_000)
    for number in range(1000):
        shown.add({"often.md", f"{number}.md"})
        assert sum(size_of(one.path) + ENTRY_BYTES for one in shown.most(1000)) <= 13_000
    assert shown.forgotten
    assert shown.most(1) == (ShownNote("often.md", 1000),)
    few = ShownNotes(most_bytes=13_000)
    few.add({"b.md", "a.md"})
    assert few.most() == (ShownNote("a.md", 1), ShownNote("b.md", 1))
    assert not few.forgotten


def test_a_note_whose_path_is_very_long_costs_others_their_counts_and_no_more_memory():
    shown = ShownNotes(most_bytes=13_000)
    for number in range(100):
        shown.add({"a/" * 2_000 + f"{number}.md"})
        assert len(shown.most(1000)) <= 3


def test_the_names_of_shown_notes_are_in_no_metric(settings):
    counted = Metrics()
    note = Hit(
        path="memory/secret plan.md",
        start_line=1,
        end_line=1,
        score=1.0,
        snippet="x",
        source="memory",
    )
    counted.shown([note])
    assert counted.counted(UseRecord(), with_notes=True).shown == (
        ShownNote("memory/secret plan.md", 1),
    )
    assert b"secret plan" not in msgspec.json.encode(counted.families())
