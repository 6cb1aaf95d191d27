"""The index agrees with a conversation of the host after any changes of it, and after any looks and kills of ours."""

from __future__ import annotations

import itertools
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends.builtin.store.sqlite.store import SqliteStore
from backends.builtin.syncing import sessions
from backends.builtin.syncing.preparing import Preparer
from backends.builtin.syncing.sessions import SessionIndexer
from backends.chunking import ChunkLimits
from backends.files.roots import MemoryRoots
from backends.transcripts.agent_transcripts import AgentTranscripts
from backends.transcripts.source import BEGINNING
from config.settings import SessionSyncSettings
from fakes.host_database import HostDatabase
from fakes.indexing import indexer_of

steps = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.integers(1, 40)),
        st.tuples(st.just("pack"), st.integers(20, 60)),
        st.tuples(st.just("work"), st.integers(1, 5)),
        st.tuples(st.just("rewind"), st.floats(0, 1)),
        st.tuples(st.just("rewrite"), st.floats(0, 1)),
        st.tuples(st.just("rebuilding"), st.booleans()),
        st.tuples(st.just("sync"), st.booleans()),
        st.tuples(st.just("die"), st.integers(0, 3)),
    ),
    max_size=16,
)


class Agent:
    """One session of a host, and an indexer that follows it by small steps."""

    def __init__(self, root: Path) -> None:
        self.host = HostDatabase(root)
        self.session = self.host.session()
        self.numbers = itertools.count()
        self.database = SqliteStore(root / "index.sqlite")
        preparer = Preparer(ChunkLimits(60, 10))
        self.transcripts = AgentTranscripts(root / "sessions", root, "main")
        sessions = SessionIndexer(
            self.database, self.transcripts, preparer, SessionSyncSettings(), enabled=True
        )
        self.indexer = indexer_of(self.database, MemoryRoots(root), preparer, sessions)

    def close(self) -> None:
        self.database.close()
        self.host.close()

    def do(self, action: str, detail: object) -> None:
        match action:
            case "say" | "pack":
                text = f"mark{next(self.numbers)} " + "word " * detail
                self.session.say(text, packed=action == "pack")
            case "work":
                self.session.work("result " * detail)
            case "rewind":
                active = self.active()
                if active:
                    self.session.rewind(active[int(detail * (len(active) - 1))])
            case "rewrite":
                plain = self.plain()
                if plain:
                    generation = f"generation {next(self.numbers)}"
                    seq = plain[int(detail * (len(plain) - 1))]
                    self.session.rewrite(seq, f"mark{next(self.numbers)} again", generation)
            case "rebuilding":
                self.session.rebuilding(detail)
            case "sync":
                self.sync(force=detail)
            case "die":
                self.sync(steps=detail)

    def active(self) -> list[int]:
        sql = "SELECT event_seq FROM session_transcript_active_events ORDER BY event_seq"
        return [seq for (seq,) in self.host.db.execute(sql)]

    def plain(self) -> list[int]:
        sql = (
            'SELECT seq FROM transcript_events WHERE event_json LIKE \'%"role": "user"%\''
            " ORDER BY seq"
        )
        return [seq for (seq,) in self.host.db.execute(sql)]

    def sync(self, *, force: bool = False, steps: int | None = None) -> None:
        plan = self.indexer.surveyor.survey(eager=True, force=force).sessions
        for task in (*plan.to_remove, *plan.parts)[:steps]:
            self.indexer.apply(task)

    def settle(self) -> None:
        self.session.rebuilding(False)
        for _ in range(30):
            self.sync()
        plan = self.indexer.surveyor.survey(eager=True).sessions
        assert not plan.parts, "it never comes to rest"
        assert not plan.to_remove

    def said(self) -> list[str]:
        """The conversation as it is read back, one turn per line."""
        path = "sessions/one"
        with self.transcripts.open(path, None) as opened:
            lines = opened.read(BEGINNING, 10**9).lines
        return [turn for line in lines if (turn := self.transcripts.render(path, line))]

    def indexed(self) -> list[tuple[int, int, str]]:
        sql = "SELECT start_line, end_line, text FROM chunks ORDER BY start"
        with self.database.reading() as connection:
            return list(connection.execute(sql))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps)
def test_the_index_says_what_the_conversation_says(tmp_path_factory, monkeypatch, steps):
    monkeypatch.setattr(sessions, "PART_BYTES", 700)
    agent = Agent(tmp_path_factory.mktemp("agent"))
    with closing(agent):
        for action, detail in steps:
            agent.do(action, detail)
        agent.settle()
        said, indexed = agent.said(), agent.indexed()
        for first, last, text in indexed:
            assert text.rstrip("\n") in "\n".join(said[first - 1 : last])
        for number, turn in enumerate(said, 1):
            mark = turn.split()[1]
            assert any(mark in text for first, last, text in indexed if first <= number <= last)


def test_a_long_conversation_that_was_taken_in_halfway_goes_on_from_there(tmp_path, monkeypatch):
    """The conversation did not change since the index was left in the middle of it."""
    monkeypatch.setattr(sessions, "PART_BYTES", 700)
    agent = Agent(tmp_path)
    with closing(agent):
        for _ in range(20):
            agent.do("say", 40)
        for _ in range(20):
            agent.sync(steps=1)
        said, indexed = agent.said(), agent.indexed()
        assert len(said) == 20
        assert all(any(turn.split()[1] in text for *_, text in indexed) for turn in said)


@pytest.mark.parametrize("size", [0, 1, 300])
def test_any_number_of_sessions_is_indexed_once_each(tmp_path, size):
    agent = Agent(tmp_path)
    with closing(agent):
        for number in range(size):
            key = f"agent:main:telegram:direct:{number}"
            agent.host.session(f"s{number}", key).say(f"mark{number}")
        agent.sync()
        assert len(agent.indexed()) == size
        assert agent.indexer.surveyor.survey(eager=True).sessions.unchanged == size + 1
