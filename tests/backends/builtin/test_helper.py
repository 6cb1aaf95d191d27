"""The process that prepares notes of a large backlog: the same rows, and no loss when it fails."""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from backends.builtin.syncing import helper, indexing
from backends.builtin.syncing.preparing import MAX_LINES, Preparer
from backends.chunking import ChunkLimits
from backends.interface import SyncProgress, SyncRequest
from fakes.freshness import large_note

pytestmark = pytest.mark.anyio

BOUND_S = 120
NOTES = 40
ENOUGH = [150_000]
PARENT = """
import sys, anyio
from backends.builtin.syncing import helper
from backends.builtin.syncing.preparing import Preparer
from backends.chunking import ChunkLimits

async def main():
    start = helper.start_child
    async def told(*arguments, **options):
        child = await start(*arguments, **options)
        print(child.pid, flush=True)
        return child
    helper.start_child = told
    helper._processors = lambda: 2
    async with helper.helped(Preparer(ChunkLimits()), [helper.WORTH_BYTES]) as one:
        one.send([("memory/a.md", "boiler")])
        one.receive(1)
        print("ready", flush=True)
        sys.stdin.read()

anyio.run(main)
"""


@pytest.fixture(autouse=True)
def started(monkeypatch) -> list[anyio.abc.Process]:
    """The helpers that were started, on a machine of two processors, where a small backlog counts as large."""
    found = []
    start = helper.start_child

    async def remembering(*arguments, **options):
        found.append(await start(*arguments, **options))
        return found[-1]

    monkeypatch.setattr(helper, "start_child", remembering)
    monkeypatch.setattr(helper, "_processors", lambda: 2)
    monkeypatch.setattr(helper, "WORTH_BYTES", ENOUGH[0])
    monkeypatch.setattr(helper, "PATIENCE_S", BOUND_S)
    for module in (helper, indexing):
        monkeypatch.setattr(module, "MOST_BYTES", ENOUGH[0])
    return found


