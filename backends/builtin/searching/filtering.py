"""Which files a search may answer from.

Owns the meaning of the filters of a request. They limit the search itself, never its result.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import get_args

import apsw

from backends.files.globs import Glob
from backends.interface import SearchRequest
from config.settings import Source


def allowed_files(
    connection: apsw.Connection,
    request: SearchRequest,
    configured: Sequence[Source],
    without: Collection[str] = (),
) -> list[int] | None:
    """Row ids of the permitted files, or None when every indexed file is permitted.

    `after` and `before` compare the date in the note's name; a note without one has no date and is
    left out when either is given. No path in `without` is permitted.
    """
    sources = set(configured).intersection(request.sources or configured)
    include = [Glob(pattern) for pattern in request.include]
    exclude = [Glob(pattern) for pattern in request.exclude]
    after = request.after and request.after.isoformat()
    before = request.before and request.before.isoformat()
    filtered = bool(include or exclude or after or before or without)
    if not filtered and not _holds_others(connection, sources):
        return None
    return [
        file_id
        for file_id, source, path, day in connection.execute(
            "SELECT id, source, path, note_date FROM files"
        )
        if source in sources
        and path not in without
        and (not include or any(glob.matches(path) for glob in include))
        and not any(glob.matches(path) for glob in exclude)
        and (not after or (day is not None and day >= after))
        and (not before or (day is not None and day < before))
    ]


def _holds_others(connection: apsw.Connection, sources: set[Source]) -> bool:
    """Whether the index has files of a source that may not answer. One seek a source."""
    return any(
        connection.execute("SELECT 1 FROM files WHERE source = ? LIMIT 1", (source,)).fetchone()
        for source in set(get_args(Source)) - sources
    )
