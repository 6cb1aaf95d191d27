"""The tables of an index file, and the marks by which it is recognised."""

from __future__ import annotations

import re
from typing import Final

import apsw

APPLICATION_ID: Final = 0x4D47_4958
"""`MGIX`, in the database header at offset 68: the file is ours."""
SCHEMA_VERSION: Final = 7
"""`user_version`, in the header at offset 60."""
_SAME_VECTORS: Final = 5
"""The first version whose vectors and batch jobs are as they are today."""

_LASTING: Final = """
CREATE TABLE fingerprints (
    id INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,     -- provider, model, endpoint, dimensions, input types
    description TEXT NOT NULL,       -- the same as JSON, for people
    dimensions INTEGER NOT NULL
) STRICT;

CREATE TABLE embeddings (            -- the one durable copy of each vector
    id INTEGER PRIMARY KEY,
    fingerprint_id INTEGER NOT NULL REFERENCES fingerprints (id) ON DELETE CASCADE,
    text_hash BLOB NOT NULL,
    used_at_ms INTEGER NOT NULL,     -- 0: a chunk uses it; else since when none does
    vector BLOB NOT NULL,            -- float32, little-endian, length 1; last, for it is long
    UNIQUE (fingerprint_id, text_hash)
) STRICT;
CREATE INDEX embeddings_unused ON embeddings (used_at_ms) WHERE used_at_ms > 0;

CREATE TABLE embedding_failures (    -- texts that a provider refused; tried again later
    digest BLOB NOT NULL,            -- of the fingerprint, which may have no vector yet
    text_hash BLOB NOT NULL,
    reason TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    retry_at_ms INTEGER NOT NULL,    -- not offered again before
    PRIMARY KEY (digest, text_hash)
) STRICT, WITHOUT ROWID;

CREATE TABLE batch_jobs (            -- what was handed to a vendor's batch jobs; survives restarts
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    label TEXT NOT NULL UNIQUE,      -- random; names the job's file at the vendor
    digest BLOB NOT NULL,            -- of the fingerprint
    state TEXT NOT NULL,             -- prepared, uploaded, submitted, ended, read, closed
    items INTEGER NOT NULL,          -- texts it was made of
    stored INTEGER NOT NULL,         -- vectors that came of it
    refused INTEGER NOT NULL,        -- texts that the vendor refused or left out
    created_at_ms INTEGER NOT NULL,
    submitted_at_ms INTEGER,
    next_at_ms INTEGER NOT NULL,     -- nothing is asked before
    attempts INTEGER NOT NULL,       -- failed ones in this state
    cancelling INTEGER NOT NULL,     -- 1: the vendor is, or is to be, asked to stop it
    remote_id TEXT,
    remote_state TEXT,               -- the vendor's own word
    remote_done INTEGER NOT NULL,
    input_file TEXT,
    result_files TEXT NOT NULL,      -- ids, joined by spaces
    outcome TEXT,                    -- completed, failed, expired, cancelled, divided
    reason TEXT                      -- of its failure, or of the last error
) STRICT;
CREATE INDEX batch_jobs_open ON batch_jobs (digest) WHERE state != 'closed';

CREATE TABLE batch_items (           -- texts that wait for a job; no other request offers them
    digest BLOB NOT NULL,
    text_hash BLOB NOT NULL,
    job_id INTEGER NOT NULL REFERENCES batch_jobs (id) ON DELETE CASCADE,
    PRIMARY KEY (digest, text_hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX batch_items_by_job ON batch_items (job_id);

CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
"""
"""The tables that cannot be filled again from files."""
_DERIVED: Final = """
CREATE TABLE files (
    id INTEGER PRIMARY KEY,
    source TEXT NOT NULL,
    path TEXT NOT NULL,
    size INTEGER NOT NULL,           -- this and the stamps are those of the copy that was published
    mtime_ns INTEGER NOT NULL,
    ctime_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    content_hash BLOB NOT NULL,
    pipeline TEXT NOT NULL,          -- chunking and analyser that made the chunks
    note_date TEXT,                  -- ISO date in the file's name, or in its front matter
    chunk_count INTEGER NOT NULL,
    read_at_ns INTEGER NOT NULL,     -- clock just before the file was read
    UNIQUE (source, path)
) STRICT;

CREATE TABLE chunks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- never given twice: the resident vectors know it
    file_id INTEGER NOT NULL REFERENCES files (id) ON DELETE CASCADE,
    start INTEGER NOT NULL,          -- offset in the file's text, in characters
    start_line INTEGER NOT NULL,
    end_line INTEGER NOT NULL,
    identity BLOB NOT NULL,          -- hash of everything that is stored for the chunk but its place
    text TEXT NOT NULL,
    words BLOB NOT NULL              -- its index terms and those of its context: see `words.py`
) STRICT;
CREATE INDEX chunks_by_file ON chunks (file_id, start);

CREATE TABLE excerpts (              -- the pieces of chunks that are embedded; they never overlap
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- never given twice: the resident vectors know it
    chunk_id INTEGER NOT NULL REFERENCES chunks (id) ON DELETE CASCADE,
    file_id INTEGER NOT NULL,
    start INTEGER NOT NULL,          -- characters of the chunk's text
    "end" INTEGER NOT NULL,
    line INTEGER NOT NULL,           -- of the first character, counted from 0 in the chunk
    text_hash BLOB NOT NULL          -- key of its embedding
) STRICT;
CREATE INDEX excerpts_by_chunk ON excerpts (chunk_id, start);
CREATE INDEX excerpts_by_file ON excerpts (file_id);
CREATE INDEX excerpts_by_text ON excerpts (text_hash, file_id);

CREATE TABLE transcript_parts (       -- what was taken in of each transcript, append by append
    file_id INTEGER NOT NULL REFERENCES files (id) ON DELETE CASCADE,
    end_byte INTEGER NOT NULL,       -- bytes of all entries up to the part's last one
    end_line INTEGER NOT NULL,       -- number of that entry: its line, or its place in the database
    end_turn INTEGER NOT NULL,       -- turns up to there: lines of the text that is chunked
    end_char INTEGER NOT NULL,       -- characters of that text up to there
    first_turn INTEGER NOT NULL,     -- of this part, counted from 1 through the transcript
    lines BLOB NOT NULL,             -- number of the entry of each turn, 32-bit little-endian
    digest BLOB NOT NULL,            -- of the part's entries
    tail BLOB NOT NULL,              -- of what stands just before its end
    superseded INTEGER NOT NULL,     -- 1: of an earlier pass; answers until it is replaced
    PRIMARY KEY (file_id, end_byte)
) STRICT;

CREATE VIRTUAL TABLE chunk_terms USING fts5 (
    body, context,
    content = '', contentless_delete = 1,
    tokenize = "ascii tokenchars '_'"
);

CREATE TABLE file_languages (        -- in which the texts of a file were stemmed
    language TEXT NOT NULL,
    file_id INTEGER NOT NULL REFERENCES files (id) ON DELETE CASCADE,
    PRIMARY KEY (language, file_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX file_languages_by_file ON file_languages (file_id);

CREATE TABLE note_facts (            -- what a note says of itself, if it says anything
    file_id INTEGER PRIMARY KEY REFERENCES files (id) ON DELETE CASCADE,
    title TEXT NOT NULL,
    aliases TEXT NOT NULL,           -- joined by U+001F, as tags
    tags TEXT NOT NULL,
    encoding TEXT NOT NULL           -- empty for UTF-8
) STRICT;

CREATE TABLE viewpoints (            -- the hosts that share the index
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    used_at_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE stamps (                -- each viewpoint's copy of a file when it was last read
    file_id INTEGER NOT NULL REFERENCES files (id) ON DELETE CASCADE,
    viewpoint_id INTEGER NOT NULL REFERENCES viewpoints (id) ON DELETE CASCADE,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    ctime_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    read_at_ns INTEGER NOT NULL,     -- clock just before it was read
    content_hash BLOB NOT NULL,      -- of that copy, which need not be the one that is indexed
    PRIMARY KEY (file_id, viewpoint_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE stamps_version (        -- one row: another number after each change of the stamps
    number INTEGER NOT NULL
) STRICT;
INSERT INTO stamps_version SELECT random() >> 1;
CREATE TRIGGER stamp_written AFTER INSERT ON stamps
    BEGIN UPDATE stamps_version SET number = number + 1; END;
CREATE TRIGGER stamp_deleted AFTER DELETE ON stamps
    BEGIN UPDATE stamps_version SET number = number + 1; END;
CREATE TRIGGER file_deleted AFTER DELETE ON files
    BEGIN UPDATE stamps_version SET number = number + 1; END;

CREATE TABLE word_ends (             -- the long words of all chunks, each once
    backwards TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;
"""
_DELETIONS: Final = """
CREATE TABLE deletions (             -- a row while something was deleted that is not erased yet
    at_ns INTEGER NOT NULL           -- the last time; 0: nobody knows what was, as in earlier releases
) STRICT;
"""
_OF_FILES: Final = (
    "devices",
    "missed",
    "workspace",
    "sessions",
    "sessions of the host",
    "sessions of Claude Code",
)
"""The keys of what earlier releases remembered of the files that they had indexed."""
_TABLE: Final = re.compile(r"CREATE (?:VIRTUAL )?TABLE (\w+)")


