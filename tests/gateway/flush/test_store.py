"""The record of flushes beside the chat gateway's data in `sessions.json`."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
import time

import pytest

from backends.interface import FileUnreadableError, FileUnwritableError
from gateway import flush
from gateway.flush import SessionState, SessionStore, lock_file

KEY = "agent:main:main"


def store_of(sessions):
    """Returns the store of an agent whose chat gateway keeps its file in this directory."""
    return SessionStore(sessions, sessions.parent / "memory-gateway/flushes.json")


@pytest.fixture
def sessions(tmp_path):
    return tmp_path / "sessions"


@pytest.fixture
def file(sessions):
    sessions.mkdir()
    path = sessions / "sessions.json"
    path.write_text(
        json.dumps({
            KEY: {
                "sessionId": "one", "totalTokens": 5, "contextTokens": 9, "compactionCount": 2,
                "memoryFlushCompactionCount": 1, "deep": {"é": ["\ud83d\ude00", None, 1.5]},
            },
            "agent:main:other": {"sessionId": "two"},
        }),
        encoding="utf-8",
    )  # fmt: skip
    return path


def test_nothing_is_known_where_there_is_no_file(sessions):
    assert store_of(sessions).state(KEY) == SessionState()


def test_the_numbers_of_a_session_are_read(sessions, file):
    assert store_of(sessions).state("  Agent:MAIN:main ") == SessionState(5, 9, 2, 1)
    assert store_of(sessions).state("agent:main:unknown") == SessionState()


def test_a_flush_is_recorded_and_everything_else_is_as_it_was(sessions, file):
    before = json.loads(file.read_bytes())
    file.chmod(0o640)
    started = int(time.time() * 1000)
    assert store_of(sessions).record_flush(KEY, None) == 2
    after = json.loads(file.read_bytes())
    assert started <= after[KEY].pop("memoryFlushAt") <= time.time() * 1000
    assert after[KEY].pop("memoryFlushCompactionCount") == 2
    del before[KEY]["memoryFlushCompactionCount"]
    assert after == before
    assert list(after) == list(before)
    assert file.stat().st_mode & 0o777 == 0o640
    assert [one.name for one in sessions.iterdir()] == ["sessions.json"]


def test_the_callers_count_wins(sessions, file):
    assert store_of(sessions).record_flush(KEY, 7) == 7
    assert store_of(sessions).state(KEY).flushed_at_count == 7


def test_a_session_that_the_chat_gateway_never_wrote_down_is_recorded_too(sessions, file):
    assert store_of(sessions).record_flush("Agent:Main:New", None) == 0
    assert store_of(sessions).state("agent:main:new").flushed_at_count == 0
    assert set(json.loads(file.read_bytes())) == {KEY, "agent:main:other", "agent:main:new"}


def test_where_the_chat_gateway_has_no_file_none_is_made_and_the_record_is_our_own(sessions):
    sessions.mkdir()
    assert store_of(sessions).record_flush("Agent:Main:Main", None) == 0
    assert store_of(sessions).state(KEY).flushed_at_count == 0
    assert list(sessions.iterdir()) == []
    own = sessions.parent / "memory-gateway/flushes.json"
    assert own.stat().st_mode & 0o777 == 0o600
    assert own.parent.stat().st_mode & 0o777 == 0o700


def test_a_link_to_the_file_stays_a_link(sessions, file, tmp_path):
    real = tmp_path / "elsewhere.json"
    file.rename(real)
    file.symlink_to(real)
    store_of(sessions).record_flush(KEY, 4)
    assert file.is_symlink()
    assert json.loads(real.read_bytes())[KEY]["memoryFlushCompactionCount"] == 4


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"a": 1}', b"\xff", b"[" * 100_000])
def test_a_file_that_is_not_as_expected_is_never_overwritten(sessions, file, content):
    file.write_bytes(content)
    store = store_of(sessions)
    with pytest.raises(FileUnreadableError, match=r"sessions\.json cannot be used"):
        store.state(KEY)
    with pytest.raises(FileUnreadableError):
        store.record_flush(KEY, 1)
    assert file.read_bytes() == content


@pytest.mark.parametrize("value", [None, "5", True, -1, [], float("inf")])
def test_what_is_no_count_is_not_known(sessions, file, value):
    file.write_text(json.dumps({KEY: {"totalTokens": value}}), encoding="utf-8")
    assert store_of(sessions).state(KEY).total_tokens is None


def test_writers_that_keep_to_the_lock_lose_nothing(sessions, file, monkeypatch):
    """The other writer is a process of its own that adds sessions as a chat gateway does."""
    monkeypatch.setattr(flush, "LOCK_TIMEOUT_S", 120.0)  # for a slow disk
    script = """
import json, os, sys, time
path, lock = sys.argv[1], sys.argv[1] + ".lock"
for number in range(60):
    while True:
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL)); break
        except FileExistsError:
            time.sleep(0.001)
    entries = json.load(open(path, encoding="utf-8"))
    entries[f"agent:main:new-{number}"] = {"sessionId": str(number)}
    with open(path + ".new", "w", encoding="utf-8") as file: json.dump(entries, file)
    os.replace(path + ".new", path); os.unlink(lock)
