"""Which files a search may answer from.

Owns the meaning of the filters of a request. They limit the search itself, never its result.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import get_args

import apsw

from backends.files.filters import Filter
from backends.interface import SearchRequest
from config.settings import Source


def allowed_files(
    connection: apsw.Connection,
    request: SearchRequest,
    configured: Sequence[Source],
    without: Collection[str] = (),
) -> list[int] | None:
    """Row ids of the permitted files, or None when every indexed file is permitted.

    No path in `without` is permitted.
    """
    sources = set(configured).intersection(request.sources or configured)
    filtering = Filter(request)
    if not (filtering.active or without) and not _holds_others(connection, sources):
        return None
    return [
        file_id
        for file_id, source, path, day in connection.execute(
            "SELECT id, source, path, note_date FROM files"
        )
        if source in sources and path not in without and filtering.permits(path, day)
    ]


def _holds_others(connection: apsw.Connection, sources: set[Source]) -> bool:
    """Whether the index has files of a source that may not answer. One seek a source."""
    return any(
        connection.execute("SELECT 1 FROM files WHERE source = ? LIMIT 1", (source,)).fetchone()
        for source in set(get_args(Source)) - sources
    )
