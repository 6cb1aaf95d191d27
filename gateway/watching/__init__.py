"""Noticing changes of the memory files without being asked: an accelerator.

The truth is the stat sweep that every sync begins with. Watching only says when one is worth while, so
it may miss events, be switched off, or run out of watches: then the sweep is repeated at intervals.

What the `watcher` tells of itself stands here, where reading a status imports none.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec


class WatchState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    mode: Literal["off", "starting", "watching", "polling"]
    reason: str | None = None
    """Why it is off, or why it does not watch."""
    directories: int = 0
    """How many are watched."""


STARTING: Final = WatchState(mode="starting")
OFF: Final = WatchState(mode="off", reason="sync.watch is false")
ON_DEMAND: Final = WatchState(mode="off", reason="this process answers once and ends")
