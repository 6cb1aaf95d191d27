"""Several processes, processes that are killed, and processes whose disk is full."""

from __future__ import annotations

import subprocess
from random import Random

import pytest

from backends.interface import SearchRequest, SyncRequest

pytestmark = pytest.mark.anyio

INDEX_FOR_EVER = """
import sys
from pathlib import Path
import anyio
from backends.builtin.backend import open_builtin
from backends.interface import SyncRequest
from fakes.settings import make_settings

async def main():
    async with open_builtin(make_settings(Path(sys.argv[1]), search={"provider": "none"})) as backend:
        await backend.sync(SyncRequest())
        print("begun", flush=True)
        turn = 0
        while True:
            turn += 1
            for note in sorted((Path(sys.argv[1]) / "workspace/memory").glob("*.md"))[turn % 5 :: 5]:
                draft = note.with_suffix(".tmp")
                draft.write_text(f"# {note.stem}\\n\\n" + f"- boiler {note.stem}, turn {turn}\\n" * 60)
                draft.replace(note)
            await backend.sync(SyncRequest(force=turn % 3 == 0))

anyio.run(main)
"""

WRITE_OWN_NOTES = """
import sys
from pathlib import Path
import anyio
from backends.builtin.backend import open_builtin
from backends.interface import SearchRequest, SyncRequest
from backends.builtin.store.sqlite import connections, store, index_file
from fakes.settings import make_settings

root, name = Path(sys.argv[1]), sys.argv[2]
for module in (connections, store):
    module.PATIENCE_S = 60.0  # a disk that takes its time is nobody's fault
index_file._MAKING_PATIENCE_S = 60.0

async def main():
    async with open_builtin(make_settings(root, search={"provider": "none"})) as backend:
        for turn in range(25):
            (root / f"workspace/memory/{name}-{turn}.md").write_text(f"the {name}{turn} boiler\\n")
            await backend.sync(SyncRequest())
            found = (await backend.search(SearchRequest(query=f"{name}{turn}", max_results=1))).hits
            assert [hit.path for hit in found] == [f"memory/{name}-{turn}.md"], (turn, found)

anyio.run(main)
"""

FILL_THE_DISK = """
import resource, sys
from pathlib import Path
import anyio
from backends.builtin.backend import open_builtin
from backends.interface import IndexUnavailableError
from backends.interface import SearchRequest, SyncRequest
from fakes.settings import make_settings

root = Path(sys.argv[1])

async def main():
    async with open_builtin(make_settings(root, search={"provider": "none"})) as backend:
        await backend.sync(SyncRequest())
        for number in range(60):
            note = root / f"workspace/memory/large-{number}.md"
            note.write_text(f"- pump {number} with many words\\n" * 500)
        limit = (root / "main.sqlite").stat().st_size + 200_000
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        try:
            await backend.sync(SyncRequest())
        except IndexUnavailableError as error:
            print(type(error.__cause__).__name__, error.remedy)
        answer = await backend.search(SearchRequest(query="boiler"))
        print([hit.path for hit in answer.hits], answer.stale is not None)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        print((await backend.sync(SyncRequest())).complete)

anyio.run(main)
"""


async def test_a_killed_process_leaves_an_index_that_is_sound_and_completed_by_the_next(
    home, new_home, python, environment, check, content, paths_of
):
    for number in range(40):
        home.write(f"memory/{number:02}.md", f"# {number}\n\n" + f"- boiler {number}\n" * 60)
    rng = Random(5)
    for _ in range(6):
        process = subprocess.Popen(
            [*python, INDEX_FOR_EVER, str(home.root)], env=environment, stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(rng.uniform(0.01, 0.25))
        process.kill()
        process.wait(60)
        process.stdout.close()
        if home.index.exists():  # the first may end before it has made one
            check(home.index)
        assert (await home.synced()).scanned == 40
    async with home.open() as backend:
        assert len(await paths_of(backend, "boiler")) == 40
        assert (await backend.status()).issues == ()
    fresh = new_home("fresh")
    for note in (home.workspace / "memory").glob("*.md"):
        fresh.write(f"memory/{note.name}", note.read_bytes())
    await fresh.synced()
    assert content(home.index) == content(fresh.index)


async def test_two_processes_share_one_index(home, python, environment, check):
    home.write("memory/a.md", "boiler\n")
    processes = [
        subprocess.Popen([*python, WRITE_OWN_NOTES, str(home.root), name], env=environment)
        for name in ("left", "right")
    ]
    assert [process.wait(300) for process in processes] == [0, 0]
    check(home.index)
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        assert (await backend.status()).sources[0].indexed == 51


async def test_a_full_disk_is_an_error_of_the_sync_and_not_of_searches(
    home, python, environment, check
):
    home.write("memory/a.md", "boiler\n")
    done = subprocess.run(
        [*python, FILL_THE_DISK, str(home.root)],
        env=environment, capture_output=True, encoding="utf-8", timeout=60, check=True,
    )  # fmt: skip
    failure, found, complete = done.stdout.splitlines()
    assert failure.startswith(("IOError", "FullError")) and "free" in failure
    assert found == "['memory/a.md'] True"
    assert complete == "True"
    check(home.index)


async def test_a_second_process_sees_what_the_first_published(home, new_home, paths_of):
    home.write("memory/a.md", "boiler\n")
    async with home.open() as first, home.open() as second:
        await first.sync(SyncRequest())
        answer = await second.search(SearchRequest(query="boiler"))
        assert [hit.path for hit in answer.hits] == ["memory/a.md"]