def create(connection: apsw.Connection) -> None:
    """Makes the tables and the marks in an empty database, in one transaction."""
    with connection:
        connection.execute(_LASTING + _DERIVED)
        connection.execute(_DELETIONS)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def empty(connection: apsw.Connection) -> bool:
    """Empties an index of an earlier release except for its vectors, in one transaction.

    Returns False if that cannot be done: the index is then unchanged.
    """
    if connection.pragma("user_version") < _SAME_VECTORS or not _has(connection, _LASTING):
        return False
    with connection:
        for table in _TABLE.findall(_DERIVED):
            connection.execute(f"DROP TABLE IF EXISTS {table}")
        connection.execute("DROP TABLE IF EXISTS deletions")
        connection.execute(_DERIVED)
        connection.executemany("DELETE FROM meta WHERE key = ?", [(key,) for key in _OF_FILES])
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    return True


def know_deletions(connection: apsw.Connection) -> None:
    """Adds to an index of an earlier release the table that is needed to erase what it deleted."""
    if not _has(connection, _DELETIONS):
        with connection:
            connection.execute(_DELETIONS)
            connection.execute("INSERT INTO deletions VALUES (0)")


def is_complete(connection: apsw.Connection) -> bool:
    """Returns whether every table exists."""
    return _has(connection, _LASTING + _DERIVED)


def _has(connection: apsw.Connection, definitions: str) -> bool:
    present = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
    return present.issuperset(_TABLE.findall(definitions))
