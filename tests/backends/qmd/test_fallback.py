"""Two engines as one memory: which one answers, in what time, and the reports of each."""

from __future__ import annotations

import os
import signal
import time
from contextlib import asynccontextmanager

import anyio
import msgspec
import pytest

from backends.builtin.backend import BuiltinBackend, open_builtin
from backends.fallback import open_with_fallback
from backends.interface import (
    ForgetRequest,
    IndexUnavailableError,
    ReadRequest,
    SearchRequest,
    SyncRequest,
)
from config.settings import QmdPath
from fakes.qmd import clean_environment, qmd_settings, until, write
from fakes.transcripts import Transcript

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("notes")]


def builtin(settings):
    return open_builtin(settings)


async def by_qmd(backend, query: str = "boiler"):
    """Returns the first answer of QMD itself; every one before it must be that of the builtin index."""

    async def ask():
        answer = await backend.search(SearchRequest(query=query))
        assert answer.hits
        if answer.backend == "qmd":
            assert answer.fallback is None
            return answer
        assert answer.fallback is not None
        assert answer.fallback.origin == "qmd"
        return None

    return await until(ask, "QMD answers")


@pytest.mark.promises_seconds
async def test_the_first_question_is_answered_before_qmd_has_started(
    tmp_path, environment, qmd_command
):
    settings = qmd_settings(tmp_path, qmd_command)
    async with open_with_fallback(settings, builtin, environment) as backend:
        first = await backend.search(SearchRequest(query="who services the boiler?"))
        assert (first.backend, first.hits[0].path) == ("builtin", "MEMORY.md")
        assert "being started" in first.fallback.reason
        then = await by_qmd(backend)
        for answer in (first, then):  # QMD weighs words by what it found, the index by all notes
            assert "serviced by Hartmann." in answer.hits[0].snippet


async def fallen_back(backend, reason):
    """Returns the first answer of the builtin index that gives this reason."""

    async def judged():
        answer = await backend.search(SearchRequest(query="boiler"))
        return answer if reason in answer.fallback.reason else None

    return await until(judged, f"QMD is given up: {reason}")


async def test_without_qmd_the_builtin_index_answers_and_status_says_why(tmp_path, environment):
    settings = qmd_settings(tmp_path, "no-such-qmd")
    async with open_with_fallback(settings, builtin, environment) as backend:
        answer = await fallen_back(backend, "no-such-qmd")
        assert answer.hits
        assert "npm install" in answer.fallback.reason
        status = await backend.status()
        assert status.backend == "builtin"
        assert status.details.fallback.origin == "qmd"
        assert status.details.qmd.available is False
        assert any("no-such-qmd" in issue for issue in status.issues)


async def test_transcripts_that_grow_are_counted_by_the_builtin_index(tmp_path, environment):
    settings = qmd_settings(tmp_path, "no-such-qmd")
    search = msgspec.structs.replace(settings.search, sources=("memory", "sessions"))
    settings = msgspec.structs.replace(settings, search=search)
    async with open_with_fallback(settings, builtin, environment) as backend:
        assert not await backend.transcript_grew("one")
        Transcript(settings.sessions_dir, "one").work("x" * 100_000)
        assert await backend.transcript_grew("one")


@pytest.mark.promises_seconds
async def test_a_hanging_qmd_does_not_cost_the_deadline(
    tmp_path, environment, qmd_command, hasty_server
):
    settings = qmd_settings(tmp_path, qmd_command, limits={"timeout_ms": 2000})
    async with open_with_fallback(settings, builtin, environment) as backend:
        await by_qmd(backend)
        pid = (await backend.status()).details.qmd.server.pid
        os.killpg(pid, signal.SIGSTOP)
        for _ in range(3):
            started = time.monotonic()
            answer = await backend.search(SearchRequest(query="boiler"))
            assert time.monotonic() - started < 2.0
            assert (answer.backend, answer.fallback.origin) == ("builtin", "qmd")
            assert answer.hits
        await by_qmd(backend)


@pytest.mark.promises_seconds
async def test_every_question_is_answered_while_qmd_is_killed_again_and_again(
    tmp_path, environment, qmd_command
):
    settings = qmd_settings(tmp_path, qmd_command, limits={"timeout_ms": 4000})
    async with open_with_fallback(settings, builtin, environment) as backend:
        await by_qmd(backend)
        answered = {"qmd": 0, "builtin": 0}

        async def kill(scope: anyio.CancelScope) -> None:
            for _ in range(4):
                await anyio.sleep(0.7)
                pid = (await backend.status()).details.qmd.server.pid
                if pid is not None:
                    os.killpg(pid, signal.SIGKILL)
            scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(kill, tasks.cancel_scope)
            while True:
                started = time.monotonic()
                answer = await backend.search(SearchRequest(query="boiler"))
                assert time.monotonic() - started < 4
                assert answer.hits
                answered[answer.backend] += 1
                await anyio.sleep(0.01)
        assert answered["qmd"]
        assert answered["builtin"]
        started = time.monotonic()
        await by_qmd(backend)
        assert time.monotonic() - started < 10


