"""The filters of a request over shown paths, as the builtin engine understands them. Pure."""

from __future__ import annotations

from collections.abc import Callable

from backends.files.globs import Glob
from backends.interface import SearchRequest
from backends.text.dates import date_of
from config.settings import Source


class Filter:
    """The filters of a request over shown paths, as the builtin engine understands them."""

    def __init__(self, request: SearchRequest, source_of: Callable[[str], Source]) -> None:
        self._sources, self._source_of = request.sources, source_of
        self._include = [Glob(pattern) for pattern in request.include]
        self._exclude = [Glob(pattern) for pattern in request.exclude]
        self._after, self._before = request.after, request.before
        self.active = bool(request.include or request.exclude or request.after or request.before)
        """Whether QMD, which knows no such filters, may have proposed too little."""

    def permits(self, path: str) -> bool:
        """Whether a file with this shown path may be in the answer."""
        if self._sources is not None and self._source_of(path) not in self._sources:
            return False
        if self._include and not any(glob.matches(path) for glob in self._include):
            return False
        if any(glob.matches(path) for glob in self._exclude):
            return False
        if self._after is None and self._before is None:
            return True
        day = date_of(path)
        return (
            day is not None
            and (self._after is None or day >= self._after)
            and (self._before is None or day < self._before)
        )
