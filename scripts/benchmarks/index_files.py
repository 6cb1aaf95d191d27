"""Looks into an index file from outside, without helping the gateway to recover it.

Works on a copy of the file and its write-ahead log, as a killed process left them.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import apsw

_EMBEDDED: Final = (
    'SELECT substr(c.text, x.start + 1, x."end" - x.start)'
    " FROM excerpts AS x JOIN chunks AS c ON c.id = x.chunk_id"
    " WHERE x.text_hash IN (SELECT text_hash FROM embeddings)"
)


class Content(NamedTuple):
    """What an index holds."""

    files: dict[str, bytes]
    """Content hash by path."""
    embedded: frozenset[str]
    """Texts whose vector is stored."""
    faults: tuple[str, ...]
    """What is wrong with it; empty for a sound index."""


def look_into(index: Path) -> Content:
    """An index that is not there is empty."""
    if not index.exists():
        return Content({}, frozenset(), ())
    with copied(index) as copy, closing(apsw.Connection(str(copy))) as db:
        try:
            return Content(
                dict(db.execute("SELECT path, content_hash FROM files")),
                frozenset(text for (text,) in db.execute(_EMBEDDED)),
                tuple(table_faults(db)),
            )
        except apsw.Error as error:
            return Content({}, frozenset(), (f"{type(error).__name__}: {error}",))


def rows(index: Path) -> list[tuple[object, ...]]:
    """All that search reads, in an order that does not depend on the history of the index."""
    with copied(index) as copy, closing(apsw.Connection(str(copy))) as db:
        return sorted(
            db.execute(
                "SELECT path, start, start_line, end_line, headings, text, terms"
                " FROM chunks JOIN files ON files.id = chunks.file_id"
            )
        )


@contextmanager
def copied(index: Path) -> Iterator[Path]:
    """A copy of the file and its log in a directory of its own."""
    with tempfile.TemporaryDirectory(prefix="index-copy-") as directory:
        for suffix in ("", "-wal", "-journal"):
            source = index.with_name(index.name + suffix)
            if source.exists():
                shutil.copy(source, directory)
        yield Path(directory) / index.name


def table_faults(db: apsw.Connection) -> Iterator[str]:
    """What SQLite and FTS5 find, and files that are there in part. `db` must be a copy: it is written."""
    if (verdict := db.execute("PRAGMA integrity_check").get) != "ok":
        yield f"integrity check: {verdict}"
    if (orphan := db.execute("PRAGMA foreign_key_check").get) is not None:
        yield f"foreign keys: {orphan}"
    db.execute("INSERT INTO chunk_terms (chunk_terms, rank) VALUES ('integrity-check', 1)")
    chunks = set(db.execute("SELECT id FROM chunks"))
    if chunks != set(db.execute("SELECT id FROM chunk_terms_docsize")):
        yield "chunks and terms disagree"
    stored = dict(db.execute("SELECT id, chunk_count FROM files WHERE chunk_count > 0"))
    if stored != dict(db.execute("SELECT file_id, count(*) FROM chunks GROUP BY 1")):
        yield "a file is there in part"
