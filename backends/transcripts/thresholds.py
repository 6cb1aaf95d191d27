"""When a transcript that grew is worth indexing: the documented thresholds. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from config.settings import SessionSyncSettings

SILENCE_NS: Final = 10 * 60 * 1_000_000_000
"""So long after its last line a conversation counts as over for now."""


def is_due(
    grown_bytes: int,
    grown_lines: Callable[[], int],
    silent_ns: int,
    thresholds: SessionSyncSettings,
) -> bool:
    """Whether so much growth, this long ago, is to be indexed.

    `deltaBytes` 0 means any growth, `deltaMessages` 0 that lines do not count. Lines (`grown_lines`) are
    only counted when the bytes do not decide.
    """
    if grown_bytes <= 0:
        return False
    if grown_bytes >= thresholds.delta_bytes or silent_ns >= SILENCE_NS:
        return True
    return 0 < thresholds.delta_messages <= grown_lines()
