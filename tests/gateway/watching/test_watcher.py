"""Every kind of change of the memory files requests a sync, and nothing else does."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import anyio
import pytest

from backends.files.roots import MARKDOWN_SUFFIX
from config.settings import ExtraPath, SyncSettings
from gateway.watching import watcher
from gateway.watching.watcher import (
    LONGEST_POLL_S,
    SHORTEST_POLL_S,
    WATCH,
    WatchedPlace,
    plan_watches,
    poll_pause_s,
)

pytestmark = pytest.mark.anyio


def extra(path, pattern=None):
    return {"extra_paths": (ExtraPath(path=path, pattern=pattern, raw=str(path)),)}


async def test_after_the_first_sync_one_more_sees_what_came_before_the_watches(watching):
    async with watching() as watched:
        await watched.until(lambda: watched.reasons == ["boot", "watch"])


async def test_notes_that_are_made_changed_replaced_renamed_and_deleted_are_seen(
    watching, workspace
):
    note = workspace / "memory/a.md"
    draft = workspace / "memory/a.tmp"
    async with watching() as watched:
        await watched.sees(lambda: note.write_text("one\n", encoding="utf-8"))
        with note.open("a", encoding="utf-8") as file:
            await watched.sees(lambda: (file.write("two\n"), file.flush()))
        await watched.ignores(
            lambda: draft.write_text("three\n", encoding="utf-8"), lambda: draft.replace(note)
        )
        await watched.sees(lambda: note.rename(workspace / "memory/b.md"))
        await watched.sees((workspace / "memory/b.md").unlink)


async def test_the_main_memory_file_is_seen_and_its_neighbours_are_not(watching, workspace):
    async with watching() as watched:
        await watched.ignores(
            lambda: (workspace / "README.md").write_text("not memory", encoding="utf-8"),
            lambda: (workspace / "MEMORY.md").write_text("memory", encoding="utf-8"),
        )


async def test_a_tree_that_appears_is_watched_to_its_ground(watching, workspace, watch_count):
    async with watching() as watched:
        assert watch_count() == 2
        await watched.sees(lambda: (workspace / "memory/x/y/z").mkdir(parents=True))
        await watched.until(lambda: watch_count() == 5)
        await watched.sees(
            lambda: (workspace / "memory/x/y/z/a.md").write_text("deep", encoding="utf-8")
        )


async def test_a_tree_that_moves_in_moves_about_or_goes_keeps_one_watch_a_directory(
    watching, workspace, tmp_path, watch_count
):
    (tmp_path / "elsewhere/below").mkdir(parents=True)
    inside, moved = workspace / "memory/in", workspace / "memory/moved"
    async with watching() as watched:
        await watched.sees(lambda: (tmp_path / "elsewhere").rename(inside))
        await watched.until(lambda: watch_count() == 4)
        await watched.sees(lambda: inside.rename(moved))
        await watched.until(lambda: watch_count() == watched.watcher.state.directories == 4)
        await watched.sees(lambda: (moved / "below/a.md").write_text("found", encoding="utf-8"))
        await watched.sees(lambda: moved.rename(tmp_path / "gone"))
        await watched.until(lambda: watch_count() == 2)
        await watched.ignores(
            lambda: (tmp_path / "gone/below/b.md").write_text("no memory", encoding="utf-8"),
            lambda: (workspace / "memory/c.md").write_text("memory", encoding="utf-8"),
        )


async def test_a_directory_that_is_replaced_by_another_is_watched_again(watching, workspace):
    async with watching() as watched:
        await watched.sees(lambda: (workspace / "memory").rename(workspace / "old"))
        await watched.sees((workspace / "memory").mkdir)
        await watched.settled()
        await watched.sees(lambda: (workspace / "memory/a.md").write_text("new", encoding="utf-8"))
        await watched.sees(lambda: shutil.rmtree(workspace / "memory"))
        await watched.sees((workspace / "memory").mkdir)


async def test_a_workspace_and_extra_paths_that_appear_later_are_seen(
    watching, workspace, tmp_path
):
    shutil.rmtree(workspace)
    note = tmp_path / "a/b/notes"
    async with watching(**extra(note)) as watched:
        await watched.sees(lambda: (workspace / "memory").mkdir(parents=True))
        await watched.settled()
        await watched.sees(lambda: (workspace / "memory/a.md").write_text("1", encoding="utf-8"))
        await watched.sees(lambda: note.mkdir(parents=True))
        await watched.settled()
        await watched.sees(lambda: (note / "b.md").write_text("2", encoding="utf-8"))


async def test_a_workspace_that_moves_and_leaves_a_link_behind_is_watched_where_it_is(
    watching, workspace, tmp_path
):
    async with watching() as watched:
        await watched.sees(lambda: workspace.rename(tmp_path / "moved"))
        await watched.settled()
        await watched.sees(lambda: workspace.symlink_to(tmp_path / "moved"))
        await watched.settled()
        await watched.sees(lambda: (workspace / "memory/a.md").write_text("1", encoding="utf-8"))


async def test_links_are_not_followed(watching, workspace, tmp_path, watch_count):
    (tmp_path / "outside").mkdir()
    (workspace / "memory/link").symlink_to(tmp_path / "outside")
    async with watching() as watched:
        assert watch_count() == 2
        await watched.ignores(
            lambda: (tmp_path / "outside/a.md").write_text("no memory", encoding="utf-8"),
            lambda: (workspace / "memory/a.md").write_text("memory", encoding="utf-8"),
        )


async def test_transcripts_are_watched_when_they_are_a_source(
    watching, tmp_path, monkeypatch, workspace
):
    monkeypatch.setattr("gateway.watching.watcher.TRANSCRIPT_DEBOUNCE_S", 0.1)
    sessions = tmp_path / "agents/main/sessions"
    sessions.mkdir(parents=True)
    async with watching(sources=("memory", "sessions")) as watched:
        await watched.sees(
            lambda: (sessions / "a.jsonl").write_text("{}\n", encoding="utf-8"), "session-delta"
        )
        await watched.ignores(
            lambda: (sessions / "sessions.json").write_text("{}", encoding="utf-8"),
            lambda: (workspace / "memory/a.md").write_text("memory", encoding="utf-8"),
        )


async def test_the_log_of_the_hosts_database_is_seen_and_what_else_lies_beside_it_is_not(
    watching, tmp_path, workspace
):
    agent = tmp_path / "agents/main/agent"
    agent.mkdir(parents=True)
    async with watching(sources=("memory", "sessions")) as watched:
        await watched.sees(
            lambda: (agent / "openclaw-agent.sqlite-wal").write_bytes(b"frame"), "session-delta"
        )
        await watched.ignores(
            lambda: (agent / "openclaw-agent.sqlite-shm").write_bytes(b"index"),
            lambda: (workspace / "memory/a.md").write_text("memory", encoding="utf-8"),
        )


async def test_the_watches_are_given_back_at_the_end(watching, watch_count):
    async with watching() as watched:
        assert watch_count() == 2
    await watched.until(lambda: watch_count() == 0)


async def test_more_directories_than_may_be_watched_are_polled(
    watching, workspace, monkeypatch, watch_count
):
    monkeypatch.setattr(watcher, "MAX_DIRECTORIES", 5)
    for number in range(5):
        (workspace / f"memory/{number}").mkdir()
    async with watching("polling") as watched:
        assert watched.watcher.state.reason == "more than 5 directories would have to be watched"
        assert watch_count() == 0
        await watched.until(lambda: "poll" in watched.reasons)


async def test_directories_that_become_too_many_end_the_watching(
    watching, workspace, monkeypatch, watch_count
):
    monkeypatch.setattr(watcher, "MAX_DIRECTORIES", 5)
    async with watching() as watched:
        for number in range(5):
            (workspace / f"memory/{number}").mkdir()
        await watched.until(lambda: watched.watcher.state.mode == "polling")
        await watched.until(lambda: watch_count() == 0)


async def test_a_thousand_saves_cause_a_few_syncs_and_one_after_the_last(watching, workspace):
    note = workspace / "memory/a.md"
    sync = SyncSettings(watch_debounce_ms=200)
    async with watching(sync=sync) as watched:
        await watched.settled()
        before = len(watched.reasons)
        started = anyio.current_time()
        for number in range(1000):
            note.write_text(f"{number}\n", encoding="utf-8")
            await anyio.sleep(0.001)
        bursts = (anyio.current_time() - started) / 0.3
        await watched.settled()
        await anyio.sleep(0.3)
        assert 1 <= len(watched.reasons) - before <= bursts + 2


async def test_polling_does_not_press_what_is_tried_again_ever_less_often(watching, monkeypatch):
    monkeypatch.setattr(watcher, "MAX_DIRECTORIES", 1)
    monkeypatch.setattr(watcher, "SHORTEST_POLL_S", 0.01)
    async with watching("polling") as watched:
        watched.backend.failing = True
        await watched.until(lambda: watched.scheduler.last_error is not None)
        asked = len(watched.reasons)
        await anyio.sleep(0.2)  # many pauses of polling
        assert len(watched.reasons) <= asked + 1  # requested while the sync was running
        watched.backend.failing = False
        watched.scheduler.request("by hand")
        await watched.until(lambda: watched.reasons[-3:] == ["poll"] * 3)


def test_polling_costs_a_bounded_share_of_a_core():
    assert poll_pause_s(0.0) == SHORTEST_POLL_S
    assert 0.07 / poll_pause_s(0.07) < 0.005
    assert poll_pause_s(100.0) == LONGEST_POLL_S


def watched(path, *, selective):
    plan = plan_watches([WatchedPlace(path, MARKDOWN_SUFFIX, 1.0, WATCH, selective)])
    return {place for place in plan if place.startswith(str(path))}


def test_hidden_and_vendor_directories_of_a_folder_of_notes_are_not_watched(tmp_path):
    folder = tmp_path.resolve() / "notes"
    for name in (".git/objects/ab", "node_modules/p", "deep/er"):
        (folder / name).mkdir(parents=True)
    kept = {str(folder), str(folder / "deep"), str(folder / "deep/er")}
    assert watched(folder, selective=True) == kept
    assert watched(folder, selective=False) > kept


def inotify_instances():
    links = (one.readlink() for one in Path("/proc/self/fd").iterdir() if one.is_symlink())
    return sum(link.name == "anon_inode:inotify" for link in links)


async def test_watches_are_closed_also_if_the_disk_hung_when_the_watcher_ended(
    watching, monkeypatch, workspace
):
    """This happens with a reload on a busy machine: each would leave descriptors and a thread behind."""
    hung, gate = threading.Event(), threading.Event()

    def plan(places):
        if hanging:
            hung.set()
            gate.wait()
        return plan_watches(places)

    hanging, before = False, inotify_instances()
    monkeypatch.setattr(watcher, "plan_watches", plan)
    try:
        async with watching() as watched:
            await watched.until(lambda: inotify_instances() == before + 1)
            hanging = True
            (workspace / "memory/new").mkdir(parents=True)
            await watched.until(hung.is_set)
        with anyio.fail_after(60):
            while inotify_instances() > before:
                await anyio.sleep(0.01)
    finally:
        gate.set()