async def test_the_same_file_has_the_same_name_whoever_answers(tmp_path, environment, qmd_command):
    write(tmp_path / "shelf/walrus.md", "The walrus sleeps.\n")
    paths = (QmdPath(path=tmp_path / "shelf", name="shelf"),)
    settings = qmd_settings(tmp_path, qmd_command, paths=paths)
    async with open_with_fallback(settings, builtin, environment) as backend:
        first = await backend.search(SearchRequest(query="walrus"))
        then = await by_qmd(backend, "walrus")
        assert (first.backend, then.backend) == ("builtin", "qmd")
        assert first.hits[0].path == then.hits[0].path == "qmd/shelf/walrus.md"
        read = await backend.read(ReadRequest(path="qmd/shelf/walrus.md"))
        assert read.text == "The walrus sleeps.\n"


async def test_a_sync_keeps_the_builtin_index_level_while_qmd_answers(
    tmp_path, environment, qmd_command, notes
):
    settings = qmd_settings(tmp_path, qmd_command)
    async with open_with_fallback(settings, builtin, environment) as backend:
        await by_qmd(backend)
        write(notes / "memory/new.md", "The zebra came by.\n")
        report = await backend.sync(SyncRequest(reason="interval"))
        assert report.scanned == 3
        report = await backend.sync(SyncRequest())
        assert report.error is None
        status = await backend.status()
        assert (status.backend, status.sources[0].indexed) == ("qmd", 3)


async def test_a_manual_sync_tells_what_qmd_could_not_do(tmp_path, environment):
    settings = qmd_settings(tmp_path, "no-such-qmd")
    async with open_with_fallback(settings, builtin, environment) as backend:

        async def judged():
            report = await backend.sync(SyncRequest())
            return report if "no-such-qmd" in (report.error or "") else None

        report = await until(judged, "the sync tells")
        assert report.complete
        assert report.scanned == 2


async def test_when_neither_can_answer_the_error_says_both_reasons(tmp_path, environment):
    class Broken(BuiltinBackend):
        def __init__(self):
            pass

        async def search(self, request):
            raise IndexUnavailableError("The disk is gone.")

        async def away(self, *, look):
            return None

    @asynccontextmanager
    async def broken(settings):
        yield Broken()

    settings = qmd_settings(tmp_path, "no-such-qmd")
    async with open_with_fallback(settings, broken, environment) as backend:
        with pytest.raises(IndexUnavailableError, match=r"QMD cannot answer .*The disk is gone"):
            await backend.search(SearchRequest(query="boiler"))


async def test_an_older_qmd_is_named_and_the_builtin_index_answers(tmp_path, environment):
    old = write(tmp_path / "bin/qmd", "#!/bin/sh\necho qmd 1.0.7\n")
    old.chmod(0o755)
    settings = qmd_settings(tmp_path, str(old))
    async with open_with_fallback(settings, builtin, environment) as backend:
        answer = await fallen_back(backend, "QMD 1.0.7 was found")
        assert answer.hits
        assert "2.8 or a later 2.x is needed" in answer.fallback.reason
        assert "npm install -g @tobilu/qmd@2" in answer.fallback.reason


async def test_settings_of_the_builtin_index_cover_qmds_collections(tmp_path, environment):
    seen = []

    @asynccontextmanager
    async def spying(settings):
        seen.append(settings)
        async with open_builtin(settings) as backend:
            yield backend

    paths = (QmdPath(path=tmp_path / "shelf", name="shelf", pattern="*.md"),)
    settings = qmd_settings(tmp_path, "no-such-qmd", paths=paths)
    async with open_with_fallback(settings, spying, clean_environment(tmp_path)):
        extra = seen[0].search.extra_paths
        assert [(one.path, one.pattern) for one in extra] == [(tmp_path / "shelf", "*.md")]
        assert msgspec.structs.replace(seen[0], search=settings.search) == settings


async def test_what_is_forgotten_is_in_no_file_of_qmd_either(tmp_path, environment, qmd_command):
    settings = qmd_settings(tmp_path, qmd_command)
    note = settings.workspace / "memory/safe.md"
    write(note, "# Safe\n\n- The boiler room opens with Xyl0phone-7731.\n")
    async with open_with_fallback(settings, builtin, environment) as backend:
        await by_qmd(backend, "boiler room opens")
        note.unlink()
        done = await backend.forget(ForgetRequest(path="memory/safe.md", remove=True))
        assert (done.removed, done.found) == (1, ())
        assert done.remarks[-1] == "QMD's index was cleaned of what is gone."
    holding = [
        one for one in tmp_path.rglob("*") if one.is_file() and b"Xyl0phone" in one.read_bytes()
    ]
    assert holding == []
