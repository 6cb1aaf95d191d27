"""The way of one file from the disk into the index, and the events that may come between its steps."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from backends.builtin.store.sqlite.store import SqliteStore
from backends.builtin.syncing.indexing import Group, TaskOptions
from backends.builtin.syncing.planning import Change
from backends.builtin.syncing.preparing import Preparer, TooCostlyError
from backends.chunking import ChunkLimits
from backends.files.roots import MemoryRoots
from backends.files.scan import FoundFile
from fakes.indexing import indexer_of


def put_in_its_place(note: Path, text: str) -> None:
    """Replaces a note as editors do, by a new file and a rename."""
    other = note.with_suffix(".tmp")
    other.write_text(text, encoding="utf-8")
    other.replace(note)


class Bench:
    """An indexer taken apart, to interfere between its steps."""

    def __init__(self, home) -> None:
        self.home = home
        self.database = SqliteStore(home.index)
        self.roots = MemoryRoots(home.workspace)
        self.indexer = indexer_of(self.database, self.roots, Preparer(ChunkLimits()))

    def found(self, path: str = "memory/a.md") -> FoundFile:
        return next(found for found in self.indexer.surveyor.scan().files if found.path == path)

    def texts(self) -> list[str]:
        with self.database.reading() as connection:
            return [text for (text,) in connection.execute("SELECT text FROM chunks")]


@pytest.fixture
def bench(home):
    bench = Bench(home)
    yield bench
    bench.database.close()


def test_a_file_that_vanished_since_it_was_listed_leaves_the_index(bench, home):
    note = home.write("memory/a.md", "boiler\n")
    assert bench.indexer.apply(bench.found()).change is Change.WRITTEN
    found = bench.found()
    note.unlink()
    assert bench.indexer.apply(found).change is Change.GONE
    assert bench.texts() == []


def test_a_file_that_vanished_and_came_back_keeps_its_rows(bench, home, threads_in):
    note = home.write("memory/a.md", "boiler\n")
    bench.indexer.apply(bench.found())
    found = bench.found()
    outcomes = []
    note.unlink()
    with bench.database.writing():
        waiting = threads_in("_turn", lambda: outcomes.append(bench.indexer.apply(found)))
        note.write_text("boiler\n", encoding="utf-8")
    waiting.join(60)
    assert outcomes[0].change is Change.LATER
    assert bench.texts() == ["boiler\n"]


def test_a_removal_does_not_take_what_was_indexed_since_it_was_planned(bench, home):
    note = home.write("memory/a.md", "old boiler\n")
    bench.indexer.apply(bench.found())
    note.unlink()
    (obsolete,) = bench.indexer.surveyor.survey().plan.to_remove
    note.write_text("new boiler\n", encoding="utf-8")
    bench.indexer.apply(bench.found())
    assert bench.indexer.apply(obsolete).change is Change.LATER
    assert bench.texts() == ["new boiler\n"]


def test_a_removal_that_a_search_made_first_is_done_and_not_put_off(bench, home):
    note = home.write("memory/a.md", "old boiler\n")
    bench.indexer.apply(bench.found())
    note.unlink()
    (obsolete,) = bench.indexer.surveyor.survey().plan.to_remove
    assert bench.indexer.apply(obsolete).change is Change.GONE
    assert bench.indexer.apply(obsolete).change is Change.GONE
    assert bench.texts() == []


@pytest.mark.parametrize(
    "interfere",
    [
        lambda note: note.write_text("newer\n", encoding="utf-8"),
        lambda note: note.unlink(),
        lambda note: os.utime(note, ns=(1, 1)),
        lambda note: put_in_its_place(note, "other\n"),
    ],
    ids=["edited", "deleted", "touched", "replaced"],
)  # fmt: skip
def test_what_changed_between_reading_and_publishing_is_not_published(
    bench, home, interfere, threads_in, wait_until
):
    note = home.write("memory/a.md", "read before the change\n")
    found = bench.found()
    outcomes = []
    with bench.database.writing():  # the publishing has to wait for its turn
        waiting = threads_in("_turn", lambda: outcomes.append(bench.indexer.apply(found)))
        interfere(note)
    waiting.join(60)
    assert outcomes[0].change is Change.LATER
    assert bench.texts() == []


def test_of_a_log_that_never_rests_what_was_read_is_found_and_the_rest_is_due(
    bench, home, threads_in
):
    note = home.write("memory/a.md", "- boiler\n")
    bench.indexer.apply(bench.found())

    def append(line: str) -> None:
        with note.open("a", encoding="utf-8") as file:
            file.write(line)

    append("- pump\n")
    found, outcomes = bench.found(), []
    with bench.database.writing():
        waiting = threads_in("_turn", lambda: outcomes.append(bench.indexer.apply(found)))
        append("- valve\n")
    waiting.join(60)
    assert outcomes[0].change is Change.LATER
    assert bench.texts() == ["- boiler\n- pump\n"]
    assert [due.path for due in bench.indexer.surveyor.survey().plan.to_read] == ["memory/a.md"]


def test_the_first_half_of_what_an_editor_saves_in_place_replaces_no_rows(bench, home, threads_in):
    note = home.write("memory/a.md", "one\ntwo\n")
    bench.indexer.apply(bench.found())
    note.write_text("one\n", encoding="utf-8")
    found, outcomes = bench.found(), []
    with bench.database.writing():
        waiting = threads_in("_turn", lambda: outcomes.append(bench.indexer.apply(found)))
        note.write_text("one\nTWO\n", encoding="utf-8")
    waiting.join(60)
    assert outcomes[0].change is Change.LATER
    assert bench.texts() == ["one\ntwo\n"]


@pytest.mark.parametrize("is_costly", [False, True])
def test_what_a_search_indexed_while_a_sync_prepared_the_note_as_it_was_stays(
    bench, home, monkeypatch, is_costly
):
    note = home.write("memory/a.md", "one\n")
    old, prepare = bench.found(), bench.indexer.preparer.prepare

    def interrupted(path, text, **options):
        if text != "one\n":
            return prepare(path, text, **options)
        note.write_text("two, and longer\n", encoding="utf-8")
        assert bench.indexer.apply(bench.found()).change is Change.WRITTEN
        if is_costly:
            raise TooCostlyError("it takes too long")
        return prepare(path, text, **options)

    monkeypatch.setattr(bench.indexer.preparer, "prepare", interrupted)
    outcome = bench.indexer.apply(old)
    assert outcome.change is (Change.LATER if is_costly else Change.SAME)
    assert bench.texts() == ["two, and longer\n"]


def test_a_touch_that_was_decided_on_older_content_marks_nothing_as_level(bench, home, threads_in):
    note = home.write("memory/a.md", "one\n")
    bench.indexer.apply(bench.found())
    os.utime(note, ns=(1, 1))
    found = bench.found()
    with bench.database.writing():
        waiting = threads_in("_turn", lambda: bench.indexer.apply(found))
        note.write_text("two\n", encoding="utf-8")
    waiting.join(60)
    bench.indexer.apply(bench.found())
    assert bench.texts() == ["two\n"]
    plan = bench.indexer.surveyor.survey().plan
    assert {found.path for found in plan.to_read} == plan.doubtful


def test_an_unreadable_directory_keeps_its_rows(public_home, unprivileged):
    bench = Bench(public_home)
    public_home.write("memory/sub/a.md", "boiler\n")
    top = public_home.write("memory/b.md", "pump\n")
    for found in bench.indexer.surveyor.scan().files:
        bench.indexer.apply(found)
    top.unlink()
    directory = public_home.workspace / "memory/sub"
    directory.chmod(0)
    with unprivileged():
        survey = bench.indexer.surveyor.survey()
    directory.chmod(0o755)
    assert [failed.path for failed in survey.scan.failed_dirs] == ["memory/sub"]
    assert [obsolete.path for obsolete in survey.plan.to_remove] == ["memory/b.md"]
    bench.database.close()


def test_an_unreadable_file_keeps_its_rows_and_says_why(public_home, unprivileged):
    bench = Bench(public_home)
    note = public_home.write("memory/a.md", "boiler\n")
    bench.indexer.apply(bench.found())
    note.chmod(0)
    with unprivileged():
        outcome = bench.indexer.apply(bench.found())
    assert outcome.change is Change.DENIED
    assert outcome.skipped is not None and "Permission denied" in outcome.skipped.reason
    assert bench.texts() == ["boiler\n"]
    bench.database.close()


def test_several_threads_may_index_the_same_file(bench, home, in_threads, check, long_note):
    note = home.write("memory/a.md", long_note(1))

    def work(number: int) -> None:
        for turn in range(6):
            note.write_text(long_note(number, turn), encoding="utf-8")
            bench.indexer.apply(bench.found())

    in_threads(4, work)
    bench.indexer.apply(bench.found())
    text = note.read_text(encoding="utf-8")
    assert all(stored in text for stored in bench.texts())
    check(Path(home.index))


@pytest.fixture
def commits(bench):
    """Counts the transactions that change the index."""
    seen = []
    bench.database._writer.set_commit_hook(lambda: bool(seen.append(1)))
    return seen


def index_together(bench, *, meanwhile=lambda: None):
    """Returns the outcomes of all work that is due, by path."""
    tasks = bench.indexer.surveyor.survey().plan.to_read
    meanwhile()
    (group,) = bench.indexer.grouped(tasks)
    found = bench.indexer.apply_together(group, options=TaskOptions())
    return {task.path: outcome.change for task, outcome in zip(group.tasks, found, strict=True)}


def test_small_files_are_published_in_one_transaction(bench, home, commits, check, long_note):
    for name in "abc":
        home.write(f"memory/{name}.md", long_note(1))
    assert set(index_together(bench, meanwhile=commits.clear).values()) == {Change.WRITTEN}
    assert len(commits) == 1
    check(Path(home.index))


def test_of_files_that_are_published_together_each_has_its_own_outcome(bench, home):
    home.write("memory/same.md", "As it was.\n")
    index_together(bench)
    home.write("memory/same.md", "As it was.\n")
    home.write("memory/gone.md", "Here for a moment.\n")
    home.write("memory/new.md", "Here to stay.\n")

    outcomes = index_together(bench, meanwhile=(home.workspace / "memory/gone.md").unlink)
    assert outcomes == {
        "memory/same.md": Change.SAME,
        "memory/gone.md": Change.GONE,
        "memory/new.md": Change.WRITTEN,
    }


def test_one_that_is_too_costly_keeps_no_other_from_being_published_with_it(bench, home):
    home.write("memory/costly.md", "\n" * 500_001)
    home.write("memory/good.md", "The boiler.\n")
    tasks = bench.indexer.surveyor.survey().plan.to_read
    found = bench.indexer.apply_together(Group(tasks), options=TaskOptions())
    outcomes = {task.path: one.change for task, one in zip(tasks, found, strict=True)}
    assert outcomes == {"memory/costly.md": Change.SKIPPED, "memory/good.md": Change.WRITTEN}


def test_what_is_done_together_is_bounded_by_its_bytes(bench, home):
    for number in range(5):
        home.write(f"memory/{number}.md", "x" * 20_000)
    home.write("memory/long.md", "x" * 200_000)
    groups = [
        one.tasks for one in bench.indexer.grouped(bench.indexer.surveyor.survey().plan.to_read)
    ]
    assert sorted(len(group) for group in groups) == [1, 2, 3]
    assert all(len(group) == 1 or sum(one.size for one in group) <= 65_536 for group in groups)


def test_a_fault_of_ours_in_one_file_keeps_no_other_from_being_indexed(home, capfd):
    """The limit has the wrong type on purpose: cutting any text with it really fails."""
    home.write("memory/bad.md", "brings the fault out\n")
    home.write("memory/good.md", "")
    database = SqliteStore(home.index)
    roots = MemoryRoots(home.workspace)
    indexer = indexer_of(database, roots, Preparer(ChunkLimits("400")))  # type: ignore[arg-type]
    outcomes = {
        found.path: indexer.apply(found) for found in indexer.surveyor.survey().plan.to_read
    }
    database.close()
    assert outcomes["memory/good.md"].change is Change.WRITTEN
    bad = outcomes["memory/bad.md"]
    assert bad.change is Change.UNREAD
    assert bad.skipped is not None and "internal fault" in bad.skipped.reason
    assert "TypeError" in capfd.readouterr().out


def test_the_words_of_files_of_one_transaction_are_written_together(home, check):
    for number in range(20):
        home.write(f"memory/{number}.md", f"# Boiler {number}\n\n- the warranty of no. {number}\n")
    bench = Bench(home)
    files = bench.indexer.surveyor.scan().files
    bench.indexer.apply_together(Group(files), options=TaskOptions())
    with bench.database.reading() as connection:
        assert connection.execute("SELECT count(DISTINCT segid) FROM chunk_terms_idx").get == 1
    bench.database.close()
    check(home.index)
