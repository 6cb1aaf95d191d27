"""Looks at an index file from outside: whose it is, whether it is whole, whether it can be written.

For diagnosis, in a process that does not have the file open: closing it drops the locks of the process.
Makes and mends nothing.
"""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Final, Literal

import apsw
import msgspec

from backends.builtin.storage.checksums import open_checked
from backends.builtin.storage.connections import PATIENCE_S, milliseconds
from backends.builtin.storage.failures import index_unavailable
from backends.builtin.storage.identity import Verdict, judge
from backends.builtin.storage.schema import is_complete

_NAMES: Final[dict[Verdict, Literal["absent", "ours", "older", "newer", "foreign"]]] = {
    Verdict.ABSENT: "absent",
    Verdict.OURS: "ours",
    Verdict.OURS_OLDER: "older",
    Verdict.OURS_NEWER: "newer",
    Verdict.FOREIGN: "foreign",
}
_STEPS_BETWEEN_LOOKS: Final = 10_000
"""Virtual machine instructions of SQLite: a fraction of a millisecond."""


class IndexState(msgspec.Struct, frozen=True, kw_only=True):
    """`problem` is empty when nothing was found; `is_locked`: somebody writes to it all the while."""

    kind: Literal["absent", "ours", "older", "newer", "foreign"]
    problem: str = ""
    remedy: str | None = None
    is_locked: bool = False
    was_checked: bool = True
    """False when there was no time to read all of it."""


def inspect_index(path: Path, *, timeout_s: float) -> IndexState:
    """Blocks for at most about `timeout_s` and the patience with other writers (1.5 s)."""
    try:
        kind = _NAMES[judge(path)]
        if kind != "ours":
            return IndexState(kind=kind)
        connection = open_checked(path)
        with closing(connection):
            return _look(connection, time.monotonic() + timeout_s)
    except apsw.BusyError:
        problem = f"Another process has been writing to it for {PATIENCE_S:g} s."
        return IndexState(kind="ours", problem=problem, is_locked=True)
    except (apsw.Error, OSError) as error:
        told = index_unavailable(path, error)
        return IndexState(kind="ours", problem=told.message, remedy=told.remedy)


def _look(connection: apsw.Connection, ends: float) -> IndexState:
    connection.set_busy_timeout(milliseconds(PATIENCE_S))
    if not is_complete(connection):
        return IndexState(kind="ours", problem="Tables are missing.")
    connection.execute("BEGIN IMMEDIATE; ROLLBACK")
    connection.set_progress_handler(lambda: time.monotonic() > ends, _STEPS_BETWEEN_LOOKS)
    try:
        verdict: str = connection.execute("PRAGMA quick_check(1)").get
    except apsw.InterruptError:
        return IndexState(kind="ours", was_checked=False)
    return IndexState(kind="ours", problem="" if verdict == "ok" else f"{verdict}.")
