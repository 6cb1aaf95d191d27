"""Notes that nobody would write: each is indexed or refused with a reason, and blocks nobody."""

from __future__ import annotations

import base64
import itertools
import random
import sys
import time
import traceback

import anyio
import pytest

from backends.builtin.syncing import preparing
from backends.builtin.syncing.preparing import EndedError, Preparer
from backends.chunking import ChunkLimits
from backends.interface import SearchRequest, SyncRequest
from fakes.each import each
from fakes.freshness import stale_of

pytestmark = pytest.mark.anyio

KIB = 1024
SHAPES = {
    "distinct words": lambda: " ".join(f"w{n * 7919 % 10**7}" for n in range(25 * KIB)),
    "distinct words in lines": lambda: "\n".join(f"w{n} " * 9 for n in range(4 * KIB)),
    "empty headings": lambda: "#\n" * 60_000,
    "headings": lambda: "".join(f"# h {n}\n" for n in range(20_000)),
    "one word": lambda: "a" * 512 * KIB,
    "base64 in one line": lambda: base64.b64encode(random.Random(1).randbytes(256 * KIB)).decode(),
    "list items": lambda: "- item\n" * 30_000,
    "nested lists": lambda: "".join(" " * (2 * (n % 600)) + "- x\n" for n in range(1_200)),
    "nested quotes": lambda: "".join(">" * (n % 900) + " x\n" for n in range(1_800)),
    "one table": lambda: "|a|b|\n|-|-|\n" + "".join(f"| c{n} | v{n} |\n" for n in range(15_000)),
    "joined emoji": lambda: "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d" * 20_000,
    "combining marks": lambda: "e" + "\u0301" * 200_000,
    "emoji": lambda: "\U0001f600" * 100_000,
    "no word spaces": lambda: "".join(chr(0x4E00 + n * 37 % 20_000) for n in range(150_000)),
    "newlines": lambda: "\n" * 400_000,
    "spaces": lambda: " " * 512 * KIB,
    "a fence that is never closed": lambda: "```\n" + "code line here\n" * 40_000,
    "fences of two kinds": lambda: "```\n~~~\n" * 30_000,
    "underlined headings": lambda: "a\n===\n" * 30_000,
    "open brackets": lambda: "[" * 512 * KIB,
    "joints": lambda: "a.b_c-d/e " * 30_000,
    "front matter without end": lambda: "---\n" + "key: value\n" * 40_000,
}


@each("shape", SHAPES)
def test_work_on_one_note_asks_often_whether_it_is_still_wanted(shape):
    """Steps are counted instead of time: between two such checks is less work than a busy machine does in 2 s."""
    text = SHAPES[shape]()
    asked = [time.thread_time()]

    def is_wanted() -> bool:
        asked.append(time.thread_time())
        return True

    Preparer(ChunkLimits()).prepare("memory/a.md", text, is_wanted=is_wanted)
    asked.append(time.thread_time())
    assert max(b - a for a, b in itertools.pairwise(asked)) < 1.0


def test_a_note_nobody_waits_for_any_more_is_given_up():
    with pytest.raises(EndedError):
        Preparer(ChunkLimits()).prepare("memory/a.md", "# a\n" * 9_999, is_wanted=lambda: False)


@pytest.mark.promises_seconds
async def test_a_cancelled_sync_ends_in_the_middle_of_a_note(home, check, until, paths_of):
    home.write("memory/huge.md", "\n".join(f"w{n} " * 9 for n in range(100 * KIB)))
    home.write("MEMORY.md", "the boiler\n")
    async with home.open() as backend:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(backend.sync, SyncRequest())
            await until(_is_preparing)
            started = time.perf_counter()
            tasks.cancel_scope.cancel()
        assert time.perf_counter() - started < 2
        assert await paths_of(backend, "boiler") == ["MEMORY.md"]
    check(home.index)


def _is_preparing() -> bool:
    """Returns whether any thread is preparing a note."""
    return any(
        frame.f_code is Preparer.prepare.__code__
        for top in sys._current_frames().values()
        for frame, _ in traceback.walk_stack(top)
    )


@pytest.mark.parametrize("bound", ["MAX_LINES", "MAX_SECONDS"])
async def test_a_note_beyond_the_bounds_is_skipped_with_a_reason_and_not_tried_again(
    home, monkeypatch, paths_of, bound
):
    home.write("memory/a.md", "- the valve\n" * 20_000)
    home.write("MEMORY.md", "the boiler\n")
    monkeypatch.setattr(preparing, bound, 0)
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        monkeypatch.undo()
        for _ in range(2):
            answer = await backend.search(SearchRequest(query="boiler"))
            assert answer.stale is None
            assert (await backend.sync(SyncRequest())).bytes_read == 0
        status = await backend.status()
        assert "memory/a.md" in [one.path for one in status.skipped]
        assert status.sources[0].pending == 0
        await backend.sync(SyncRequest(force=True))
        assert await paths_of(backend, "valve") == ["memory/a.md"]


async def test_a_note_that_is_too_large_makes_no_answer_stale(home, monkeypatch):
    monkeypatch.setattr("backends.files.reading.MAX_FILE_BYTES", 1_000)
    home.write("memory/a.md", "the valve\n" * 50_000)
    home.configure(sync=home.settings.search.sync.__class__(search_budget_ms=50))
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        assert await stale_of(backend) is None