"""
    other = subprocess.Popen([sys.executable, "-c", script, str(file)])
    store = store_of(sessions)
    threads = [
        threading.Thread(target=lambda n=n: [store.record_flush(f"mine-{n}", i) for i in range(15)])
        for n in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert other.wait(120) == 0
    entries = json.loads(file.read_bytes())
    assert sum(name.startswith("agent:main:new-") for name in entries) == 60
    assert [entries[f"mine-{n}"]["memoryFlushCompactionCount"] for n in range(3)] == [14] * 3


def test_a_lock_that_its_owner_left_behind_is_removed(sessions, file):
    lock = sessions / "sessions.json.lock"
    lock.touch()
    an_hour_ago = time.time() - 3600
    os.utime(lock, (an_hour_ago, an_hour_ago))
    assert store_of(sessions).record_flush(KEY, 3) == 3
    assert not lock.exists()


def test_a_lock_that_stays_held_is_an_error_that_changes_nothing(sessions, file, monkeypatch):
    monkeypatch.setattr(flush, "LOCK_TIMEOUT_S", 0.1)
    before = file.read_bytes()
    with (
        lock_file(sessions / "sessions.json.lock", timeout_s=1),
        pytest.raises(FileUnwritableError, match="stayed locked"),
    ):
        store_of(sessions).record_flush(KEY, 3)
    assert file.read_bytes() == before


def test_a_lock_that_a_full_disk_left_empty_is_in_nobodys_way(sessions, file, monkeypatch):
    def fail(*_arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(flush.json, "dump", fail)
    lock = sessions / "sessions.json.lock"
    with pytest.raises(OSError, match="No space"), lock_file(lock, timeout_s=1):
        pass
    assert not lock.exists()


def test_a_place_that_cannot_be_written_to_is_an_error(tmp_path):
    (tmp_path / "sessions").mkdir()
    (tmp_path / "sessions/sessions.json").mkdir()
    with pytest.raises(FileUnreadableError, match="Is a directory"):
        store_of(tmp_path / "sessions").record_flush(KEY, 1)


@pytest.mark.parametrize(
    ("session_id", "size"), [("abc-1", 7), ("../abc-1", None), ("gone", None), (5, None)]
)
def test_the_size_of_a_transcript_is_that_of_the_sessions_own_file(tmp_path, session_id, size):
    folder = tmp_path / "sessions"
    folder.mkdir()
    (folder / "abc-1.jsonl").write_text("1234567", encoding="utf-8")
    (tmp_path / "abc-1.jsonl").write_text("elsewhere", encoding="utf-8")
    entries = {"agent:main:main": {"sessionId": session_id}}
    (folder / "sessions.json").write_text(json.dumps(entries), encoding="utf-8")
    assert (
        SessionStore(folder, tmp_path / "own.json").state("agent:main:main").transcript_bytes
        == size
    )


def test_every_byte_but_our_members_stays_as_the_chat_gateway_wrote_it(tmp_path):
    path = tmp_path / "sessions/sessions.json"
    path.parent.mkdir()
    digits = "9" * 5000
    before = (
        '{\n  "Agent:Main:main": {\n    "a": 1e999, "b":-0.0, "c": 1.50,\n'
        f'    "d": {digits}, "e": "\\u00e4\\/", "compactionCount": 3\n  }},\n'
        '  "other" : {"n": 12345678901234567890.10}\n}\n'
    )
    path.write_text(before, encoding="utf-8")
    store = SessionStore(path.parent, tmp_path / "own.json")
    assert store.record_flush("agent:main:main", None) == 3
    after = path.read_text(encoding="utf-8")
    lines = after.splitlines(keepends=True)
    assert [line for line in lines if "memoryFlush" not in line] == before.splitlines(keepends=True)
    assert store.state("agent:main:main").flushed_at_count == 3
    assert store.record_flush("agent:main:main", 4) == 4
    assert store.record_flush("new", 1) == 1
    assert [store.state(name).flushed_at_count for name in ("agent:main:main", "new")] == [4, 1]
    kept = [
        line
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True)
        if "memoryFlush" not in line
    ]
    assert kept == before.splitlines(keepends=True)


@pytest.mark.parametrize(
    "text", ["", " ", "{}", "{ }\n", '{"s": {}}', '{"s":{"memoryFlushAt":1}}', "\ufeff{}"]
)
def test_a_record_fits_into_every_shape_of_the_file(tmp_path, text):
    path = tmp_path / "sessions/sessions.json"
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    store = SessionStore(path.parent, tmp_path / "own.json")
    assert store.record_flush("s", 2) == 2
    assert store.state("s").flushed_at_count == 2
    assert list(json.loads(path.read_bytes())) == ["s"]


def test_a_record_whose_directory_cannot_be_made_says_so(tmp_path):
    (tmp_path / "memory-gateway").touch()
    with pytest.raises(FileUnwritableError, match=r"flushes\.json cannot be written"):
        store_of(tmp_path / "sessions").record_flush(KEY, 1)


def test_a_pipe_in_the_place_of_the_file_is_named(sessions, monkeypatch):
    monkeypatch.setattr(flush.read_file, "__kwdefaults__", {"patience_s": 0.05})
    sessions.mkdir()
    os.mkfifo(sessions / "sessions.json")
    with pytest.raises(
        FileUnreadableError, match="it is not a regular file and did not end within"
    ):
        store_of(sessions).state(KEY)


def test_a_record_that_nobody_waits_for_any_more_is_not_made(file, sessions):
    before = file.read_bytes()
    with pytest.raises(FileUnwritableError, match="nobody waits"):
        store_of(sessions).record_flush(KEY, 3, lambda: False)
    assert file.read_bytes() == before
