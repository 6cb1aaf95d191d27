"""Text deleted from the notes is in no file of the index any more, byte for byte."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import threading
import time
from array import array

import anyio
import apsw
import pytest

from backends.builtin import backend as backend_module
from backends.builtin.backend import open_builtin
from backends.builtin.store.sqlite import erasing
from backends.builtin.store.sqlite import store as store_module
from backends.builtin.store.sqlite.connections import connect_reader
from backends.builtin.store.sqlite.erasing import has_residue, is_due
from backends.builtin.store.sqlite.index_file import judge, search_files
from backends.builtin.store.sqlite.store import SqliteStore
from backends.interface import SearchRequest, SyncRequest
from providers.provider_interface import Fingerprint

pytestmark = pytest.mark.anyio

WAIT_S = 30
BLOCK_BYTES = 512 * 1024
"""The bytes that are searched at once."""
PASSWORD = "Tr0ub4dor-and-Xylophone-9381"
TRACES = (PASSWORD, "tr0ub4dor", "xylophone", "brunhilde", "edlihnurb")
"""The password as written in the note, its words in the index, and a long word, once read backwards."""


def files_with(directory, *texts):
    return {
        (file.name, text)
        for file in directory.rglob("*")
        if file.is_file()
        for text in texts
        if text.encode() in file.read_bytes()
    }


def fill(home, notes=40):
    for number in range(notes):
        home.write(f"memory/n{number}.md", f"# Note {number}\n\n- the kettle of house {number}\n")
    return home.write(
        "memory/secret.md", f"# Brunhilde\n\n- the password of Brunhilde is {PASSWORD}\n"
    )


def below(home):
    """The directory of the index."""
    return home.root / "index"


@pytest.fixture
def apart(home):
    """The index in a directory without the notes."""
    home.store = type(home.store)(path=below(home) / "main.sqlite")
    home.configure()
    home.index = home.store.path
    return home


async def test_a_note_that_is_deleted_is_gone_from_every_file_when_the_command_is_done(apart):
    note = fill(apart)
    await apart.synced()
    assert len(files_with(below(apart), *TRACES)) >= 2
    note.unlink()
    async with open_builtin(apart.settings, background=False) as backend:
        report = await backend.sync(SyncRequest())
        assert report.removed == 1
        assert files_with(below(apart), *TRACES) == set()


async def test_an_index_of_many_pages_is_sound_after_an_erasing(apart):
    note = fill(apart, notes=4)
    words = random.Random(3)
    for number in range(30):
        text = "\n\n".join(f"- {words.getrandbits(2_000):x}" for _ in range(30))
        apart.write(f"memory/long{number}.md", text)
    await apart.synced()
    assert apart.index.stat().st_size > BLOCK_BYTES
    note.unlink()
    async with open_builtin(apart.settings, background=False) as backend:
        await backend.sync(SyncRequest())
    store = SqliteStore(apart.index)
    with contextlib.closing(store):
        assert store.erase_deleted()
        assert store.generation == 0
        assert store.notes == ()
    assert not list(below(apart).glob("*.damaged-*"))
    assert files_with(below(apart), *TRACES) == set()


async def test_while_a_gateway_runs_it_is_gone_within_a_minute(apart, monkeypatch):
    assert backend_module.ERASE_EVERY_S <= 30
    monkeypatch.setattr(backend_module, "ERASE_EVERY_S", 0.2)
    note = fill(apart)
    async with apart.open() as backend:
        await backend.sync(SyncRequest())
        note.write_text("# Brunhilde\n\n- the password is elsewhere\n", encoding="utf-8")
        await backend.sync(SyncRequest())
        with anyio.fail_after(60):
            while files_with(below(apart), PASSWORD, "tr0ub4dor", "xylophone"):
                await anyio.sleep(0.05)
        note.unlink()
        answer = await backend.search(SearchRequest(query="password of Brunhilde"))
        assert answer.hits == ()
        with anyio.fail_after(60):
            while files_with(below(apart), *TRACES):
                await anyio.sleep(0.05)


@pytest.mark.parametrize("is_done", [True, False])
async def test_an_index_of_which_erasing_takes_long_is_erased_less_often(
    apart, monkeypatch, is_done
):
    monkeypatch.setattr(backend_module, "ERASE_EVERY_S", 0.01)
    monkeypatch.setattr(backend_module, "ERASE_AGAIN_S", 0.01)
    attempts = []

    def erase_slowly(_):
        began = time.monotonic()
        time.sleep(0.05)  # the work itself
        attempts.append((began, time.monotonic()))
        return is_done

    monkeypatch.setattr(SqliteStore, "erase_deleted", erase_slowly)
    async with apart.open():
        with anyio.fail_after(60):
            while len(attempts) < 2:
                await anyio.sleep(0.01)
    (began, ended), (again, _) = attempts[:2]
    assert again - ended >= backend_module.ERASING_PAUSES * (ended - began)


async def test_who_erases_while_somebody_else_does_waits_for_it(apart, monkeypatch):
    """A command, which ends when the text is gone, may come upon the attempt that is made regularly."""
    begun, goes_on, ended = threading.Event(), threading.Event(), []

    def erase_after_that(_):
        begun.set()
        assert goes_on.wait(WAIT_S)
        return True

    async def erase(backend):
        ended.append(await backend._erase())

    monkeypatch.setattr(SqliteStore, "erase_deleted", erase_after_that)
    async with (
        open_builtin(apart.settings, background=False) as backend,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(erase, backend)
        assert await anyio.to_thread.run_sync(begun.wait, WAIT_S)
        tasks.start_soon(erase, backend)
        await anyio.wait_all_tasks_blocked()
        assert ended == []
        goes_on.set()
    assert ended == [True, True]


async def test_a_process_that_was_killed_before_it_erased_leaves_that_to_the_next_one(apart):
    note = fill(apart)
    await apart.synced()
    note.unlink()
    store = SqliteStore(apart.index)
    with store.writing() as connection:
        chunks = connection.execute("SELECT c.id FROM chunks c WHERE text LIKE '%Tr0ub%'").get
        assert chunks
    store.close()
    store = SqliteStore(apart.index)
    with store.writer() as writer:
        assert writer.files.remove("memory", "memory/secret.md")
    assert files_with(below(apart), *TRACES)
    assert is_due(store)
    # Nothing of `store` is closed, as after a kill.
    heir = SqliteStore(apart.index)
    assert heir.erase_deleted()
    assert not is_due(heir)
    assert files_with(below(apart), *TRACES) == set()
    heir.close()
    store.close()


async def test_an_index_of_an_earlier_release_is_written_anew_once(apart):
    fill(apart)
    await apart.synced()
    with apsw.Connection(str(apart.index)) as connection:
        connection.execute("DROP TABLE deletions")
        connection.execute("CREATE TABLE rubbish (t TEXT)")
        connection.execute("INSERT INTO rubbish VALUES (?)", (f"{PASSWORD} of old " * 900,))
        connection.execute("DROP TABLE rubbish")
    connection.close()
    assert f"{PASSWORD} of old".encode() in apart.index.read_bytes()
    store = SqliteStore(apart.index)
    assert is_due(store)
    assert store.erase_deleted()
    assert f"{PASSWORD} of old".encode() not in apart.index.read_bytes()
    assert not is_due(store)
    store.close()


async def test_a_damaged_index_that_was_set_aside_goes_with_the_first_deletion(apart):
    note = fill(apart)
    await apart.synced()
    apart.index.with_name("main.sqlite.damaged-1").write_bytes(apart.index.read_bytes())
    note.unlink()
    await apart.synced()
    store = SqliteStore(apart.index)
    assert store.erase_deleted()
    store.close()
    assert files_with(below(apart), *TRACES) == set()


async def test_vectors_of_texts_that_are_no_more_are_gone_and_those_of_a_moved_note_stay(
    embedding_home, embedded, vectors_in, vendor
):
    home = embedding_home
    note = fill(home, 3)
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
    before = sum(vectors_in(home.index).values())
    asked = len(vendor.embedded())
    moved = home.workspace / "memory/n1.md"
    moved.rename(moved.with_name("moved.md"))
    note.unlink()
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
    store = SqliteStore(home.index)
    assert store.erase_deleted()
    store.close()
    assert sum(vectors_in(home.index).values()) == before - 1
    assert len(vendor.embedded()) == asked


async def test_a_reader_of_an_earlier_state_delays_it_and_nothing_else(apart, monkeypatch):
    monkeypatch.setattr(erasing, "_CHECKPOINT_PATIENCE_S", 0.2)
    note = fill(apart)
    await apart.synced()
    store = SqliteStore(apart.index)
    reader = connect_reader(apart.index)
    reader.execute("BEGIN; SELECT count(*) FROM chunks").fetchall()
    with store.writer() as writer:
        assert writer.files.remove("memory", "memory/secret.md")
    assert note.exists()
    assert not store.erase_deleted()
    assert is_due(store)
    reader.close()
    assert store.erase_deleted()
    assert files_with(below(apart), *TRACES) == set()
    store.close()


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_is_written_and_deleted_nothing_of_it_stays(apart, seed):
    rnd = random.Random(seed)
    words = [
        "".join(rnd.choices("abcdefghijklmnopqrstuvwxyz", k=rnd.randint(3, 9))) for _ in range(900)
    ]
    live, dead, made = {}, set(), 0
    store = None
    async with apart.open() as backend:
        store = backend._store  # the same file must not be opened twice
        for turn in range(60):
            for _ in range(rnd.randint(1, 6)):
                path = f"memory/{rnd.randrange(12)}.md"
                lines = live.setdefault(path, {})
                if lines and rnd.random() < 0.5:
                    mark = rnd.choice(list(lines))
                    del lines[mark]
                    dead.add(mark)
                else:
                    made += 1
                    mark = f"mark{seed}x{made:05d}q"
                    lines[mark] = " ".join(rnd.choices(words, k=rnd.choice([3, 30, 300])))
                text = "\n\n".join(f"- {mark} {line}" for mark, line in lines.items())
                apart.write(path, text) if lines else (apart.workspace / path).unlink(
                    missing_ok=True
                )
            await backend.sync(SyncRequest())
            if turn % 10 == 9:
                with anyio.fail_after(60):
                    while not store.erase_deleted():
                        await anyio.sleep(0.01)
                assert not has_residue(apart.index)
                assert files_with(below(apart), *dead, *(mark[::-1] for mark in dead)) == set()
    assert len(dead) > 50


async def test_what_moves_from_page_to_page_leaves_residue_which_is_seen_and_goes(tmp_path):
    """Without it the file is not rewritten: that would take time in proportion to its size."""
    store, rnd = SqliteStore(tmp_path / "main.sqlite"), random.Random(1)
    rows, number, seen = [], 0, False
    while not seen and number < 20_000:
        with store.writing() as connection:
            for _ in range(8):
                if rows and rnd.random() < 0.45:
                    key = rows.pop(rnd.randrange(len(rows)))
                    connection.execute("DELETE FROM meta WHERE key = ?", (key,))
                number += 1
                rows.append(f"{rnd.random()} row")
                value = f"text {number} " * rnd.choice([1, 9, 90])
                connection.execute("INSERT INTO meta VALUES (?, ?)", (rows[-1], value))
            erasing.mark_deletion(connection)
        with store.alone() as connection:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        seen = has_residue(store.path)
    assert seen
    assert store.erase_deleted()
    assert not has_residue(store.path)
    store.close()


@pytest.mark.parametrize(("kind", "is_seen"), [(5, False), (13, True), (10, True)])
async def test_residue_is_what_can_be_text_and_not_the_numbers_in_inner_pages_of_tables(
    tmp_path, kind, is_seen
):
    """An index of a million chunks would be rewritten after every deletion."""
    store = SqliteStore(tmp_path / "main.sqlite")
    with store.writing() as connection:
        rows = ((f"row {number}", "text " * 30) for number in range(5_000))
        connection.execute("CREATE TABLE filled (key TEXT UNIQUE, value TEXT)")
        connection.executemany("INSERT INTO filled VALUES (?, ?)", rows)
        page_bytes = connection.pragma("page_size")
    assert store.rewrite(gives_way=False)
    store.close()
    assert not has_residue(store.path)
    data = bytearray(store.path.read_bytes())
    page = next(
        place
        for place in range(page_bytes, len(data), page_bytes)
        if data[place] == kind and _gap(data, place)[1] - _gap(data, place)[0] > 8
    )
    start, _ = _gap(data, page)
    data[start : start + 6] = b"secret"
    store.path.write_bytes(data)
    assert has_residue(store.path) == is_seen


def _gap(data, page):
    """Where the unused bytes of a page begin and end, between its pointers and its cells."""
    cells = int.from_bytes(data[page + 3 : page + 5], "big")
    header = 12 if data[page] in (2, 5) else 8
    return page + header + 2 * cells, page + int.from_bytes(data[page + 5 : page + 7], "big")


def with_residue(path, monkeypatch):
    """Returns an index whose file has to be rewritten."""
    store = SqliteStore(path)
    with store.writing() as connection:
        values = ((f"row {number}", "text " * 300) for number in range(2_000))
        connection.executemany("INSERT INTO meta VALUES (?, ?)", values)
        erasing.mark_deletion(connection)
    monkeypatch.setattr(erasing, "has_residue", lambda _: True)
    return store


async def test_a_large_file_is_not_rewritten_while_somebody_waits_to_write(tmp_path, monkeypatch):
    store = with_residue(tmp_path / "main.sqlite", monkeypatch)
    written = []

    def write():
        with store.writing(WAIT_S) as connection:
            written.append(connection.execute("SELECT count(*) FROM deletions").get)

    @contextlib.contextmanager
    def alone(*patience_s):
        with SqliteStore.alone(store, *patience_s) as connection:
            writer.start()
            ends = time.monotonic() + WAIT_S
            while not store._waiting and time.monotonic() < ends:
                time.sleep(0.001)
            yield connection

    with contextlib.closing(store):
        writer = threading.Thread(target=write)
        monkeypatch.setattr(store, "alone", alone)
        monkeypatch.setattr(store_module, "LARGE_BYTES", 0)
        assert not store.rewrite(gives_way=True)
        writer.join(WAIT_S)
        assert written == [1], "it is written although the rewriting was not done"
        monkeypatch.undo()
        assert store.erase_deleted(at_once=True)
        assert not is_due(store)


async def test_a_file_that_is_rewritten_at_once_is_finished_first(tmp_path, monkeypatch):
    store = with_residue(tmp_path / "main.sqlite", monkeypatch)
    monkeypatch.setattr(store_module, "LARGE_BYTES", 0)
    monkeypatch.setattr(store, "_waiting", 1)
    with contextlib.closing(store):
        assert not store.erase_deleted()
        assert is_due(store)
        assert store.erase_deleted(at_once=True)
        assert not is_due(store)


async def test_a_vector_that_is_in_use_again_when_unused_ones_are_deleted_stays(
    embedding_home, embedded, vectors_in, monkeypatch
):
    """They are looked for while others may write, since that takes seconds in an index of a million."""
    home = embedding_home
    fill(home, 3)
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
    before = sum(vectors_in(home.index).values())
    store = SqliteStore(home.index)
    with store.writing() as connection:
        connection.execute(
            "UPDATE embeddings SET text_hash = CAST(text_hash || x'00' AS BLOB) WHERE id < 3"
        )
        erasing.mark_deletion(connection)

    readings = []

    @contextlib.contextmanager
    def reading():
        with SqliteStore.reading(store) as connection:
            yield connection
        readings.append(connection)
        if len(readings) == 2:  # the first one only asks whether there is something to erase
            with SqliteStore.writing(store) as connection:
                connection.execute(
                    "UPDATE embeddings SET text_hash = substr(text_hash, 1, length(text_hash) - 1) WHERE id = 1"
                )

    with contextlib.closing(store):
        monkeypatch.setattr(store, "reading", reading)
        assert store.erase_deleted()
    assert sum(vectors_in(home.index).values()) == before - 1


LOOK = """
import sys
from pathlib import Path
from backends.builtin.store.sqlite.store import look_into_file
with look_into_file(Path(sys.argv[1])) as view:
    print(view.remembered("word"))
