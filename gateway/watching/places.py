"""What is worth watching, from the settings. Pure.

Owns the rule which events belong to which sync: memory files are indexed soon, transcripts grow with every
turn and are looked at more seldom.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from backends.files.roots import MARKDOWN_SUFFIX, MemoryRoots
from config.paths import host_database
from config.settings import Settings

TRANSCRIPT_SUFFIX: Final = ".jsonl"
TRANSCRIPT_DEBOUNCE_S: Final = 5.0
WATCH: Final = "watch"
SESSION_DELTA: Final = "session-delta"


class Place(msgspec.Struct, frozen=True):
    """A file or a directory tree, which need not exist, and what a change in it means."""

    path: Path
    """Absolute."""
    suffix: str
    """Of the files that count, the directories aside."""
    debounce_s: float
    reason: str
    """Of the sync that a change asks for."""


def watched_places(settings: Settings) -> tuple[Place, ...]:
    """None when watching is switched off or no source is on disk."""
    search = settings.search
    if not search.sync.watch:
        return ()
    places: list[Place] = []
    if "memory" in search.sources:
        debounce_s = search.sync.watch_debounce_ms / 1000
        roots = MemoryRoots(settings.workspace, search.extra_paths).all
        paths = [Path(root.absolute) for root in roots]
        if settings.backend == "qmd":
            paths += [one.path for one in settings.qmd.paths]
        places += [Place(path, MARKDOWN_SUFFIX, debounce_s, WATCH) for path in paths]
    if "sessions" in search.sources:
        database = host_database(settings.state_dir, settings.agent_id)
        places += [
            Place(settings.sessions_dir, TRANSCRIPT_SUFFIX, TRANSCRIPT_DEBOUNCE_S, SESSION_DELTA),
            Place(database.parent, f"{database.name}-wal", TRANSCRIPT_DEBOUNCE_S, SESSION_DELTA),
        ]
    return tuple(places)
