"""Names and texts that a store may not accept: each note is indexed or skipped by name, without affecting others."""

from __future__ import annotations

import os
from contextlib import suppress

import pytest

from backends.files.scan import MAX_PATH_BYTES
from backends.interface import SearchRequest, SyncRequest

pytestmark = [pytest.mark.anyio, pytest.mark.every_store, pytest.mark.and_pooled]

CHINESE = "深圳湾水泵房的钥匙挂在门后面旁边还有备用的灯和工具箱" * 3


async def found(backend, query="boiler"):
    answer = await backend.search(SearchRequest(query=query, max_results=50, min_score=0.0))
    return {hit.path for hit in answer.hits}


async def test_a_path_that_is_too_long_is_skipped_by_its_name_and_all_others_are_found(home):
    home.write("memory/a.md", "The boiler hums.\n")
    home.write("memory/z.md", "The boiler is off.\n")
    long = "memory/" + "/".join([CHINESE] * 12) + "/b.md"
    assert len(long.encode()) > 2_704
    directory = os.open(home.workspace, os.O_RDONLY)
    try:  # one by one: the whole would be too long for the system
        for name in long.split("/")[:-1]:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=directory)
            inner = os.open(name, os.O_RDONLY, dir_fd=directory)
            os.close(directory)
            directory = inner
        note = os.open("b.md", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=directory)
        os.write(note, b"The boiler is far away.\n")
        os.close(note)
    finally:
        os.close(directory)
    async with home.open() as backend:
        report = await backend.sync(SyncRequest())
        assert report.complete
        assert await found(backend) == {"memory/a.md", "memory/z.md"}
        status = await backend.status()
        (skipped,) = status.skipped
        assert skipped.path == long
        assert f"more than {MAX_PATH_BYTES:,} bytes" in skipped.reason


async def test_a_path_as_long_as_may_be_is_found(home):
    part = "a" * 203
    path = "memory/" + "/".join([part] * 10)
    path = path[: MAX_PATH_BYTES - len(".md")] + ".md"
    home.write(path, "The boiler hums.\n")
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        assert await found(backend) == {path}


NUL = "\0"
SURROGATE = "\ud800"
ODD = {
    "NUL in the text": (b"The boiler \0 hums.\n", "boiler"),
    "NUL in a word": (b"The boi\0ler boiler hums.\n", "boiler"),
    "NUL in a heading": (b"# Boi \0 ler\n\nThe boiler hums.\n", "boiler"),
    "NUL in front matter": (
        b'---\ntitle: "A\\0B"\ntags: ["x\\0y"]\n---\nThe boiler hums.\n',
        "boiler",
    ),
    "a lone surrogate in front matter": (
        b'---\ntitle: "A \\ud800 B"\naliases: ["\\udfff"]\ntags: ["x\\ud800"]\n---\nThe boiler hums.\n',
        "boiler",
    ),
    "an encoded surrogate": (b"The boiler \xed\xa0\x80 hums.\n", "boiler"),
    "an escaped surrogate": (b"The boiler \\ud800 hums.\n", "boiler"),
    "a date with NUL": (b'---\ndate: "2026-02-08\\0"\n---\nThe boiler hums.\n', "boiler"),
}


@pytest.mark.parametrize("kind", ODD)
async def test_a_note_with_characters_that_are_none_is_found_or_named_and_keeps_no_other_out(
    home, kind
):
    text, query = ODD[kind]
    home.write("memory/a.md", "The boiler is off.\n")
    home.write("memory/odd.md", text)
    home.write("memory/z.md", "The boiler is on.\n")
    async with home.open() as backend:
        report = await backend.sync(SyncRequest())
        assert report.complete
        status = await backend.status()
        skipped = {one.path for one in status.skipped}
        assert await found(backend, query) == {
            "memory/a.md",
            "memory/z.md",
            *({"memory/odd.md"} - skipped),
        }
        again = await backend.sync(SyncRequest(force=True))
        assert again.complete


@pytest.mark.parametrize("query", [f"boi{NUL}ler boiler", f"boiler {SURROGATE}", f"{NUL}boiler"])
async def test_a_question_with_such_characters_is_answered(home, query):
    home.write("memory/a.md", "The boiler hums.\n")
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        assert await found(backend, query) == {"memory/a.md"}


async def test_a_note_with_too_many_words_for_the_store_is_skipped_by_its_name(home, monkeypatch):
    monkeypatch.setattr("backends.builtin.store.postgres.file_rows.MOST_WORDS", 500)
    home.write("memory/a.md", "The boiler hums.\n")
    home.write("memory/large.md", " ".join(f"w{n}x" for n in range(600)))
    home.write("memory/z.md", "The boiler is off.\n")
    async with home.open() as backend:
        for force in (False, False, True):
            assert (await backend.sync(SyncRequest(force=force))).complete
            assert await found(backend) == {"memory/a.md", "memory/z.md"}
            skipped = [(one.path, one.reason) for one in (await backend.status()).skipped]
            limited = home.store.driver == "postgres"  # SQLite takes it in time
            assert skipped == [("memory/large.md", "more than 500 words for PostgreSQL")] * limited
            assert await found(backend, "w599x") == ({"memory/large.md"} if not limited else set())
