"""Which directories have to be watched so that no change goes unseen."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from backends.files.ignoring import is_usually_out
from backends.files.roots import MARKDOWN_SUFFIX, MAX_DEPTH, MemoryRoots
from backends.files.scan import shared_type
from config.paths import host_database
from config.settings import Settings

TRANSCRIPT_SUFFIX: Final = ".jsonl"
TRANSCRIPT_DEBOUNCE_S: Final = 5.0
WATCH: Final = "watch"
SESSION_DELTA: Final = "session-delta"


class WatchedPlace(msgspec.Struct, frozen=True):
    """A file or a directory tree, which need not exist, and what a change in it means."""

    path: Path
    """Absolute."""
    suffix: str
    """What the names of files that count end with; directories always count."""
    debounce_s: float
    reason: str
    """The reason of the sync that a change asks for."""
    selective: bool = False
    """Whether directories that are usually no notes are not watched below it: `.git` alone may have
    hundreds. A sweep sees what changes in one that an ignore file brings back."""


def watched_places(settings: Settings) -> tuple[WatchedPlace, ...]:
    """None when watching is switched off or no source is on disk."""
    search = settings.search
    if not search.sync.watch:
        return ()
    places: list[WatchedPlace] = []
    if "memory" in search.sources:
        debounce_s = search.sync.watch_debounce_ms / 1000
        roots = MemoryRoots.of(settings).all
        paths = [(Path(root.absolute), root.selective) for root in roots]
        if settings.backend == "qmd":
            paths += [(one.path, False) for one in settings.qmd.paths]
        places += [
            WatchedPlace(path, MARKDOWN_SUFFIX, debounce_s, WATCH, selective)
            for path, selective in paths
        ]
    if "sessions" in search.sources:
        database = host_database(settings.state_dir, settings.agent_id)
        places += [
            WatchedPlace(
                settings.sessions_dir, TRANSCRIPT_SUFFIX, TRANSCRIPT_DEBOUNCE_S, SESSION_DELTA
            ),
            WatchedPlace(
                database.parent, f"{database.name}-wal", TRANSCRIPT_DEBOUNCE_S, SESSION_DELTA
            ),
        ]
    return tuple(places)


MAX_DIRECTORIES: Final = 8192
"""All processes of a user share their inotify watches, 8,192 on older kernels."""


class Interest(msgspec.Struct, frozen=True, gc=False):
    """Which events in one directory matter to one place."""

    place: WatchedPlace
    name: str | None
    """Where the place itself is, or will be, one of many; None inside of the place."""


class Directory(msgspec.Struct, frozen=True, gc=False):
    identity: tuple[int, int]
    """Device and inode: another directory may take over the path."""
    interests: tuple[Interest, ...]


WatchPlan: TypeAlias = dict[str, Directory]
"""By absolute path without links."""


class WatchingFailedError(Exception):
    """Changes cannot be watched, or not all of them. The message says why, for people."""


def plan_watches(places: Iterable[WatchedPlace]) -> WatchPlan:
    """Raises WatchingFailedError. What cannot be listed cannot be watched either, and is left out."""
    walk = _Walk()
    for place in places:
        ancestor, name = _nearest_ancestor(place.path)
        walk.add(ancestor, Interest(place, name))
        if ancestor == os.path.realpath(place.path.parent):
            for directory in _tree(f"{ancestor.rstrip('/')}/{name}", selective=place.selective):
                walk.add(directory, Interest(place, None))
    return walk.plan


class _Walk:
    """What one look at the disk has found."""

    def __init__(self) -> None:
        self.plan: WatchPlan = {}
        self._devices: set[int] = set()

    def add(self, path: str, interest: Interest) -> None:
        try:
            status = os.lstat(path)
        except OSError:
            return
        self._check_device(path, status.st_dev)
        known = self.plan.get(path)
        before = known.interests if known else ()
        self.plan[path] = Directory((status.st_dev, status.st_ino), (*before, interest))
        if len(self.plan) > MAX_DIRECTORIES:
            raise WatchingFailedError(
                f"more than {MAX_DIRECTORIES} directories would have to be watched"
            )

    def _check_device(self, path: str, device: int) -> None:
        if device not in self._devices and (file_system := shared_type(path)):
            raise WatchingFailedError(
                f"{path} lies on {file_system}, where not every change is announced"
            )
        self._devices.add(device)


def _nearest_ancestor(path: Path) -> tuple[str, str]:
    """The nearest directory above that exists, without links, and the name below it to wait for."""
    name = path.name
    for parent in path.parents:
        if parent.is_dir():
            return os.path.realpath(parent), name
        name = parent.name
    return "/", name


def _tree(top: str, depth: int = 0, *, selective: bool = False) -> Iterator[str]:
    """The directory and all below it; none when it is something else."""
    try:
        if not stat.S_ISDIR(os.lstat(top).st_mode):
            return
        yield top
        with os.scandir(top) as entries:
            below = [
                entry.path
                for entry in entries
                if entry.is_dir(follow_symlinks=False)
                and not (selective and is_usually_out(entry.name))
            ]
    except OSError:
        return
    if depth < MAX_DEPTH:
        for path in below:
            yield from _tree(path, depth + 1, selective=selective)
