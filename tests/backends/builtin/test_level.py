"""The shortcut of a look at the disk: taken where nothing changed, and never where something did."""

from __future__ import annotations

import os
from contextlib import closing

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends.builtin.store.sqlite.store import SqliteStore
from backends.builtin.syncing.indexing import Indexer
from backends.builtin.syncing.preparing import Preparer
from backends.builtin.syncing.sessions import SessionIndexer
from backends.chunking import ChunkLimits
from backends.files.roots import MemoryRoots
from backends.transcripts.agent_transcripts import AgentTranscripts
from fakes.indexing import indexer_of

NAMES = ("memory/a.md", "memory/b.md", "memory/sub/c.md")


class Bench:
    """An indexer on real files, and others that remember no comparison."""

    def __init__(self, home) -> None:
        self.home = home
        self.database = SqliteStore(home.index)
        self.indexer = self.another_indexer()

    def another_indexer(self, tokens: int = 400) -> Indexer:
        preparer, settings = Preparer(ChunkLimits(tokens)), self.home.settings
        transcripts, sync = AgentTranscripts.of(settings), settings.search.sync.sessions
        sessions = SessionIndexer(self.database, transcripts, preparer, sync, enabled=False)
        return indexer_of(self.database, MemoryRoots(self.home.workspace), preparer, sessions)

    def write(self, path: str, text: str) -> None:
        self.home.write(path, text)

    def delete(self, path: str) -> None:
        (self.home.workspace / path).unlink(missing_ok=True)

    def touch(self, path: str, mtime_ns: int) -> None:
        if (self.home.workspace / path).exists():
            os.utime(self.home.workspace / path, ns=(mtime_ns, mtime_ns))

    def forget(self, path: str) -> None:
        """Removes a file from the index over another connection."""
        with closing(apsw.Connection(str(self.home.index))) as other:
            other.execute("DELETE FROM files WHERE path = ?", (path,))

    def index(self) -> None:
        survey = self.indexer.surveyor.survey()
        plan = survey.plan
        for task in (*plan.to_remove, *survey.sessions.to_remove, *plan.to_read):
            self.indexer.apply(task)

    def level(self) -> None:
        """Indexes until nothing is left to do; files that were just written are read once more."""
        self.index()
        while self.indexer.surveyor.survey().plan.to_read:
            self.index()

    def rows_read(self) -> bool:
        """Returns whether a survey reads rows of files. Surveys use the most recently used reader."""
        statements: list[str] = []
        with self.database.reading() as connection:
            connection.trace_v2(
                apsw.SQLITE_TRACE_STMT, lambda event: statements.append(event["sql"])
            )
        self.indexer.surveyor.survey()
        assert statements
        with self.database.reading() as connection:
            connection.trace_v2(0, None)
        return any("FROM files" in statement for statement in statements)


@pytest.fixture
def bench(home):
    bench = Bench(home)
    yield bench
    bench.database.close()


@pytest.fixture
def level(bench):
    for name in NAMES:
        bench.write(name, f"boiler of {name}\n")
    bench.level()
    return bench


def test_what_is_level_is_not_compared_again(level):
    assert level.rows_read() is False
    assert level.indexer.surveyor.survey() == level.another_indexer().surveyor.survey()


def test_of_transcripts_that_are_no_source_only_what_another_host_leaves_costs_a_look(level):
    with level.database.writer() as writer:
        writer.transcripts.enrol("sessions", ["sessions/main/one.jsonl"])
        writer.transcripts.disenrol(["sessions"])
    with closing(apsw.Connection(str(level.home.index))) as other:
        other.execute(
            "DELETE FROM stamps WHERE file_id IN (SELECT id FROM files WHERE source = 'sessions')"
        )
    assert level.rows_read() is True
    level.level()
    assert level.indexer.surveyor.survey().sessions.to_remove == ()
    with level.database.view() as view:
        assert view.transcripts.indexed() == {}
    assert level.rows_read() is False


def test_what_is_written_beside_the_files_costs_no_comparison(level):
    with level.database.writer() as writer:
        writer.remember("vectors", "came")
    assert level.rows_read() is False


@pytest.mark.parametrize(
    "change",
    [
        lambda bench: bench.write("memory/new.md", "pump\n"),
        lambda bench: bench.write("memory/a.md", "boiled of memory/a.md\n"),
        lambda bench: bench.delete("memory/sub/c.md"),
        lambda bench: bench.touch("memory/b.md", 10**18),
        lambda bench: bench.forget("memory/b.md"),
    ],
    ids=["new", "edited", "deleted", "touched", "forgotten by the index"],
)
def test_a_change_on_either_side_is_seen_at_once(level, change):
    change(level)
    plan = level.indexer.surveyor.survey().plan
    assert len(plan.to_read) + len(plan.to_remove) == 1
    assert level.rows_read() is True
    level.level()
    assert level.rows_read() is False


def test_force_and_verification_compare_all_the_same(level):
    assert len(level.indexer.surveyor.survey(force=True).plan.to_read) == len(NAMES)
    assert level.indexer.surveyor.survey(verify=True).plan.doubtful == set(NAMES)


def test_what_is_level_for_one_way_of_chunking_is_not_for_another(level):
    assert len(level.another_indexer(tokens=100).surveyor.survey().plan.to_read) == len(NAMES)


def test_another_reader_of_the_index_compares_for_itself(level):
    with level.database.reading():
        assert level.indexer.surveyor.survey() == level.another_indexer().surveyor.survey()
        level.forget("memory/b.md")
        assert [found.path for found in level.indexer.surveyor.survey().plan.to_read] == [
            "memory/b.md"
        ]
    assert [found.path for found in level.indexer.surveyor.survey().plan.to_read] == ["memory/b.md"]


PATHS = st.sampled_from(NAMES)
STEPS = st.one_of(
    st.tuples(st.just("write"), PATHS, st.sampled_from(["boiler\n", "pump\n", "boiler\npump\n"])),
    st.tuples(st.sampled_from(["delete", "forget"]), PATHS),
    st.tuples(st.just("touch"), PATHS, st.integers(1, 3)),
    st.tuples(st.sampled_from(["index", "level"])),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(STEPS, max_size=12))
def test_after_any_history_the_plan_is_that_of_a_full_comparison(bench, steps):
    for name, *arguments in steps:
        getattr(bench, name)(*arguments)
        assert bench.indexer.surveyor.survey() == bench.another_indexer().surveyor.survey()
