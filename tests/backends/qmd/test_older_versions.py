"""The same backend on earlier releases: simplified names, no warm server, collections one by one."""

from __future__ import annotations

import pytest

from backends.interface import SearchRequest, SyncRequest
from backends.qmd.backend import open_qmd
from config.settings import QmdPath
from fakes.qmd import answered, install_qmd, qmd_settings, until, write

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module", params=["1.0.7", "2.5.3"])
def version(request):
    return request.param


async def test_an_older_version_answers_with_real_names_and_lines(
    version, tmp_path, notes, environment
):
    write(notes / "memory/2026-02-08 Big Plan.md", "# Plan\n\nThe walrus moves in.\n")
    paths = (QmdPath(path=tmp_path / "later", name="later"),)
    settings = qmd_settings(tmp_path, install_qmd(version), paths=paths)
    async with open_qmd(settings, environment) as backend:
        answer = await answered(backend, "when does the walrus move in?")
        hit = answer.hits[0]
        assert (hit.path, hit.end_line) == ("memory/2026-02-08 Big Plan.md", 3)
        assert (await answered(backend, "boiler")).hits[0].path == "MEMORY.md"
        assert backend.engine.asker.way == ("warm" if version == "2.5.3" else "cli")
        write(tmp_path / "later/note.md", "A penguin waddles.\n")

        async def indexed() -> bool:
            await backend.sync(SyncRequest())
            status = await backend.status()
            return status.sources[0].indexed == 4 and not status.dirty

        await until(indexed, "the directory that appeared later is indexed")
        answer = await backend.search(SearchRequest(query="penguin"))
        assert answer.hits[0].path == "qmd/later/note.md"
