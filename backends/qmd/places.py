"""Between QMD's names and real files: `collection/path` there, a location here.

Files of collections are shown as `qmd/<collection>/<path>` outside the workspace, and only those inside a
collection's root and pattern are opened.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from backends.files.get import read_located
from backends.files.roots import Location, MemoryRoots, Root, is_addressable, is_below
from backends.files.scan import FoundFile
from backends.interface import ReadAnswer, ReadRequest
from backends.qmd.collections import Collection
from backends.qmd.exporting import Exports
from backends.transcripts.listing import PREFIX as TRANSCRIPTS
from config.settings import Settings, Source

PREFIX = "qmd/"
_UNSEEN = re.compile(r"(?:^|/)(?:\.[^/]*|node_modules|vendor|dist|build)(?=/|$)")


@dataclass(frozen=True)
class CollectionRoots(MemoryRoots):
    """The collections as roots, so that they are scanned and opened like all memory."""

    collections: tuple[Collection, ...] = ()

    @cached_property
    def all(self) -> tuple[Root, ...]:
        return tuple(one.root for one in self.collections)


class Places:
    """Every file that QMD may answer from or that may be read beside it."""

    def __init__(
        self, settings: Settings, planned: tuple[Collection, ...], exports: Exports
    ) -> None:
        self.exports = exports
        self.collections = {one.name: one for one in planned}
        self.roots = CollectionRoots(settings.workspace, collections=planned)
        self._memory = MemoryRoots(settings.workspace, settings.search.extra_paths)

    def read(self, request: ReadRequest) -> ReadAnswer:
        """As `backends.files.get`, also below `qmd/<collection>/`. Blocks; same errors."""
        return read_located(self._locations(request.path.strip()), request)

    def locate(self, collection: str, path: str) -> Location | None:
        """Where a file of a collection is opened; None when it is not ours to give."""
        one = self.collections.get(collection)
        if one is None or not is_addressable(path) or path.startswith("/"):
            return None
        absolute = self.roots.absolute(f"{one.path}/{path}")
        if not one.root.permits(absolute) or self._is_strange(one, path):
            return None
        return one.root.location(absolute, self._shown(one, absolute))

    def shown_path(self, path: str) -> str:
        """The name here for a path that is relative to the workspace, perhaps with `../`."""
        absolute = self.roots.absolute(path)
        if not is_below(absolute, self.roots.base):
            for one in self.collections.values():
                if one.root.permits(absolute):
                    return self._shown(one, absolute)
        return path

    def seen_by_qmd(self, files: Iterable[FoundFile]) -> dict[str, FoundFile]:
        """The scanned files that QMD looks at at all, by shown name."""
        return {self._shown_file(one): one for one in files if self._is_seen(one)}

    def source_of(self, path: str) -> Source:
        """What kind of memory a shown path is."""
        return "sessions" if self.exports.of_hit(path) else "memory"

    def _shown_file(self, found: FoundFile) -> str:
        one = self.roots.collections[found.root]
        return self._shown(one, self.roots.absolute(found.path))

    def _is_seen(self, found: FoundFile) -> bool:
        """It leaves out hidden and vendor directories."""
        one = self.roots.collections[found.root]
        below = os.path.relpath(self.roots.absolute(found.path), one.path)
        hidden = _UNSEEN.search(below) is not None or self._is_strange(one, below)
        return found.size > 0 and not hidden

    def _is_strange(self, one: Collection, below: str) -> bool:
        """Whether it lies among the exports without being one: then it is nobody's memory."""
        return one.source == "sessions" and self.exports.of_export(below) is None

    def _shown(self, one: Collection, absolute: str) -> str:
        if one.source == "sessions":
            record = self.exports.of_export(os.path.relpath(absolute, one.path))
            if record is not None:
                return TRANSCRIPTS + record.transcript
        if is_below(absolute, self.roots.base):
            return self.roots.index_path(absolute)
        return f"{PREFIX}{one.name}/{os.path.relpath(absolute, one.path)}"

    def _locations(self, path: str) -> tuple[Location, ...]:
        if path.startswith(PREFIX):
            collection, _, below = path.removeprefix(PREFIX).partition("/")
            location = self.locate(collection, below)
            if location is not None:
                named = self.exports.of_export(below) and replace(location, path=path)
                return (named or location,)
        return (*self._memory.locate(path), *self.roots.locate(path))
