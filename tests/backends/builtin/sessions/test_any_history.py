"""Whatever happens to a transcript, after a sync the index holds exactly what its file says."""

from __future__ import annotations

import itertools
import json
import os
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.builtin.store.port import TurnRange
from backends.builtin.store.sqlite.store import SqliteStore, SqliteView
from backends.builtin.syncing.preparing import Preparer
from backends.builtin.syncing.sessions import SessionIndexer
from backends.chunking import ChunkLimits
from backends.files.roots import MemoryRoots
from backends.transcripts.jsonl import JsonlTranscripts
from backends.transcripts.turns import render_turn
from config.settings import SessionSyncSettings
from fakes.indexing import indexer_of


def line(role: str, number: int, words: int) -> bytes:
    text = f"mark{number:05} " + "word " * words
    return (
        json.dumps({"type": "message", "message": {"role": role, "content": text}}).encode() + b"\n"
    )


lines = st.tuples(st.sampled_from(["user", "assistant", "tool"]), st.integers(0, 60))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(lines, min_size=1, max_size=8)),
        st.tuples(st.just("half"), st.none()),
        st.tuples(st.just("cut"), st.floats(0, 1)),
        st.tuples(st.just("spoil"), st.floats(0, 1)),
        st.tuples(st.just("replace"), st.floats(0, 1)),
        st.tuples(st.just("touch"), st.none()),
        st.tuples(st.just("delete"), st.none()),
        st.tuples(st.just("sync"), st.booleans()),
    ),
    max_size=14,
)


class Agent:
    """One transcript, and an indexer that is asked to keep up with it."""

    def __init__(self, root: Path) -> None:
        directory = root / "sessions"
        directory.mkdir()
        self.file = directory / "one.jsonl"
        self.numbers = itertools.count()
        self.clock = itertools.count(1_000_000_000_000_000_000, 1_000_000_000)
        self.database = SqliteStore(root / "index.sqlite")
        preparer = Preparer(ChunkLimits(60, 10))
        sessions = SessionIndexer(
            self.database,
            JsonlTranscripts(directory),
            preparer,
            SessionSyncSettings(),
            enabled=True,
        )
        self.indexer = indexer_of(self.database, MemoryRoots(root), preparer, sessions)

    def content(self) -> bytes:
        return self.file.read_bytes() if self.file.exists() else b""

    def do(self, action: str, detail: object) -> None:
        content = self.content()
        match action:
            case "append":
                new = b"".join(line(role, next(self.numbers), n) for role, n in detail)
                self._put(
                    content + (b"" if content.endswith(b"\n") or not content else b"\n") + new
                )
            case "half":
                self._put(content + b'{"type": "message", "message"')
            case "cut":
                self._put(content[: int(len(content) * detail)])
            case "spoil":
                place = int(len(content) * detail)
                self._put(content[:place] + b"m" + content[place + 1 :])
            case "replace":
                other = self.file.with_suffix(".new")
                other.write_bytes(content[: int(len(content) * detail)] + line("user", 99_999, 3))
                other.replace(self.file)
            case "touch":
                self._put(content)
            case "delete":
                self.file.unlink(missing_ok=True)
            case "sync":
                self.sync(force=detail)

    def _put(self, content: bytes) -> None:
        """Writes in place, with a distinct stamp, as if time had passed between two writes."""
        with self.file.open("r+b" if self.file.exists() else "wb") as file:
            file.write(content)
            file.truncate(len(content))
        stamp = next(self.clock)
        os.utime(self.file, ns=(stamp, stamp))

    def sync(self, *, force: bool = False) -> None:
        plan = self.indexer.surveyor.survey(eager=True, force=force).sessions
        for task in (*plan.to_remove, *plan.parts):
            self.indexer.apply(task)

    def settle(self) -> None:
        for _ in range(3):
            self.sync()
        plan = self.indexer.surveyor.survey(eager=True).sessions
        assert not plan.parts, "it never comes to rest"
        assert not plan.to_remove

    def said(self) -> dict[int, str]:
        complete = self.content().split(b"\n")[:-1]
        turns = ((number, render_turn(one)) for number, one in enumerate(complete, 1))
        return {number: turn for number, turn in turns if turn}

    def indexed(self) -> list[tuple[int, int, str]]:
        with self.database.reading() as connection:
            transcripts = SqliteView(connection).transcripts
            return [
                (*transcripts.entries([span := TurnRange(file_id, first, last)])[span], text)
                for file_id, first, last, text in connection.execute(
                    "SELECT file_id, start_line, end_line, text FROM chunks ORDER BY start"
                )
            ]


@given(steps)
def test_the_index_says_what_the_file_says(tmp_path_factory, steps):
    agent = Agent(tmp_path_factory.mktemp("agent"))
    with closing(agent.database):
        for action, detail in steps:
            agent.do(action, detail)
        agent.settle()
        said, indexed = agent.said(), agent.indexed()
        for first, last, text in indexed:
            between = "\n".join(turn for number, turn in said.items() if first <= number <= last)
            assert text.rstrip("\n") in between
        for number, turn in said.items():
            marks = {word for word in turn.split() if word.startswith("mark")}
            texts = [text for first, last, text in indexed if first <= number <= last]
            assert all(any(mark in text for text in texts) for mark in marks)


@pytest.mark.parametrize("size", [0, 1, 300])
def test_any_number_of_transcripts_is_indexed_once_each(tmp_path, size):
    agent = Agent(tmp_path)
    with closing(agent.database):
        for number in range(size):
            agent.file.with_name(f"{number}.jsonl").write_bytes(line("user", number, 3))
        agent.sync()
        assert len(agent.indexed()) == size
        assert agent.indexer.surveyor.survey(eager=True).sessions.unchanged == size
