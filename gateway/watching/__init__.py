"""Noticing changes of the memory files without being asked: an accelerator.

The truth is the stat sweep that every sync begins with. Watching only says when one is worth while, so
it may miss events, be switched off, or run out of watches: then the sweep is repeated at intervals.

The state of the `watcher` is defined here, so that reading a status does not import it.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec


class WatchState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    mode: Literal["off", "starting", "watching", "polling"]
    reason: str | None = None
    """The reason why it is off, or why it does not watch."""
    directories: int = 0
    """The number of watched directories."""


STARTING: Final = WatchState(mode="starting")
OFF: Final = WatchState(mode="off", reason="sync.watch is false")
ON_DEMAND: Final = WatchState(mode="off", reason="this process answers once and ends")
