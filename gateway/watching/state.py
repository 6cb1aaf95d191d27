"""How changes are noticed at present, for `status`."""

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
OFF: Final = WatchState(mode="off", reason="memorySearch.sync.watch is false")
ON_DEMAND: Final = WatchState(mode="off", reason="this process answers once and ends")
