"""What the filters of a request mean: globs over shown paths, and days."""

from __future__ import annotations

from datetime import date

from backends.files.globs import Glob
from backends.interface import SearchRequest


class Filter:
    """Which files a request permits, but for their source."""

    def __init__(self, request: SearchRequest) -> None:
        self._include = [Glob(pattern) for pattern in request.include]
        self._exclude = [Glob(pattern) for pattern in request.exclude]
        self._after, self._before = _written(request.after), _written(request.before)
        self.active = bool(request.include or request.exclude or request.after or request.before)
        """Whether there may be files that are not permitted."""

    def permits(self, path: str, day: str | None) -> bool:
        """`day` is the date in the note's name (ISO 8601).

        A note without one is left out where the request names a first or a last day.
        """
        if self._include and not any(glob.matches(path) for glob in self._include):
            return False
        if any(glob.matches(path) for glob in self._exclude):
            return False
        if self._after and (day is None or day < self._after):
            return False
        return not self._before or (day is not None and day < self._before)


def _written(day: date | None) -> str | None:
    return day.isoformat() if day else None