@pytest.fixture
def backlog(home) -> dict[str, str]:
    """Notes of several groups, one larger than a group, and one that this process prepares in any case."""
    texts = {f"memory/{number}.md": large_note(f"boiler{number}", 8) for number in range(NOTES)}
    texts["memory/long.md"] = large_note("valve", 100)
    texts["memory/foreign.md"] = (
        "---\ntags: [a, b]\ndate: 2026-03-01\n---\n# Überblick\n\nÄpfel 你好 😀\n"
    )
    texts["memory/empty.md"] = ""
    texts["memory/longest.md"] = "- pump\n" * (ENOUGH[0] // 7 + 1)
    for path, text in texts.items():
        home.write(path, text)
    return texts


def no_preparing(monkeypatch, *but: str) -> None:
    """Fails if this process prepares a note other than those named."""
    prepare = Preparer.prepare

    def refuse(self, path, text, **options):
        assert path in but, path
        return prepare(self, path, text, **options)

    monkeypatch.setattr(Preparer, "prepare", refuse)


async def test_a_large_backlog_is_prepared_by_another_process_with_the_same_rows(
    new_home, home, backlog, content, check, started, monkeypatch
):
    other = new_home("other")
    for path, text in backlog.items():
        other.write(path, text)
    with monkeypatch.context() as here:
        here.setattr(helper, "_processors", lambda: 1)
        assert (await other.synced()).complete
    assert not started
    no_preparing(monkeypatch, "memory/longest.md")
    report = await home.synced()
    assert (report.complete, report.added, report.skipped) == (True, len(backlog), ())
    assert content(home.index) == content(other.index)
    check(home.index)
    assert len(started) == 1
    assert started[0].returncode is not None


async def test_a_rebuild_is_prepared_there_and_what_is_only_touched_is_prepared_nowhere(
    home, backlog, started, monkeypatch
):
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        no_preparing(monkeypatch, "memory/longest.md")
        forced = await backend.sync(SyncRequest(force=True))
        assert (forced.unchanged, forced.changed, forced.skipped) == (len(backlog), 0, ())
        for path in backlog:
            (home.workspace / path).touch()
        touched = await backend.sync(SyncRequest())
    assert (touched.unchanged, touched.changed) == (len(backlog), 0)
    assert len(started) == 3


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
async def test_a_helper_that_is_lost_costs_no_note(
    home, backlog, content, new_home, started, number, monkeypatch
):
    monkeypatch.setattr(helper, "PATIENCE_S", 1.0)

    def harm(state: SyncProgress) -> None:
        if state.done < 20:
            with suppress(ProcessLookupError):
                started[0].send_signal(number)

    async with home.open() as backend:
        with anyio.fail_after(BOUND_S):
            report = await backend.sync(SyncRequest(), progress=harm)
    assert (report.complete, report.added, report.skipped) == (True, len(backlog), ())
    assert len(started) == 1
    assert started[0].returncode is not None


@pytest.mark.parametrize("command", ["/no/such/program", "/bin/false", "/bin/cat"])
async def test_where_no_helper_can_be_had_all_is_prepared_here(home, backlog, command, monkeypatch):
    monkeypatch.setattr(helper, "COMMAND", (command,))
    report = await home.synced()
    assert (report.complete, report.added) == (True, len(backlog))


@pytest.mark.parametrize(
    "lack",
    [RuntimeError("can't start new thread"), OSError(errno.EMFILE, "Too many open files")],
    ids=["thread", "descriptor"],
)
async def test_where_the_system_has_no_more_of_what_a_helper_takes_there_is_none(monkeypatch, lack):
    async def lacking(*_arguments, **_options):
        raise lack

    monkeypatch.setattr(helper, "start_child", lacking)
    async with helper.helped(Preparer(ChunkLimits()), ENOUGH) as one:
        assert one is None


async def test_what_cannot_be_prepared_is_left_to_who_asked_and_keeps_nothing_else():
    preparer = Preparer(ChunkLimits())
    async with helper.helped(preparer, ENOUGH) as one:
        one.send([("memory/lines.md", "\n" * (MAX_LINES + 1)), ("memory/a.md", "boiler")])
        assert list(one.receive(2)) == [None, preparer.prepare("memory/a.md", "boiler")]


async def test_a_cancelled_sync_takes_its_helper_with_it(home, backlog, started):
    async with home.open() as backend:
        with anyio.CancelScope() as scope:
            await backend.sync(SyncRequest(), progress=lambda _state: scope.cancel())
        assert scope.cancelled_caught
        assert started[0].returncode is not None
        assert (await backend.sync(SyncRequest())).complete


async def test_another_release_prepares_nothing_for_this_one():
    preparer = Preparer(ChunkLimits())
    async with helper.helped(preparer, ENOUGH) as one:
        one.send([("memory/a.md", "boiler")])
        assert list(one.receive(1)) == [preparer.prepare("memory/a.md", "boiler")]
        preparer.notes_pipeline = "of tomorrow"
        one.send([("memory/a.md", "boiler")])
        assert list(one.receive(1)) == [None]


async def test_it_knows_no_secret_goes_behind_others_and_is_the_first_to_lack_memory(
    started, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    async with helper.helped(Preparer(ChunkLimits()), ENOUGH) as one:
        one.send([("memory/a.md", "boiler")])
        one.receive(1)
        (process,) = started
        place = Path(f"/proc/{process.pid}")
        assert b"canary" not in place.joinpath("environ").read_bytes()
        assert place.joinpath("cwd").readlink() == Path("/")
        assert int(place.joinpath("oom_score_adj").read_text()) >= 500
        nice = os.getpriority(os.PRIO_PROCESS, process.pid)
        assert nice == min(19, os.getpriority(os.PRIO_PROCESS, 0) + 5)


@pytest.mark.parametrize(
    ("sizes", "processors"),
    [([ENOUGH[0] - 1], 2), ([ENOUGH[0] + 1] * 3, 2), (ENOUGH, 1)],
    ids=["little to do", "only what is prepared here", "one processor"],
)
async def test_there_is_none_where_it_is_not_worth_it(sizes, processors, started, monkeypatch):
    monkeypatch.setattr(helper, "_processors", lambda: processors)
    async with helper.helped(Preparer(ChunkLimits()), sizes) as one:
        assert one is None
    assert not started


async def test_to_read_everything_again_needs_none(home, backlog, started):
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        assert (await backend.sync(SyncRequest(verify=True))).unchanged == len(backlog)
    assert len(started) == 1


def test_it_ends_with_who_started_it_also_when_that_is_killed():
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8",
        cwd=Path(__file__).parents[3],
    )  # fmt: skip
    with parent:
        pid, ready = parent.stdout.readline(), parent.stdout.readline()
        assert ready == "ready\n"
        ended = select.poll()
        ended.register(os.pidfd_open(int(pid)))
        parent.kill()
    assert ended.poll(BOUND_S * 1000)
