"""The places that belong to one agent's memory, and the names of their files."""

from __future__ import annotations

import os.path
import unicodedata
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from backends.files.globs import Glob, is_special
from backends.interface import SearchRequest
from backends.text.frontmatter import has_tag
from config.runtime.files import is_addressable
from config.settings import ExtraPath, Settings

MAX_DEPTH: Final = 64
"""The most directories below a root; deeper ones are skipped with a reason."""
MARKDOWN_SUFFIX = ".md"
"""Case-sensitive, as documented."""

RootKind = Literal["file", "directory", "any"]


class Location(msgspec.Struct, frozen=True):
    """One file: a trusted directory and the names below it, none of which may be a link."""

    path: str
    """The name that is shown: the index path."""
    anchor: str
    """An absolute directory whose own path the operator vouches for; it is resolved normally."""
    names: tuple[str, ...]
    """The names from the anchor to the file, at least one."""
    root: Root | None = None
    """The root below which it was permitted."""


class Root(msgspec.Struct, frozen=True):
    """A place that memory comes from, and which files below it count.

    `anchor` is resolved normally and `names` lead from it to the root without following links, so a
    root may lie behind links that the operator made but can never itself become one.
    """

    absolute: str
    anchor: str
    names: tuple[str, ...]
    """At least one; `.` when the root is the anchor itself."""
    kind: RootKind
    glob: Glob | None = None
    """Restricts the paths below the root; for a root that is a file, its name."""
    selective: bool = False
    """True if hidden files, vendors' and those named by ignore files are left out below it."""
    exclude: tuple[str, ...] = ()
    """The patterns of files that are left out of a selective root."""
    is_optional: bool = False
    """True if nobody named it: its absence is not reported."""

    @classmethod
    def at(cls, path: Path, *, kind: RootKind = "any", pattern: str | None = None) -> Root:
        """Makes a root whose parent directory is trusted, as for extra paths outside the workspace."""
        absolute = _normal(str(path))
        parent, name = os.path.split(absolute)
        glob = Glob(pattern) if pattern else None
        return cls(absolute=absolute, anchor=parent, names=(name or ".",), kind=kind, glob=glob)

    def permits(self, absolute: str) -> bool:
        """Returns whether a file at this normalised absolute path would count as memory."""
        if not absolute.endswith(MARKDOWN_SUFFIX) or not is_below(absolute, self.absolute):
            return False
        is_root_itself = absolute == self.absolute
        if self.kind != "any" and is_root_itself != (self.kind == "file"):
            return False
        if _below(absolute, self.absolute).count("/") > MAX_DEPTH:
            return False
        if self.glob is None:
            return True
        name = self.absolute.rpartition("/")[2]
        return self.glob.matches(name if is_root_itself else _below(absolute, self.absolute))

    def within(self, workspace: str) -> Root:
        """Returns the root; in the workspace only the workspace itself is trusted: the agent may write there."""
        if not is_below(self.absolute, workspace):
            return self
        names = tuple((_below(self.absolute, workspace) or ".").split("/"))
        return replace(self, anchor=workspace, names=names)

    def location(self, absolute: str, shown: str) -> Location:
        """Returns where to open a permitted path. `shown` becomes the location's name."""
        below = _below(absolute, self.absolute)
        names = self.names + (tuple(below.split("/")) if below else ())
        return Location(path=shown, anchor=self.anchor, names=names, root=self)


