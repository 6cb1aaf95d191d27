"""Whether an index with a long history holds what a fresh one of the same files holds.

Notes chunk by chunk. Turns of different steps never share a chunk, so a transcript that grew under the
eyes of the gateway is cut elsewhere: of transcripts the text is compared, which chunks together hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from benchmarks.index_files import look_into, rows

_SESSIONS: Final = "sessions/"


def differences(index: Path, fresh: Path) -> list[str]:
    """What is wrong with the index, in words; empty for a good one."""
    faults = [f"the index is damaged: {fault}" for fault in look_into(index).faults]
    ours, theirs = rows(index), rows(fresh)
    if set(_notes(ours)) != set(_notes(theirs)):
        paths = {str(row[0]) for row in set(_notes(ours)) ^ set(_notes(theirs))}
        faults.append(f"chunks differ from those of a fresh index: {sorted(paths)[:5]}")
    if dict(_transcripts(ours)) != dict(_transcripts(theirs)):
        faults.append("the text of transcripts differs from that of a fresh index")
    return faults


def _notes(found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [row for row in found if not row[0].startswith(_SESSIONS)]


def _transcripts(found: list[tuple[Any, ...]]) -> Iterator[tuple[str, str]]:
    sessions = [row for row in found if row[0].startswith(_SESSIONS)]
    for path, chunks in groupby(sessions, key=lambda row: row[0]):
        whole = ""
        for chunk in chunks:
            start, text = chunk[1], chunk[5]
            whole = whole[:start].ljust(start) + text
        yield str(path), whole
