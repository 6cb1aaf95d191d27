"""Conversations that QMD itself searches, and the way from its hits back to the transcripts."""

from __future__ import annotations

import msgspec
import pytest

from backends.interface import PathNotAllowedError, ReadRequest, SearchRequest, SyncRequest
from backends.qmd.backend import open_qmd
from backends.qmd.process import QmdUnavailableError
from fakes.qmd import answered, clean_environment, qmd_settings, write_notes
from fakes.transcripts import Transcript

pytestmark = pytest.mark.anyio


def exporting(root, qmd_command):
    plain = qmd_settings(root, qmd_command)
    sessions = msgspec.structs.replace(plain.qmd.sessions, enabled=True)
    qmd = msgspec.structs.replace(plain.qmd, sessions=sessions)
    return msgspec.structs.replace(plain, qmd=qmd)


def conversation(settings):
    transcript = Transcript(settings.sessions_dir, "talk")
    transcript.work("ls")
    transcript.say("Where did we put the sourdough starter?")
    return transcript


@pytest.fixture
def settings(tmp_path, notes, qmd_command):
    return exporting(tmp_path, qmd_command)


@pytest.fixture
def talk(settings):
    return conversation(settings)


@pytest.fixture(scope="module")
async def memory(anyio_backend, tmp_path_factory, qmd_command):
    """A backend that has exported a conversation, which no test changes."""
    root = tmp_path_factory.mktemp("memory")
    write_notes(root / "workspace")
    settings = exporting(root, qmd_command)
    conversation(settings).say("The boiler hums.")
    async with open_qmd(settings, clean_environment(root)) as backend:
        await answered(backend, "boiler")
        yield backend


async def test_what_was_said_is_found_in_the_lines_of_the_transcript(memory):
    answer = await answered(memory, "sourdough starter")
    hit = answer.hits[0]
    assert (hit.path, hit.source, hit.start_line) == ("sessions/talk.jsonl", "sessions", 3)
    assert "sourdough" in hit.snippet
    counts = {one.source: one.indexed for one in (await memory.status()).sources}
    assert counts == {"memory": 2, "sessions": 1}


async def test_sources_choose_between_notes_and_conversations(memory):
    both = await answered(memory, "boiler")
    assert {hit.source for hit in both.hits} == {"memory", "sessions"}
    for source in ("memory", "sessions"):
        answer = await memory.search(SearchRequest(query="boiler", sources=(source,)))
        assert {hit.source for hit in answer.hits} == {source}


async def test_new_turns_are_found_and_deleted_conversations_are_not(settings, talk, environment):
    async with open_qmd(settings, environment) as backend:
        await answered(backend, "sourdough")
        line = talk.answer("On the windowsill, beside the quinces.")
        await backend.sync(SyncRequest(reason="manual"))
        hit = (await answered(backend, "quinces")).hits[0]
        assert hit.end_line == line
        talk.path.unlink()
        await backend.sync(SyncRequest(reason="manual"))
        assert (await answered(backend, "quinces")).hits == ()


async def test_the_export_can_be_read_and_the_transcript_cannot(memory):
    read = await memory.read(ReadRequest(path="qmd/sessions/talk.md"))
    assert "sourdough" in read.text
    with pytest.raises(PathNotAllowedError):
        await memory.read(ReadRequest(path="sessions/talk.jsonl"))


async def test_without_the_export_qmd_leaves_conversations_to_the_builtin_index(
    settings, talk, environment
):
    plain = msgspec.structs.replace(settings.qmd.sessions, enabled=False)
    qmd = msgspec.structs.replace(settings.qmd, sessions=plain)
    async with open_qmd(msgspec.structs.replace(settings, qmd=qmd), environment) as backend:
        await answered(backend, "boiler")
        with pytest.raises(QmdUnavailableError, match="no session transcripts"):
            await backend.search(SearchRequest(query="sourdough", sources=("sessions",)))