class MemoryRoots(msgspec.Struct, frozen=True, dict=True):
    """The workspace and the extra paths of one agent: all that may be indexed and read."""

    workspace: Path
    extra_paths: tuple[ExtraPath, ...] = ()
    own: bool = True
    """True if the workspace has a memory of its own; a folder of notes is only an extra path."""

    @classmethod
    def of(cls, settings: Settings) -> MemoryRoots:
        return cls(
            settings.workspace, settings.search.extra_paths, own=settings.notes_folder is None
        )

    @cached_property
    def base(self) -> str:
        """The workspace as a normalised absolute path."""
        return _normal(str(self.workspace.absolute()))

    @cached_property
    def all(self) -> tuple[Root, ...]:
        """Every root in the order of indexing; of two names for one file the first wins."""
        own: tuple[tuple[str, RootKind], ...] = (
            ("MEMORY.md", "file"),
            ("memory.md", "file"),
            ("USER.md", "file"),
            ("memory", "directory"),
        )
        inside = [
            Root(absolute=_join(self.base, name), anchor=self.base, names=(name,), kind=kind)
            for name, kind in own
        ]
        extra = (
            replace(
                Root.at(one.path, pattern=one.pattern).within(self.base),
                selective=True,
                exclude=one.exclude,
                is_optional=one.is_optional,
            )
            for one in self.extra_paths
        )
        return (*(inside if self.own else ()), *extra)

    def absolute(self, path: str) -> str:
        """Returns an index path, or any path of a client, as a normalised absolute path."""
        return _normal(_join(self.base, path))

    def index_path(self, absolute: str) -> str:
        """Returns the path of a file or directory relative to the workspace; it may begin with `../`."""
        return os.path.relpath(absolute, self.base)

    def locate(self, path: str) -> tuple[Location, ...]:
        """Returns the places a client's path may mean, most literal first; none if it is not permitted.

        A path with backslashes is also tried with slashes in their place, one that begins or ends with
        blanks also without them, and one with accents in both forms of Unicode: macOS names files in one form,
        people and programs write the other.
        """
        trimmed = path.strip()
        slashed = trimmed.replace("\\", "/")
        forms = (unicodedata.normalize(form, slashed) for form in ("NFC", "NFD"))
        spellings = dict.fromkeys((path, trimmed, slashed, *forms))
        return tuple(
            location
            for spelling in spellings
            if is_addressable(spelling)
            for location in self._locate(self.absolute(spelling))
        )

    def _locate(self, absolute: str) -> list[Location]:
        shown = self.index_path(absolute)
        return [root.location(absolute, shown) for root in self.all if root.permits(absolute)]


def is_below(path: str, directory: str) -> bool:
    """Returns whether `path` is `directory` or below it. Both are normalised and absolute."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _below(path: str, directory: str) -> str:
    return path[len(directory.rstrip("/")) + 1 :]


def _join(base: str, path: str) -> str:
    return os.path.join(base, path)  # noqa: PTH118 (lexical: pathlib would drop the dots)


def _normal(path: str) -> str:
    """Normalises without looking at the disk; POSIX keeps a double leading slash, this does not."""
    return "/" + os.path.normpath(path).lstrip("/")


class Filter:
    """The files that a request permits, apart from their source."""

    def __init__(self, request: SearchRequest) -> None:
        self._include = [_glob(pattern) for pattern in request.include]
        self._exclude = [_glob(pattern) for pattern in request.exclude]
        self._after, self._before = _written(request.after), _written(request.before)
        self._tags = request.tags
        self.dated = bool(request.after or request.before)
        """True if a file without a date is left out."""
        self.active = bool(request.include or request.exclude or request.tags or self.dated)
        """True if there may be files that are not permitted."""

    def permits(self, path: str, day: str | None, tags: tuple[str, ...] = ()) -> bool:
        """Returns whether a file is permitted. `day`: the date in its name or its front matter (ISO 8601).

        A note without one is left out if the request names a first or a last day.
        """
        if not self.permits_but_for_date(path, tags):
            return False
        if self._after and (day is None or day < self._after):
            return False
        return not self._before or (day is not None and day < self._before)

    def permits_but_for_date(self, path: str, tags: tuple[str, ...] = ()) -> bool:
        if not all(has_tag(tags, wanted) for wanted in self._tags):
            return False
        path = composed(path)
        if self._include and not any(glob.matches(path) for glob in self._include):
            return False
        return not any(glob.matches(path) for glob in self._exclude)


def composed(name: str) -> str:
    """Returns the name in NFC, in which names are compared: macOS decomposes accents, keyboards do not."""
    return unicodedata.normalize("NFC", name)


def _glob(pattern: str) -> Glob:
    """Makes a glob. A pattern that ends in a plain name or in `/` may name a folder: it includes all files below."""
    pattern = composed(pattern)
    last = pattern.rstrip("/").rpartition("/")[2]
    names_folder = last and (pattern.endswith("/") or not is_special(last))
    return Glob(f"{pattern}/**" if names_folder else pattern)


def _written(day: date | None) -> str | None:
    return day.isoformat() if day else None
