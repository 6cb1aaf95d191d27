"""The database in which OpenClaw 2026.9.6 keeps its sessions, made and written as that release does it.

It has the tables that matter here, with the columns of the real ones. Run as a program it is a host that
keeps writing: see `main`.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import apsw

from config.paths import host_database

USER_VERSION = 23
_TABLES = """
CREATE TABLE session_nodes (
    session_key TEXT NOT NULL PRIMARY KEY, current_session_id TEXT NOT NULL, entry_json TEXT NOT NULL,
    updated_at INTEGER NOT NULL, parent_session_key TEXT, spawned_by TEXT, archived_at INTEGER
) STRICT;
CREATE TABLE session_windows (
    session_id TEXT NOT NULL PRIMARY KEY,
    session_key TEXT NOT NULL REFERENCES session_nodes (session_key) ON DELETE CASCADE,
    previous_session_id TEXT, reason TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,
    transcript_updated_at INTEGER, acp_owned INTEGER NOT NULL DEFAULT 0, plugin_owner_id TEXT,
    hook_external_content_source TEXT
) STRICT;
CREATE TABLE transcript_events (
    session_id TEXT NOT NULL REFERENCES session_windows (session_id) ON DELETE CASCADE,
    seq INTEGER NOT NULL, event_json TEXT, created_at INTEGER NOT NULL, event_zstd BLOB,
    event_utf8_bytes INTEGER, navigation_json TEXT, PRIMARY KEY (session_id, seq)
) STRICT;
CREATE TABLE transcript_rewrite_watermarks (
    session_id TEXT NOT NULL PRIMARY KEY REFERENCES session_windows (session_id) ON DELETE CASCADE,
    generation TEXT NOT NULL, updated_at INTEGER NOT NULL
) STRICT;
CREATE TABLE session_transcript_index_state (
    session_id TEXT NOT NULL PRIMARY KEY REFERENCES session_windows (session_id) ON DELETE CASCADE,
    indexed_seq INTEGER NOT NULL, leaf_event_id TEXT, needs_rebuild INTEGER NOT NULL DEFAULT 0,
    active_event_count INTEGER NOT NULL DEFAULT 0, updated_at INTEGER NOT NULL
) STRICT;
CREATE TABLE session_transcript_active_events (
    session_id TEXT NOT NULL, active_position INTEGER NOT NULL, event_seq INTEGER NOT NULL,
    PRIMARY KEY (session_id, active_position),
    FOREIGN KEY (session_id, event_seq) REFERENCES transcript_events (session_id, seq) ON DELETE CASCADE
) STRICT;
CREATE UNIQUE INDEX active_seq ON session_transcript_active_events (session_id, event_seq);
CREATE TABLE memory_session_tombstones (
    session_id TEXT NOT NULL PRIMARY KEY, agent_id TEXT NOT NULL, reason TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
"""


class HostDatabase:
    """Open for writing until it is closed. SQLite does not wait here: being locked out is an error."""

    def __init__(self, state: Path, agent: str = "main") -> None:
        self.path = host_database(state, agent)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not self.path.exists()
        self.db = apsw.Connection(str(self.path))
        if is_new:
            assert self.db.execute("PRAGMA journal_mode = WAL").get == "wal"
            with self.db:
                self.db.execute(_TABLES)
                self.db.execute(f"PRAGMA user_version = {USER_VERSION}")
        self.db.execute("PRAGMA foreign_keys = ON")

    def close(self) -> None:
        self.db.close()

    def has_session(self, name: str) -> bool:
        rows = self.db.execute("SELECT 1 FROM session_windows WHERE session_id = ?", (name,))
        return rows.fetchone() is not None

    def session(self, name: str = "one", key: str = "agent:main:main", **window: Any) -> Session:
        """Begins a session, which becomes the current one of its key."""
        node = {name: window.pop(name) for name in ("spawned_by", "archived_at") if name in window}
        now = _now()
        with self.db:
            self.insert(
                "session_nodes",
                {"session_key": key, "current_session_id": name, "entry_json": "{}",
                 "updated_at": now} | node,
                "ON CONFLICT (session_key) DO UPDATE SET current_session_id = ?2",
            )  # fmt: skip
            self.insert(
                "session_windows",
                {"session_id": name, "session_key": key, "created_at": now, "updated_at": now,
                 "transcript_updated_at": now} | window,
            )  # fmt: skip
            self.insert(
                "transcript_rewrite_watermarks",
                {"session_id": name, "generation": "first", "updated_at": now},
            )
            self.insert(
                "session_transcript_index_state",
                {"session_id": name, "indexed_seq": -1, "updated_at": now},
            )
        session = Session(self, name)
        session.add({"type": "session", "version": 4, "id": name, "cwd": "/w"}, active=False)
        return session

    def insert(self, table: str, row: dict[str, Any], conflict: str = "") -> None:
        places = ", ".join(f"?{number}" for number in range(1, len(row) + 1))
        sql = f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places}) {conflict}"
        self.db.execute(sql, tuple(row.values()))

    def forget(self, name: str) -> None:
        row = {"session_id": name, "agent_id": "main", "reason": "asked", "created_at": _now()}
        self.insert("memory_session_tombstones", row)


class Session:
    """One session. Each event is a transaction, as in the host."""

    def __init__(self, host: HostDatabase, name: str) -> None:
        self.host, self.name = host, name
        self.seq, self.leaf = -1, None
        self.clock_ms = _now()

    def add(self, event: dict[str, Any], *, active: bool = True, packed: bool = False) -> int:
        """Appends an event; returns its `seq`."""
        self.seq += 1
        self.clock_ms += 1
        event = {"id": f"{self.name}-{self.seq}", "parentId": self.leaf} | event
        text = json.dumps(event, ensure_ascii=False)
        row = {"session_id": self.name, "seq": self.seq, "created_at": self.clock_ms}
        if packed:
            data = text.encode()
            row |= {
                "event_zstd": pack(data),
                "event_utf8_bytes": len(data),
                "navigation_json": "{}",
            }
        else:
            row |= {"event_json": text, "event_utf8_bytes": len(text.encode())}
        db = self.host.db
        with db:
            self.host.insert("transcript_events", row)
            if active:
                self.leaf = event["id"]
                db.execute(
                    "INSERT INTO session_transcript_active_events SELECT ?1,"
                    " ifnull(max(active_position) + 1, 0), ?2 FROM session_transcript_active_events"
                    " WHERE session_id = ?1",
                    (self.name, self.seq),
                )
            self._projected()
        return self.seq

    def say(self, text: str, role: str = "user", *, packed: bool = False, **message: Any) -> int:
        content: Any = text if role == "user" else [{"type": "text", "text": text}]
        return self.add(
            {"type": "message", "message": {"role": role, "content": content} | message},
            packed=packed,
        )

    def answer(self, text: str, *, packed: bool = False) -> int:
        return self.say(text, "assistant", packed=packed)

    def work(self, output: str) -> int:
        """Adds the output of a tool, which is no turn."""
        return self.say(output, "toolResult")

    def rewind(self, seq: int) -> None:
        """Continues the conversation after that event; later events are no longer part of it."""
        self.add({"type": "leaf", "targetId": f"{self.name}-{seq}"}, active=False)
        self.leaf = f"{self.name}-{seq}"
        with self.host.db as db:
            db.execute(
                "DELETE FROM session_transcript_active_events WHERE session_id = ? AND event_seq > ?",
                (self.name, seq),
            )
            self._projected()

    def rewrite(self, seq: int, text: str, generation: str = "second") -> None:
        """Changes a message, as the host does when it masks or shortens it."""
        db = self.host.db
        (event,) = db.execute(
            "SELECT event_json FROM transcript_events WHERE session_id = ? AND seq = ?",
            (self.name, seq),
        ).fetchone()
        event = json.loads(event)
        event["message"]["content"] = text
        with db:
            db.execute(
                "UPDATE transcript_events SET event_json = ? WHERE session_id = ? AND seq = ?",
                (json.dumps(event), self.name, seq),
            )
            db.execute(
                "UPDATE transcript_rewrite_watermarks SET generation = ? WHERE session_id = ?",
                (generation, self.name),
            )
            self._projected()

    def rebuilding(self, is_rebuilding: bool) -> None:
        sql = "UPDATE session_transcript_index_state SET needs_rebuild = ? WHERE session_id = ?"
        self.host.db.execute(sql, (is_rebuilding, self.name))

    def archive(self) -> None:
        sql = "UPDATE session_nodes SET archived_at = 1 WHERE current_session_id = ?"
        self.host.db.execute(sql, (self.name,))

    def cool(self) -> None:
        """Removes the session's events from their table, as the host moves those of an old session."""
        self.host.db.execute("DELETE FROM transcript_events WHERE session_id = ?", (self.name,))

    def delete(self) -> None:
        self.host.db.execute("DELETE FROM session_windows WHERE session_id = ?", (self.name,))

    def fall_silent(self) -> None:
        """Makes the last event an hour old."""
        self.clock_ms -= 3_600_000
        self.host.db.execute(
            "UPDATE session_windows SET transcript_updated_at = ? WHERE session_id = ?",
            (self.clock_ms, self.name),
        )

    def _projected(self) -> None:
        db = self.host.db
        db.execute(
            "UPDATE session_transcript_index_state SET indexed_seq = ?2, leaf_event_id = ?3,"
            " updated_at = ?4, active_event_count = (SELECT count(*) FROM"
            " session_transcript_active_events WHERE session_id = ?1) WHERE session_id = ?1",
            (self.name, self.seq, self.leaf, self.clock_ms),
        )
        db.execute(
            "UPDATE session_windows SET transcript_updated_at = ? WHERE session_id = ?",
            (self.clock_ms, self.name),
        )


def pack(data: bytes) -> bytes:
    """Compresses data as the host does: level 1, with a checksum."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    options = {
        int(zstd.CompressionParameter.compression_level): 1,
        int(zstd.CompressionParameter.checksum_flag): 1,
    }
    return zstd.compress(data, options=options)


def _now() -> int:
    return time.time_ns() // 1_000_000


def main(state: str, turns: str) -> None:
    """Writes that many turns, with checkpoints between them; prints the longest wait in milliseconds.

    The number of each turn is printed once it is committed. Ends with an error as soon as another process
    keeps it from writing.
    """
    host = HostDatabase(Path(state))
    host.db.wal_autocheckpoint(20)
    session = host.session()
    longest = 0.0
    for number in range(int(turns)):
        started = time.perf_counter()
        session.say(f"The turbine number{number} of the mill is blue.", packed=bool(number % 2))
        longest = max(longest, time.perf_counter() - started)
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
        if number % 50 == 49:
            host.db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    sys.stdout.write(f"longest {longest * 1000:.1f}\n")
    host.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
