"""The collections that QMD is to have, and the mapping between its names and real files."""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import chain, count
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from backends.files.globs import Glob
from backends.files.reading import read_located
from backends.files.roots import Location, MemoryRoots, Root, RootKind, is_below
from backends.files.scan import FoundFile
from backends.interface import ReadAnswer, ReadRequest
from backends.qmd.exporting import Exports
from backends.transcripts.source import PREFIX as TRANSCRIPTS
from config.runtime.files import is_addressable
from config.settings import Settings, Source

_NOT_IN_NAMES = re.compile(r"[^a-z0-9-]+")
_GLOB_CHARACTERS = re.compile(r"([*?\[\]{}()!+@\\,])")


class Collection(NamedTuple):
    """One collection. `pattern` is relative to the directory `path`, as QMD reads it."""

    name: str
    path: Path
    pattern: str
    source: Source
    root: Root
    """The root that says which files of it count as memory and how they are opened."""


class _Wish(NamedTuple):
    name: str
    path: Path
    pattern: str
    source: Source = "memory"


def plan_collections(
    settings: Settings, is_file: Callable[[Path], bool] = Path.is_file
) -> tuple[Collection, ...]:
    """Plans them in documented order, with unique names; of two wishes for the same files the first counts."""
    workspace = settings.workspace.absolute()
    planned: list[Collection] = []
    for wish in _wishes(settings, workspace, is_file):
        places = {(one.path, one.pattern) for one in planned}
        if (wish.path, wish.pattern) not in places:
            name = _unique(sanitise(wish.name), {one.name for one in planned})
            root = _root(wish.path, wish.pattern, workspace)
            planned.append(Collection(name, wish.path, wish.pattern, wish.source, root))
    return tuple(planned)


def sanitise(name: str) -> str:
    """Returns a name that is valid in QMD's addresses."""
    return _NOT_IN_NAMES.sub("-", name.lower()).strip("-") or "collection"


def _wishes(
    settings: Settings, workspace: Path, is_file: Callable[[Path], bool]
) -> Iterator[_Wish]:
    qmd = settings.qmd
    if qmd.include_default_memory:
        yield _Wish("memory-root", workspace, "MEMORY.md")
        yield _Wish("memory-alt", workspace, "memory.md")
        yield _Wish("memory-user", workspace, "USER.md")
        yield _Wish("memory-dir", workspace / "memory", "**/*.md")
    for entry in qmd.paths:
        if is_file(entry.path):
            yield _Wish(entry.name, entry.path.parent, _literal(entry.path.name))
        else:
            yield _Wish(entry.name, entry.path, entry.pattern)
    if qmd.sessions.enabled:
        yield _Wish("sessions", qmd.sessions.export_dir, "**/*.md", "sessions")


def _unique(name: str, taken: set[str]) -> str:
    candidates = (f"{name}-{number}" for number in count(2))
    return next(one for one in chain((name,), candidates) if one not in taken)


def _literal(name: str) -> str:
    return _GLOB_CHARACTERS.sub(r"\\\1", name)


def _root(path: Path, pattern: str, workspace: Path) -> Root:
    single = re.sub(r"\\(.)", r"\1", pattern)
    kind: RootKind = "directory"
    if _literal(single) == pattern and "/" not in pattern:
        path, kind, glob = path / single, "file", None
    else:
        glob = Glob(_union(pattern))
    return replace(Root.at(path, kind=kind), glob=glob).within(str(workspace))


def _union(pattern: str) -> str:
    """Puts patterns with commas between them, as QMD takes them, in braces, which mean the same here."""
    depth, parts, start = 0, [], 0
    for position, character in enumerate(pattern):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(pattern[start:position].strip())
            start = position + 1
    parts.append(pattern[start:].strip())
    return parts[0] if len(parts) == 1 else "{" + ",".join(parts) + "}"


PREFIX = "qmd/"
_UNSEEN = re.compile(r"(?:^|/)(?:\.[^/]*|node_modules|vendor|dist|build)(?=/|$)")


class CollectionRoots(MemoryRoots, frozen=True, dict=True):
    """The collections as roots, so that they are scanned and opened like all memory."""

    collections: tuple[Collection, ...] = ()

    @cached_property
    def all(self) -> tuple[Root, ...]:
        return tuple(one.root for one in self.collections)


class CollectionPlaces:
    """Every file that QMD may answer from or that may be read beside it."""

    def __init__(
        self, settings: Settings, planned: tuple[Collection, ...], exports: Exports
    ) -> None:
        self.exports = exports
        self.collections = {one.name: one for one in planned}
        self.roots = CollectionRoots(settings.workspace, collections=planned)
        notes = tuple(one for one in planned if one.source != "sessions")
        self._notes = CollectionRoots(settings.workspace, collections=notes)
        """The collections without the exports, which chat gateways recognise only as `qmd/sessions/<name>.md`."""
        self._memory = MemoryRoots.of(settings)

    def read(self, request: ReadRequest) -> ReadAnswer:
        """Reads like `backends.files.reading`, also below `qmd/<collection>/`. Blocks; same errors."""
        return read_located(self._locations(request.path.strip()), request)

    def locate(self, collection: str, path: str) -> Location | None:
        """Returns where to open a file of a collection; None if it is not permitted."""
        one = self.collections.get(collection)
        if one is None or not is_addressable(path) or path.startswith("/"):
            return None
        absolute = self.roots.absolute(f"{one.path}/{path}")
        if not one.root.permits(absolute) or self._is_strange(one, path):
            return None
        return one.root.location(absolute, self._shown(one, absolute))

    def absolute(self, path: str) -> str | None:
        """Returns where a file of this name would be; None if it is not permitted."""
        location = next(iter(self._locations(path)), None)
        return str(Path(location.anchor, *location.names)) if location else None

    def shown_path(self, path: str) -> str:
        """Returns the shown name for a path that is relative to the workspace, perhaps with `../`."""
        absolute = self.roots.absolute(path)
        if not is_below(absolute, self.roots.base):
            for one in self.collections.values():
                if one.root.permits(absolute):
                    return self._shown(one, absolute)
        return path

    def seen_by_qmd(self, files: Iterable[FoundFile]) -> dict[str, FoundFile]:
        """Returns those of the scanned files that QMD indexes, by shown name."""
        roots = self.roots
        return {
            self._shown(roots.collections[one.root], roots.absolute(one.path)): one
            for one in files
            if self._is_seen(one)
        }

    def source_of(self, path: str) -> Source:
        """Returns the kind of memory of a shown path."""
        return "sessions" if self.exports.of_hit(path) else "memory"

    def _is_seen(self, found: FoundFile) -> bool:
        """Returns whether QMD indexes the file: it leaves out hidden and vendor directories, and empty files."""
        one = self.roots.collections[found.root]
        below = os.path.relpath(self.roots.absolute(found.path), one.path)
        hidden = _UNSEEN.search(below) is not None or self._is_strange(one, below)
        return found.size > 0 and not hidden

    def _is_strange(self, one: Collection, below: str) -> bool:
        """Returns whether it is among the exports without being one: then it is not memory."""
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
        return (*self._memory.locate(path), *self._notes.locate(path))