"""


@pytest.mark.parametrize("look", [judge, lambda path: search_files(path, [b"not there"])])
def test_whoever_looks_at_its_own_index_keeps_its_locks(tmp_path, look):
    """Closing a descriptor of our own would drop them, and the next process would remove the log (POSIX)."""
    store = SqliteStore(tmp_path / "index.sqlite")

    def looked() -> str:
        command = [sys.executable, "-c", LOOK, str(store.path)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    with store.writer() as writer:
        writer.remember("word", "before")
    assert looked() == "before"
    look(store.path)
    assert looked() == "before"
    with store.writer() as writer:
        writer.remember("word", "after")
    assert looked() == "after"
    assert store.scrub()
    store.close()


async def test_a_vector_that_arrives_after_its_note_was_deleted_and_erased_is_erased_too(home):
    note = home.write("memory/secret.md", f"- the password is {PASSWORD}\n")
    await home.synced()
    store = SqliteStore(home.index)
    fingerprint = Fingerprint(provider="openai", model="small", endpoint="http://127.0.0.1")
    with store.view() as view:
        ((text_hash, _),) = view.embeddings.backlog(fingerprint)
    note.unlink()
    with store.writer() as writer:
        assert writer.files.remove("memory", "memory/secret.md")
    assert store.erase_deleted()
    with store.writer() as writer:
        writer.embeddings.put(fingerprint, [(text_hash, array("f", [1.0, 0.0]))])
    assert is_due(store)
    assert store.erase_deleted()
    with contextlib.closing(connect_reader(store.path)) as connection:
        assert connection.execute("SELECT count(*) FROM embeddings").get == 0
    store.close()
