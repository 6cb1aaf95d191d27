"""Which collections QMD is to have, and which real files they stand for.

Owns the documented names and the order. Pure but for one question, whether a path is a file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from backends.files.globs import Glob
from backends.files.roots import Root, RootKind, is_below
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
    """Which files of it count as memory, and how they are opened."""


class _Wish(NamedTuple):
    name: str
    path: Path
    pattern: str
    source: Source = "memory"


def plan_collections(
    settings: Settings, is_file: Callable[[Path], bool] = Path.is_file
) -> tuple[Collection, ...]:
    """In documented order, with unique names; of two wishes for the same files the first counts."""
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
    """A name that QMD can carry in its addresses."""
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
    unique, number = name, 1
    while unique in taken:
        number += 1
        unique = f"{name}-{number}"
    return unique


def _literal(name: str) -> str:
    return _GLOB_CHARACTERS.sub(r"\\\1", name)


def _root(path: Path, pattern: str, workspace: Path) -> Root:
    """Inside the workspace only the workspace itself is trusted: the agent may write there."""
    single = re.sub(r"\\(.)", r"\1", pattern)
    kind: RootKind = "directory"
    if _literal(single) == pattern and "/" not in pattern:
        path, kind, glob = path / single, "file", None
    else:
        glob = Glob(_union(pattern))
    root = Root.at(path, kind=kind)
    anchor, names = root.anchor, root.names
    base = str(workspace)
    if is_below(root.absolute, base):
        below = root.absolute[len(base.rstrip("/")) + 1 :]
        anchor, names = base, tuple((below or ".").split("/"))
    return Root(absolute=root.absolute, anchor=anchor, names=names, kind=kind, glob=glob)


def _union(pattern: str) -> str:
    """QMD takes patterns with commas between them; in braces they mean the same here."""
    depth, parts, start = 0, [], 0
    for position, character in enumerate(pattern):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(pattern[start:position].strip())
            start = position + 1
    parts.append(pattern[start:].strip())
    return parts[0] if len(parts) == 1 else "{" + ",".join(parts) + "}"
