"""Questions to the real program."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from backends.interface import PathNotAllowedError, ReadRequest, SearchRequest, SyncRequest
from backends.qmd.backend import QmdBackend, open_qmd
from config.settings import QmdPath
from fakes.qmd import answered, clean_environment, qmd_settings, write, write_notes

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def memory(anyio_backend, tmp_path_factory, qmd_command):
    """A backend with a collection outside the workspace."""
    root = tmp_path_factory.mktemp("memory")
    write_notes(root / "workspace")
    write(root / "shelf/Odd Name (draft) #1.md", "# Shelf\n\nThe walrus sleeps.\n")
    write(root / "shelf/secret.txt", "not Markdown\n")
    paths = (QmdPath(path=root / "shelf", name="My Shelf"),)
    settings = qmd_settings(root, qmd_command, paths=paths)
    async with open_qmd(settings, clean_environment(root)) as backend:
        await answered(backend, "boiler")
        yield backend, root


async def test_a_natural_question_finds_the_line_that_answers_it(memory):
    answer = await memory[0].search(SearchRequest(query="who is it that services the boiler?"))
    assert (answer.backend, answer.mode, answer.outcome) == ("qmd", "keyword", "ok")
    hit = answer.hits[0]
    assert (hit.path, hit.start_line, hit.end_line) == ("MEMORY.md", 1, 3)
    assert hit.snippet == "# Memory\n\n- The boiler is serviced by Hartmann."
    assert 0.35 < hit.score <= 1


@pytest.mark.parametrize(
    "query",
    [
        "--help",
        "--index=stolen",
        "-n 0 boiler",
        "lex: boiler",
        'boiler "the',
        "intent: x\nboiler",
        "-boiler",
        "boiler OR (NEAR",
    ],
)
async def test_nothing_that_a_user_types_is_a_command(query, memory):
    backend, root = memory
    answer = await backend.search(SearchRequest(query=query))
    assert answer.outcome in {"ok", "empty"}
    if "boiler" in query:
        assert answer.hits[0].path == "MEMORY.md"
    assert not list(root.rglob("stolen*"))


async def test_a_question_without_words_is_empty_and_not_an_error(memory):
    assert (await memory[0].search(SearchRequest(query=' "?! '))).outcome == "empty"


async def test_files_outside_the_workspace_have_names_that_can_be_read(memory):
    answer = await memory[0].search(SearchRequest(query="walrus"))
    path = answer.hits[0].path
    assert path == "qmd/my-shelf/Odd Name (draft) #1.md"
    read = await memory[0].read(ReadRequest(path=path, first_line=3, line_count=1))
    assert (read.text.strip(), read.path) == ("The walrus sleeps.", path)


@pytest.mark.parametrize(
    "path",
    [
        "qmd/my-shelf/secret.txt",
        "qmd/my-shelf/../workspace/MEMORY.md",
        "qmd/memory-root/x.md",
        "qmd",
    ],
)
async def test_reading_stays_inside_root_and_pattern_of_the_collection(path, memory):
    with pytest.raises(PathNotAllowedError):
        await memory[0].read(ReadRequest(path=path))


async def test_what_was_written_a_moment_ago_is_found_before_qmd_knows_it(memory):
    backend, root = memory
    note = write(root / "workspace/memory/new.md", "The zebra came by.\n")
    answer = await backend.search(SearchRequest(query="zebra"))
    assert [hit.path for hit in answer.hits] == ["memory/new.md"]
    note.unlink()
    assert (await backend.search(SearchRequest(query="zebra"))).outcome == "empty"


async def test_filters_limit_the_search_and_not_its_result(memory):
    backend, root = memory
    for day in range(1, 28):
        write(root / f"workspace/memory/2026-03-{day:02}.md", f"Report {day}: the report is due.\n")
    write(root / "workspace/memory/2026-04-01.md", "A mention of the report. " + "Filler. " * 200)
    await backend.sync(SyncRequest())
    request = SearchRequest(query="report", after=date(2026, 4, 1), before=date(2026, 4, 2))
    assert [hit.path for hit in (await backend.search(request)).hits] == ["memory/2026-04-01.md"]
    request = SearchRequest(query="due mention", exclude=("memory/2026-03-*.md",))
    assert [hit.path for hit in (await backend.search(request)).hits] == ["memory/2026-04-01.md"]


async def test_asking_for_fewer_gives_the_first_ones(memory):
    backend, root = memory
    for number in range(9):
        write(root / f"workspace/memory/ship-{number}.md", f"Ship {number} sails. " * (number + 1))
    await backend.sync(SyncRequest())
    most = await backend.search(SearchRequest(query="ship sails"))
    assert len(most.hits) == 6
    fewer = await backend.search(SearchRequest(query="ship sails", max_results=2))
    assert fewer.hits == most.hits[:2]
    more = await backend.search(SearchRequest(query="ship sails", max_results=50))
    assert more.hits == most.hits


async def test_chinese_is_found_inside_a_run(memory):
    backend, root = memory
    write(root / "workspace/memory/zh.md", "# 日记\n\n今天和供应商谈了茶叶的价格。\n")
    await backend.sync(SyncRequest())
    answer = await backend.search(SearchRequest(query="茶叶的价格是多少?"))
    assert answer.hits[0].path == "memory/zh.md"


async def test_status_counts_files_and_names_the_program(memory):
    backend: QmdBackend = memory[0]
    root: Path = memory[1]
    await backend.sync(SyncRequest())
    status = await backend.status()
    assert status.sources[0].on_disk == status.sources[0].indexed == markdown_files(root)
    assert not status.dirty
    assert status.details.qmd.version == "2.8.3"
    write(root / "workspace/memory/later.md", "later\n")
    status = await backend.status()
    assert (status.dirty, status.sources[0].pending) == (True, 1)


async def test_deleted_text_leaves_the_database(memory):
    backend, root = memory
    note = write(root / "workspace/memory/secret.md", "The password is xyzzyplugh.\n")
    await backend.sync(SyncRequest())
    note.unlink()
    await backend.sync(SyncRequest(force=True))
    index = backend.engine.sidecar.home.index
    content = b"".join(path.read_bytes() for path in index.parent.glob("index.sqlite*"))
    assert b"xyzzyplugh" not in content


def markdown_files(root: Path) -> int:
    return len([*root.glob("workspace/**/*.md"), *root.glob("shelf/*.md")])
