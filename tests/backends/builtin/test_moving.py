"""An index of ours at the place of earlier releases is moved whole, or used there."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import closing

import apsw
import pytest
from msgspec.structs import replace

from backends.builtin.store.sqlite import moving
from backends.builtin.store.sqlite.index_file import FileVerdict, judge
from backends.builtin.store.sqlite.moving import lock_path, present_path
from backends.builtin.store.sqlite.schema import APPLICATION_ID, SCHEMA_VERSION
from backends.builtin.store.sqlite.store import SqliteStore
from backends.interface import SearchRequest, SyncRequest
from config.runtime.files import try_lock_file

FORMER, NEW = "main.sqlite", "main.memory-gateway.sqlite"

KILL_AT_EACH_LINE = """
import json, os, shutil, signal, sys
from pathlib import Path
from backends.builtin.store.sqlite.store import SqliteStore
from backends.builtin.store.sqlite.index_file import FileVerdict, judge

folder = Path(sys.argv[1])
former, new = folder / "main.sqlite", folder / "main.memory-gateway.sqlite"
MARKS = 500

def in_child(work, *arguments):
    child = os.fork()
    if not child:
        try:
            work(*arguments)
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
    return os.waitpid(child, 0)[1]

def seed():
    database = SqliteStore(former)
    with database.writing() as connection:
        for number in range(MARKS):
            connection.execute("INSERT INTO meta VALUES (?, ?)", (str(number), "x" * 500))
    os.kill(os.getpid(), signal.SIGKILL)  # all of it lies in the log alone

def move(last_line):
    lines = 0
    def trace(frame, event, _argument):
        nonlocal lines
        if frame.f_code.co_filename.endswith("/moving.py"):
            if event == "line":
                lines += 1
                if lines == last_line:
                    os.kill(os.getpid(), signal.SIGKILL)
            return trace
    sys.settrace(trace)
    SqliteStore(new, former=former, is_owner=True)

def count():
    assert not former.exists(), "moved"
    database = SqliteStore(new, former=former, is_owner=True)
    with database.reading() as connection:
        number = connection.execute("SELECT count(*) FROM meta WHERE value LIKE 'xxx%'").get
        assert connection.execute("PRAGMA integrity_check").get == "ok"
    assert number == MARKS, number
    database.close()

def recover():
    SqliteStore(new, former=former, is_owner=True).close()

results = []
while True:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    in_child(seed)
    assert former.with_name("main.sqlite-wal").stat().st_size > 200_000
    status = in_child(move, len(results) + 1)
    where = [path.name for path in (former, new) if judge(path) is FileVerdict.OURS]
    if os.WIFEXITED(status):
        assert os.waitstatus_to_exitcode(status) == 0
        break
    results.append((where, in_child(recover), in_child(count)))
