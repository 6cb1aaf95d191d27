"""What the machine gives: room on the disk, and directories that may be watched. Blocks."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from config.settings import Settings
from gateway.doctor.finding import Finding
from gateway.watching.bursts import Bursts
from gateway.watching.directories import WatchingFailedError, plan_watches
from gateway.watching.inotify import DirectoryWatches
from gateway.watching.places import watched_places

_MB: Final = 1_000_000
TOO_LITTLE_BYTES: Final = 50 * _MB
"""Less than this and a sync fails soon."""
SCARCE_BYTES: Final = 500 * _MB
_LIMITS: Final = Path("/proc/sys/fs/inotify")


def check_disk(settings: Settings) -> Iterator[Finding]:
    """Where the index is, or will be."""
    store = settings.search.store.path
    place = next(path for path in store.parents if path.is_dir())
    size = store.stat().st_size if store.is_file() else 0
    yield judge_room(shutil.disk_usage(place).free, size, str(place))


def judge_room(free_bytes: int, index_bytes: int, place: str) -> Finding:
    """A rebuild in place needs about the size of the index once more. Pure."""
    free = f"{free_bytes / _MB:,.0f} MB are free"
    fix = "Free some space, or set memorySearch.store.path to another disk."
    if free_bytes < TOO_LITTLE_BYTES:
        return Finding(check="disk", severity="error", cause=f"Only {free}.", place=place, fix=fix)
    if free_bytes < max(SCARCE_BYTES, index_bytes):
        cause = f"Only {free}; rebuilding the index ({index_bytes / _MB:,.0f} MB) needs room."
        return Finding(check="disk", severity="warning", cause=cause, place=place, fix=fix)
    return Finding(check="disk", severity="ok", cause=f"{free}.", place=place)


def check_watches(settings: Settings) -> Iterator[Finding]:
    """Sets the watches of this configuration for a moment, beside those of a running gateway."""
    places = watched_places(settings)
    if not places:
        cause = "Watching is switched off in the configuration; every search looks at the disk."
        yield Finding(check="watches", severity="ok", cause=cause, place="memorySearch.sync.watch")
        return
    try:
        watches = DirectoryWatches(Bursts(places, lambda: None))
        try:
            watches.follow(plan_watches(places))
            cause = f"Changes can be watched; directories: {len(watches):,}{_limit()}."
        finally:
            watches.close()
    except WatchingFailedError as error:
        yield Finding(
            check="watches",
            severity="note",
            cause=f"Changes are noticed by looking at the disk, more slowly: {error}.",
            place=str(_LIMITS),
            fix="For a limit: sysctl -w fs.inotify.max_user_watches=524288 "
            "fs.inotify.max_user_instances=1024 (as root; /etc/sysctl.d keeps it).",
        )
        return
    yield Finding(check="watches", severity="ok", cause=cause)


def _limit() -> str:
    try:
        text = (_LIMITS / "max_user_watches").read_text(encoding="ascii")
    except OSError:
        return ""
    return f" of {int(text):,} that this user may watch"
