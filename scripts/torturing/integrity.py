"""Looks into an index file from outside and has each of its parts checked, without mending anything.

Owns what must hold among tables and vectors, beyond the checks that `benchmarks.index_files` has.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

import apsw

from benchmarks.index_files import copied, table_faults

LENGTH_TOLERANCE: Final = 2e-3
COSINE_TOLERANCE: Final = 1e-5
"""A hundred times what single precision costs; random models have texts that are no farther than 1e-4."""
_NUMBER_BYTES: Final = 4
_COUNTS: Final = {
    "an excerpt lies outside of its chunk": "SELECT count(*) FROM excerpts AS x"
    ' JOIN chunks AS c ON c.id = x.chunk_id WHERE x."end" > length(c.text) AND instr(c.text, char(0)) = 0',
    "a text waits for a job that is closed or gone": "SELECT count(*) FROM batch_items AS b"
    " WHERE NOT EXISTS (SELECT 1 FROM batch_jobs AS j WHERE j.id = b.job_id AND j.state != 'closed')",
}
_VECTORS: Final = (
    "SELECT e.text_hash, f.dimensions, e.vector FROM embeddings AS e"
    " JOIN fingerprints AS f ON f.id = e.fingerprint_id"
)
_TEXTS: Final = (
    'SELECT x.text_hash, substr(c.text, x.start + 1, x."end" - x.start)'
    " FROM excerpts AS x JOIN chunks AS c ON c.id = x.chunk_id"
)


def published(index: Path) -> dict[str, bytes]:
    """Content hash by path, of the files that an index holds. One that is not there holds none."""
    if not index.exists():
        return {}
    with copied(index) as copy, closing(apsw.Connection(str(copy))) as db:
        return dict(db.execute("SELECT path, content_hash FROM files"))


def texts(index: Path) -> dict[bytes, str]:
    """What is to have a vector, by its hash; nothing of an index that cannot be read."""
    with suppress(apsw.Error), copied(index) as copy, closing(apsw.Connection(str(copy))) as db:
        return dict(db.execute(_TEXTS))
    return {}


def damage(index: Path) -> list[str]:
    """What is wrong with an index as it lies there, level or not."""
    if not index.exists():
        return []
    with copied(index) as copy:
        return list(integrity_faults(copy))


def integrity_faults(
    index: Path, *, expected: Callable[[str], Sequence[float]] | None = None
) -> Iterator[str]:
    """Checks a copy. `expected` gives the vector that belongs to a text, in any length."""
    try:
        with closing(apsw.Connection(str(index))) as db:
            yield from _tables(db)
            yield from _vectors(db, expected)
    except apsw.Error as error:
        yield f"{type(error).__name__}: {error}"


def _tables(db: apsw.Connection) -> Iterator[str]:
    yield from table_faults(db)
    for fault, query in _COUNTS.items():
        if count := db.execute(query).get:
            yield f"{fault} ({count} times)"


def _vectors(
    db: apsw.Connection, expected: Callable[[str], Sequence[float]] | None
) -> Iterator[str]:
    embedded = dict(db.execute(_TEXTS)) if expected else {}
    for text_hash, dimensions, blob in db.execute(_VECTORS):
        if len(blob) != dimensions * _NUMBER_BYTES:
            yield f"a vector of {len(blob)} bytes among those of {dimensions} dimensions"
            continue
        vector = struct.unpack(f"<{dimensions}f", blob)
        if not abs(math.hypot(*vector) - 1) <= LENGTH_TOLERANCE:
            yield f"a vector of length {math.hypot(*vector)}"
        elif (text := embedded.get(text_hash)) and not _is_parallel(vector, expected(text)):
            yield f"the vector of another text at {text[:60]!r}"


def _is_parallel(vector: Sequence[float], other: Sequence[float]) -> bool:
    product = sum(a * b for a, b in zip(vector, other, strict=True))
    return product >= (1 - COSINE_TOLERANCE) * math.hypot(*vector) * math.hypot(*other)
