"""The documented thresholds, and a conversation that has ended."""

from __future__ import annotations

import pytest

from backends.builtin.syncing.sessions import SILENCE_NS, is_grown_enough
from config.settings import SessionSyncSettings
from fakes.each import each


def never_counted():
    pytest.fail("lines were counted although the bytes decide")


@each(
    ("grown", "lines", "silent_ns", "limits", "due"),
    [
        (0, None, SILENCE_NS, (0, 0), False),
        (-5, None, SILENCE_NS, (0, 0), False),
        (1, None, 0, (0, 0), True),
        (99, None, 0, (100, 0), False),
        (100, None, 0, (100, 50), True),
        (99, 49, 0, (100, 50), False),
        (99, 50, 0, (100, 50), True),
        (1, None, SILENCE_NS, (100, 50), True),
        (1, 1, SILENCE_NS - 1, (100, 50), False),
    ],
)
def test_bytes_lines_and_silence_decide(grown, lines, silent_ns, limits, due):
    count = never_counted if lines is None else lambda: lines
    thresholds = SessionSyncSettings(delta_bytes=limits[0], delta_messages=limits[1])
    assert is_grown_enough(grown, count, silent_ns, thresholds) is due
