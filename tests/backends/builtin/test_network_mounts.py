"""An index on a file system that other hosts may use, too."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from msgspec.structs import replace

from backends.builtin.store import opening
from backends.builtin.store.opening import doubt, host_name, viewpoint_of
from backends.builtin.store.sqlite import connections
from backends.builtin.store.sqlite.connections import connect_writer
from backends.builtin.store.sqlite.store import SqliteStore
from backends.files import scan
from backends.interface import IndexUnavailableError, SyncRequest

REPOSITORY = Path(__file__).resolve().parents[3]
WRITER = """
import sys
from contextlib import suppress
from pathlib import Path
from backends.builtin.store.port import PreparedFile, ReadFile
from backends.builtin.store.sqlite import connections
from backends.builtin.store.sqlite.store import SqliteStore
from backends.interface import IndexUnavailableError
from backends.files.scan import FoundFile

connections.shared_type = lambda directory: "nfs4"
store, name = SqliteStore(Path(sys.argv[1]), viewpoint=sys.argv[2]), sys.argv[2]
print("begun", flush=True)
input()
number = 0
while True:
    found = FoundFile(f"memory/{name}-{number}.md", 0, 5, 1, 1, number)
    with suppress(IndexUnavailableError), store.writer() as writer:
        writer.files.publish(ReadFile(found, b"hash", 1), "test", PreparedFile((), None, frozenset()))
        writer.remember(name, str(number))
        number += 1
    print(number, flush=True)
"""


@pytest.fixture
def shared(monkeypatch):
    """Makes every directory a network mount."""
    for module in (connections, scan):
        monkeypatch.setattr(module, "shared_type", lambda directory: "nfs4")


def test_it_is_kept_without_a_write_ahead_log_and_said_so(shared, tmp_path):
    path = tmp_path / "index.sqlite"
    with closing(SqliteStore(path)) as store:
        with store.view() as view:
            assert view.journal() == "delete"
        (note,) = store.notes
        assert "nfs4" in note and str(path) in note and "store.path" in note
        assert not path.with_name("index.sqlite-shm").exists()
    with closing(connect_writer(path)) as connection:
        assert connection.pragma("journal_mode") == "truncate"
        assert connection.pragma("synchronous") == 2


def test_one_that_came_from_a_local_disk_leaves_its_log_behind(tmp_path, monkeypatch):
    path = tmp_path / "index.sqlite"
    with closing(SqliteStore(path)) as store, store.view() as view:
        assert view.journal() == "wal"
    monkeypatch.setattr(connections, "shared_type", lambda directory: "nfs4")
    with closing(SqliteStore(path)) as store, store.view() as view:
        assert view.journal() == "delete"


def test_it_is_not_opened_while_somebody_uses_a_write_ahead_log(tmp_path, monkeypatch):
    path = tmp_path / "index.sqlite"
    with closing(SqliteStore(path)) as store, store.view() as view:
        view.probe()
        monkeypatch.setattr(connections, "shared_type", lambda directory: "nfs4")
        monkeypatch.setattr(connections, "PATIENCE_S", 0.1)
        with pytest.raises(IndexUnavailableError) as caught:
            SqliteStore(path)
        assert "Somebody else holds the index" in (caught.value.remedy or "")


def test_two_processes_that_write_without_a_log_lose_and_damage_nothing(tmp_path):
    path = tmp_path / "index.sqlite"
    hosts = {
        name: subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), name],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("one", "other")
    }
    try:
        for process in hosts.values():
            assert process.stdout.readline() == "begun\n"
        for process in hosts.values():
            process.stdin.write("go\n")
            process.stdin.flush()
        acknowledged = {
            name: next(number for number in map(int, process.stdout) if number >= 40)
            for name, process in hosts.items()
        }
    finally:
        for process in hosts.values():
            process.kill()  # in the middle of whatever it does
            process.communicate(timeout=60)
    with closing(apsw.Connection(str(path))) as connection:
        assert connection.execute("PRAGMA integrity_check").get == "ok"
        paths = {row[0] for row in connection.execute("SELECT path FROM files")}
        last = dict(connection.execute("SELECT key, value FROM meta"))
    for name, number in acknowledged.items():
        written = range(int(last[name]) + 1)
        assert len(written) >= number
        assert {path for path in paths if name in path} == {
            f"memory/{name}-{one}.md" for one in written
        }


def test_only_there_the_name_of_the_host_tells_viewpoints_apart(home, monkeypatch):
    assert viewpoint_of(home.settings) == ""
    assert doubt(home.settings) is None
    monkeypatch.setattr(scan, "shared_type", lambda directory: "nfs4")
    assert viewpoint_of(home.settings) == host_name() != ""
    search = home.settings.search
    named = replace(search.store, view="shared notes")
    home.settings = replace(home.settings, search=replace(search, store=named))
    assert viewpoint_of(home.settings) == "shared notes"


def test_hosts_of_one_name_are_told_apart_by_their_machine_id(tmp_path, monkeypatch):
    names = set()
    for text in ("", "4b1c\n", "77aa\n"):
        machine_id = tmp_path / "machine-id"
        machine_id.write_text(text, encoding="utf-8")
        monkeypatch.setattr(opening, "_MACHINE_ID", machine_id)
        names.add(host_name())
    monkeypatch.setattr(opening, "_MACHINE_ID", tmp_path / "absent")
    assert host_name() in names
    assert len(names) == 3


@pytest.mark.anyio
async def test_status_tells_of_it_and_searches_work(shared, home, paths_of):
    home.write("memory/a.md", "the boiler\n")
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        assert await paths_of(backend, "boiler") == ["memory/a.md"]
        status = await backend.status()
        assert status.details.journal == "delete"
        assert any("nfs4" in one for one in status.issues)
