"""Which excerpts have which vector, and in which file they are, as arrays and without the vectors.

Owns the statements that read this map from the database, whole or only what changed, and the arithmetic
on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

import apsw

from backends.builtin.storage.arrays import int64s

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_ROWS_AT_ONCE: Final = 65_536
"""Rows as Python objects take ten times the space of the arrays they become."""

_ALL: Final = """
    SELECT x.id, x.file_id, e.id
    FROM embeddings AS e CROSS JOIN excerpts AS x ON x.text_hash = e.text_hash
    WHERE e.fingerprint_id = :fingerprint
"""
_OF_NEW_EMBEDDINGS: Final = """
    SELECT x.id, x.file_id, e.id
    FROM embeddings AS e CROSS JOIN excerpts AS x ON x.text_hash = e.text_hash
    WHERE +e.fingerprint_id = :fingerprint AND e.id > :newest
"""
_OF_FILES: Final = """
    SELECT x.id, x.file_id, e.id
    FROM excerpts AS x CROSS JOIN embeddings AS e
        ON e.fingerprint_id = :fingerprint AND e.text_hash = x.text_hash
    WHERE x.file_id IN (SELECT value FROM carray(:files))
"""

_NEWER: Final = """
    SELECT x.id FROM excerpts AS x WHERE x.id > :newest_excerpt
    UNION SELECT x.id
    FROM embeddings AS e CROSS JOIN excerpts AS x ON x.text_hash = e.text_hash
    WHERE +e.fingerprint_id = :fingerprint AND e.id > :newest_embedding
    LIMIT :limit
"""

FileMarks = Mapping[int, int]
"""By file id, something that changes whenever the excerpts of the file do."""


@dataclass(frozen=True, slots=True, eq=False)
class Members:
    """Three arrays side by side, in the order of the excerpt ids."""

    excerpts: NDArray[np.int64]
    files: NDArray[np.int64]
    embeddings: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.excerpts)

    @property
    def nbytes(self) -> int:
        return self.excerpts.nbytes + self.files.nbytes + self.embeddings.nbytes

    def only(self, mask: NDArray[np.bool_]) -> Members:
        return Members(self.excerpts[mask], self.files[mask], self.embeddings[mask])

    def outside(self, files: Iterable[int]) -> Members:
        """Without the excerpts of those files."""
        import numpy as np  # noqa: PLC0415 - only the resident engine needs it

        return self.only(~np.isin(self.files, list(files)))


def file_marks(connection: apsw.Connection) -> FileMarks:
    """The marks of all files. What a file's excerpts are follows from its content and the pipeline."""
    return {
        file_id: hash((content_hash, pipeline))
        for file_id, content_hash, pipeline in connection.execute(
            "SELECT id, content_hash, pipeline FROM files"
        )
    }


def all_members(connection: apsw.Connection, fingerprint_id: int) -> Members:
    return _united(_read(connection, _ALL, {"fingerprint": fingerprint_id}))


def updated_members(
    connection: apsw.Connection,
    fingerprint_id: int,
    known: Members,
    *,
    changed_files: Sequence[int],
    gone_files: Iterable[int],
    newest_embedding: int,
) -> Members:
    """`known`, level with the database; `newest_embedding` is the highest id that it was read with."""
    parameters = {
        "fingerprint": fingerprint_id,
        "newest": newest_embedding,
        "files": int64s(changed_files),
    }
    kept = known.outside({*changed_files, *gone_files})
    return _united(
        [
            *_read(connection, _OF_NEW_EMBEDDINGS, parameters),
            *_read(connection, _OF_FILES, parameters),
            kept,
        ]
    )


def newest_excerpt(connection: apsw.Connection) -> int:
    """The highest id that any excerpt ever had; none is given twice."""
    newest: int | None = connection.execute(
        "SELECT seq FROM sqlite_sequence WHERE name = 'excerpts'"
    ).get
    return newest or 0


def newer_excerpts(
    connection: apsw.Connection,
    fingerprint_id: int,
    *,
    newest_excerpt: int,
    newest_embedding: int,
    limit: int,
) -> list[int]:
    """Ids of up to `limit` excerpts that came, or whose vector came, after both of those numbers."""
    parameters = {
        "fingerprint": fingerprint_id,
        "newest_excerpt": newest_excerpt,
        "newest_embedding": newest_embedding,
        "limit": limit,
    }
    return [excerpt_id for (excerpt_id,) in connection.execute(_NEWER, parameters)]


def _read(
    connection: apsw.Connection, statement: str, parameters: Mapping[str, object]
) -> Iterator[Members]:
    import numpy as np  # noqa: PLC0415 - only the resident engine needs it

    rows = connection.execute(statement, parameters)
    while block := list(islice(rows, _ROWS_AT_ONCE)):
        yield Members(*np.array(block, np.int64).T)


def _united(parts: Iterable[Members]) -> Members:
    """All parts together; of an excerpt that is in several, what the first of them says."""
    import numpy as np  # noqa: PLC0415 - only the resident engine needs it

    parts = list(parts)
    empty = np.empty(0, np.int64)
    excerpts = np.concatenate([empty, *(part.excerpts for part in parts)])
    excerpts, first = np.unique(excerpts, return_index=True)
    files = np.concatenate([empty, *(part.files for part in parts)])
    embeddings = np.concatenate([empty, *(part.embeddings for part in parts)])
    return Members(excerpts, files[first], embeddings[first])