print(json.dumps(results))
"""

HOLD = """
import sys
from pathlib import Path
from backends.builtin.store.sqlite.store import SqliteStore
database = SqliteStore(Path(sys.argv[1]))
print("open", flush=True)
sys.stdin.read()
database.close()
"""


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "memory"


@pytest.fixture
def former(folder):
    return folder / FORMER


@pytest.fixture
def new(folder):
    return folder / NEW


@pytest.fixture
def opened(new, former):
    """Opens the index as its owner does; with `is_owner=False`, as a command does."""

    def open_index(**how):
        return closing(SqliteStore(new, former=former, **{"is_owner": True} | how))

    return open_index


def mark(path, value):
    """Makes an index with something in it by which it can be recognised."""
    with closing(SqliteStore(path)) as database, database.writing() as connection:
        connection.execute("INSERT INTO meta VALUES ('mark', ?)", (value,))


def mark_of(database):
    with database.reading() as connection:
        return connection.execute("SELECT value FROM meta WHERE key = 'mark'").get


def names(folder):
    return sorted(file.name for file in folder.iterdir() if not file.name.endswith(".lock"))


def of_today(home):
    """Gives the index of this agent its new place."""
    search = home.settings.search
    store = replace(search.store, path=home.index.with_name(NEW), former_path=home.index)
    home.settings = replace(home.settings, search=replace(search, store=store))


def break_header(path):
    """Damages the header before our marks in it."""
    with path.open("r+b") as file:
        file.seek(24)
        file.write(b"\xff" * 30)
    assert judge(path) is FileVerdict.OURS


def holder(python, environment, path):
    """Another process that has the index open until its input ends."""
    command = [*python, HOLD, str(path)]
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout.readline() == b"open\n"
    return process


@pytest.mark.parametrize("is_owner", [True, False])
def test_an_index_at_the_former_place_is_moved_and_says_so_once(folder, former, opened, is_owner):
    mark(former, "theirs")
    inode = former.stat().st_ino
    with opened(is_owner=is_owner) as database:
        assert mark_of(database) == "theirs"
        assert database.path == folder / NEW
        (note,) = database.notes
        assert note.startswith(f"The index was moved here from {former}")
        assert database.path.stat().st_ino == inode
    assert names(folder) == [NEW]
    with opened() as database:
        assert database.notes == ()


def test_a_process_killed_at_any_line_of_the_move_loses_nothing(folder, python, environment):
    done = subprocess.run(
        [*python, KILL_AT_EACH_LINE, str(folder)],
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout.splitlines()[-1])
    assert len(results) > 10
    assert {tuple(where) for where, _, _ in results} == {(FORMER,), (NEW,)}
    assert all(codes == [0, 0] for _, *codes in results), done.stderr


def test_what_a_killed_process_left_in_the_log_moves_too(
    folder, former, opened, python, environment
):
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from backends.builtin.store.sqlite.store import SqliteStore\n"
        "database = SqliteStore(Path(sys.argv[1]))\n"
        "with database.writing() as connection:\n"
        "    connection.execute(\"INSERT INTO meta VALUES ('mark', 'in the log')\")\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([*python, code, str(former)], env=environment, check=False, timeout=60)
    assert former.with_name(f"{FORMER}-wal").stat().st_size
    with opened() as database:
        assert mark_of(database) == "in the log"
    assert names(folder) == [NEW]


def test_while_the_index_moves_nobody_reads_or_writes_it(former):
    mark(former, "mine")
    with moving.alone_with(former, patience_s=0), closing(apsw.Connection(str(former))) as other:
        with pytest.raises(apsw.BusyError):
            other.execute("SELECT * FROM meta").fetchall()
        assert names(former.parent) == [FORMER]


@pytest.mark.parametrize("content", [b"just a text", b"SQLite format 3\x00 and no more", "newer"])
def test_a_file_at_the_former_place_that_is_not_ours_is_never_touched(
    folder, former, opened, content
):
    folder.mkdir()
    if content == "newer":
        with closing(apsw.Connection(str(former))) as connection:
            connection.execute(
                f"PRAGMA application_id = {APPLICATION_ID};"
                f"PRAGMA user_version = {SCHEMA_VERSION + 1}; CREATE TABLE t (x)"
            )
    else:
        former.write_bytes(content)
    before = former.read_bytes(), former.stat().st_mtime_ns, former.stat().st_ino
    for _ in range(2):
        with opened() as database:
            assert database.path == folder / NEW
            assert database.notes == ()
    assert (former.read_bytes(), former.stat().st_mtime_ns, former.stat().st_ino) == before
    assert names(folder) == [NEW, FORMER]


def test_an_index_that_another_process_has_open_is_waited_for(
    folder, former, opened, python, environment, monkeypatch
):
    mark(former, "waited for")
    process = holder(python, environment, former)
    monkeypatch.setattr(moving, "PATIENCE_S", 60.0)
    pauses = []

    def pause(seconds):
        if not pauses:
            process.communicate()
        pauses.append(seconds)

    monkeypatch.setattr(moving.time, "sleep", pause)
    with opened() as database:
        assert mark_of(database) == "waited for"
        assert database.path.name == NEW
    assert pauses
    assert names(folder) == [NEW]


def test_one_that_stays_open_elsewhere_is_used_where_it_is_and_moved_by_the_next_start(
    folder, former, opened, python, environment, monkeypatch
):
    mark(former, "shared")
    process = holder(python, environment, former)
    monkeypatch.setattr(moving, "PATIENCE_S", 0.1)
    with opened() as database:
        assert mark_of(database) == "shared"
        assert database.path == former
        (note,) = database.notes
        assert "another process has it open" in note and "next start tries again" in note
        with database.writing() as connection:
            connection.execute("INSERT INTO meta VALUES ('more', 'written')")
    process.communicate()
    with opened() as database:
        assert database.path.name == NEW
        assert mark_of(database) == "shared"
    assert names(folder) == [NEW]


def test_a_command_leaves_the_index_of_a_gateway_where_it_is(folder, former, new, opened):
    mark(former, "owned")
    descriptor = try_lock_file(lock_path(new, former))
    with opened(is_owner=False) as database:
        assert database.path == former
        assert "a gateway owns it" in database.notes[0]
    os.close(descriptor)
    with opened(is_owner=False) as database:
        assert database.path.name == NEW
    assert mark_of_file(folder / NEW) == "owned"


def mark_of_file(path):
    with closing(SqliteStore(path)) as database:
        return mark_of(database)


def test_the_lock_has_one_name_in_every_release(folder, former, new, tmp_path):
    assert lock_path(new, former) == lock_path(former) == folder / f"{FORMER}.lock"
    assert lock_path(tmp_path / "notes.db") == tmp_path / "notes.db.lock"


def test_a_linked_index_keeps_its_lock_and_only_the_link_moves(
    folder, former, new, opened, tmp_path
):
    real = tmp_path / "disk/main.sqlite"
    mark(real, "far away")
    folder.mkdir()
    former.symlink_to(real)
    lock = lock_path(new, former)
    assert lock == real.with_name(f"{real.name}.lock")
    with opened() as database:
        assert mark_of(database) == "far away"
        assert database.path == real
    assert names(folder) == [NEW]
    assert new.is_symlink()
    assert lock_path(new, former) == lock


def test_an_index_of_an_earlier_format_is_moved_and_rebuilt(folder, former, opened):
    mark(former, "old")
    with closing(apsw.Connection(str(former))) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION - 1}")
    with opened() as database:
        assert database.path.name == NEW
        assert any("format of an earlier release" in note for note in database.notes)
    assert names(folder) == [NEW]


def test_a_damaged_one_is_set_aside_and_made_anew_at_the_new_place(folder, former, opened):
    mark(former, "broken")
    break_header(former)
    with opened() as database:
        assert database.path.name == NEW
        assert any("was damaged" in note for note in database.notes), database.notes
    left = names(folder)
    assert left[0] == NEW and left[1].startswith(f"{FORMER}.damaged-") and len(left) == 2


def test_beside_an_index_in_use_a_later_one_of_an_earlier_release_is_deleted(
    folder, former, new, opened
):
    mark(new, "in use")
    mark(former, "made by 0.1 since")
    with opened() as database:
        assert mark_of(database) == "in use"
        (note,) = database.notes
        assert "made by an earlier release" in note and "was deleted" in note
    assert names(folder) == [NEW]


def test_a_damaged_one_beside_an_index_in_use_is_set_aside_too(folder, former, new, opened):
    mark(new, "in use")
    mark(former, "broken")
    break_header(former)
    with opened() as database:
        assert mark_of(database) == "in use"
        assert "was damaged" in database.notes[0]
    assert [name for name in names(folder) if name.endswith(".sqlite")] == [NEW]


def test_a_command_that_comes_while_the_owner_moves_the_index_finds_it_at_its_new_place(
    folder, former, opened, monkeypatch
):
    """The move happens between its first look and its attempt to take the lock, which the owner holds."""
    mark(former, "just moved")
    take_lock = moving.try_lock_file

    def move_first(path, **how):
        opened().__enter__().close()
        lock = take_lock(path, **how)
        try:
            return take_lock(path, **how)
        finally:
            os.close(lock)

    monkeypatch.setattr(moving, "try_lock_file", move_first)
    with opened(is_owner=False) as database:
        assert mark_of(database) == "just moved"
        assert database.path.name == NEW
        assert database.notes == ()
    assert names(folder) == [NEW]


def test_a_command_never_deletes_the_other_one(folder, former, new, opened):
    mark(new, "in use")
    mark(former, "another")
    with opened(is_owner=False) as database:
        assert mark_of(database) == "in use"
    assert names(folder) == [NEW, FORMER]


def test_what_cannot_be_moved_is_used_where_it_is(folder, former, new, opened):
    mark(former, "stuck")
    lock_path(new, former).mkdir()
    with opened(is_owner=False) as database:
        assert database.path == former
        assert mark_of(database) == "stuck"
        assert "cannot be moved now" in database.notes[0]
    assert present_path(new, former) == former


def test_where_the_new_name_is_taken_the_next_one_is_used(folder, former, new, opened):
    mark(former, "moved on")
    new.write_text("somebody else's", encoding="utf-8")
    with opened() as database:
        assert mark_of(database) == "moved on"
        assert database.path.name == "main.memory-gateway-2.sqlite"
        assert any("left alone" in note for note in database.notes)
    assert new.read_text(encoding="utf-8") == "somebody else's"
    assert names(folder) == ["main.memory-gateway-2.sqlite", NEW]


@pytest.mark.anyio
async def test_an_index_with_embeddings_is_moved_and_no_text_is_embedded_again(
    embedding_home, vendor, embedded
):
    for number in range(40):
        embedding_home.write(f"memory/{number}.md", f"The boiler number {number}.\n")
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
    vendor.requests.clear()
    of_today(embedding_home)
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        report = await embedded(backend)
        assert report["coverage"]["embedded"] == 40
        answer = await backend.search(SearchRequest(query="boiler 7"))
        assert answer.hits[0].path == "memory/7.md"
        status = await backend.status()
        assert status.database_path.endswith(NEW)
        assert any("moved here from" in note for note in status.issues)
    assert vendor.embedded() == ["boiler 7"]
