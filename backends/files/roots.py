"""What belongs to one agent's memory, and how its files are named.

Owns the list of roots (`MEMORY.md`, `memory.md`, `USER.md`, `memory/`, each extra path), the rule which
path is permitted, and the mapping between index paths and places on disk. Lexical: reads no disk.
"""

from __future__ import annotations

import os.path
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from backends.files.globs import Glob
from config.settings import ExtraPath

MARKDOWN_SUFFIX = ".md"
"""Case-sensitive, as documented."""

RootKind = Literal["file", "directory", "any"]


@dataclass(frozen=True, slots=True)
class Location:
    """One file: a trusted directory and the names below it, none of which may be a link."""

    path: str
    """The name that is shown: the index path."""
    anchor: str
    """Absolute directory whose own path the operator vouches for; it is resolved normally."""
    names: tuple[str, ...]
    """From the anchor to the file, at least one."""


@dataclass(frozen=True, slots=True)
class Root:
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
    is_optional: bool = False
    """Nobody named it: that it does not exist is nothing to tell."""

    @classmethod
    def at(cls, path: Path, *, kind: RootKind = "any", pattern: str | None = None) -> Root:
        """A root whose parent directory is trusted, as for extra paths outside the workspace."""
        absolute = _normal(str(path))
        parent, name = os.path.split(absolute)
        glob = Glob(pattern) if pattern else None
        return cls(absolute=absolute, anchor=parent, names=(name or ".",), kind=kind, glob=glob)

    def permits(self, absolute: str) -> bool:
        """Whether a file at this normalised absolute path would count as memory."""
        if not absolute.endswith(MARKDOWN_SUFFIX) or not is_below(absolute, self.absolute):
            return False
        is_root_itself = absolute == self.absolute
        if self.kind != "any" and is_root_itself != (self.kind == "file"):
            return False
        if self.glob is None:
            return True
        name = self.absolute.rpartition("/")[2]
        return self.glob.matches(name if is_root_itself else _below(absolute, self.absolute))

    def location(self, absolute: str, shown: str) -> Location:
        """Where to open a permitted path. `shown` becomes the location's name."""
        below = _below(absolute, self.absolute)
        names = self.names + (tuple(below.split("/")) if below else ())
        return Location(path=shown, anchor=self.anchor, names=names)


@dataclass(frozen=True)
class MemoryRoots:
    """The workspace and the extra paths of one agent: all that may be indexed and read."""

    workspace: Path
    extra_paths: tuple[ExtraPath, ...] = ()

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
        return (*inside, *(self._extra_root(extra) for extra in self.extra_paths))

    def absolute(self, path: str) -> str:
        """An index path, or any path a client gives, as a normalised absolute path."""
        return _normal(_join(self.base, path))

    def index_path(self, absolute: str) -> str:
        """The name of a file or directory relative to the workspace; may begin with `../`."""
        return os.path.relpath(absolute, self.base)

    def locate(self, path: str) -> tuple[Location, ...]:
        """The places a client's path may mean, most literal first; none if it is not permitted.

        A path that holds backslashes is also tried with slashes in their place.
        """
        literal = path.strip()
        spellings = dict.fromkeys((literal, literal.replace("\\", "/")))
        return tuple(
            location
            for spelling in spellings
            if is_addressable(spelling)
            for location in self._locate(self.absolute(spelling))
        )

    def _locate(self, absolute: str) -> list[Location]:
        shown = self.index_path(absolute)
        return [root.location(absolute, shown) for root in self.all if root.permits(absolute)]

    def _extra_root(self, extra: ExtraPath) -> Root:
        """Inside the workspace nothing but the workspace is trusted: the agent may write there."""
        root = replace(Root.at(extra.path, pattern=extra.pattern), is_optional=extra.is_optional)
        if not is_below(root.absolute, self.base):
            return root
        names = tuple((_below(root.absolute, self.base) or ".").split("/"))
        return replace(root, anchor=self.base, names=names)


def is_below(path: str, directory: str) -> bool:
    """Whether `path` is `directory` or lies below it. Both are normalised and absolute."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def is_addressable(name: str) -> bool:
    """Whether a name can travel as text: valid Unicode (no undecodable bytes) without NUL."""
    if "\0" in name:
        return False
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _below(path: str, directory: str) -> str:
    return path[len(directory.rstrip("/")) + 1 :]


def _join(base: str, path: str) -> str:
    return os.path.join(base, path)  # noqa: PTH118 (lexical: pathlib would drop the dots)


def _normal(path: str) -> str:
    """Normalise without looking at the disk; POSIX keeps a double leading slash, this does not."""
    return "/" + os.path.normpath(path).lstrip("/")
