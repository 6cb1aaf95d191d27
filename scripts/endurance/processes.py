"""Processes seen from outside, through Linux's /proc: which there are, and what one of them uses."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

import msgspec

_MIB: Final = 1 << 20


def processes_of(mark: str) -> list[int]:
    """Returns the processes that have `mark` in their command line or environment, without this one."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                places = (entry / "cmdline", entry / "environ")
                if any(os.fsencode(mark) in place.read_bytes() for place in places):
                    found.append(int(entry.name))
    return found


def has_ended(pid: int) -> bool:
    """Returns whether the process is gone, or is a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


def resident_mib(pid: int) -> float:
    pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / _MIB


class Sample(msgspec.Struct, frozen=True):
    at_s: float
    """The seconds since the sampler started."""
    resident_mib: float
    anonymous_mib: float
    """The resident memory that is not part of a file."""
    descriptors: int
    threads: int
    children: int
    database_mib: float
    wal_mib: float
    vectors: int
    """Those in the cache of embeddings."""
    log_mib: float
    """The size of what it wrote to standard error by then."""


class Sampler:
    """Takes samples of one gateway, its log and its index; appends each to `record` as a line of JSON."""

    def __init__(self, pid: int, index: Path, log: Path, record: Path | None = None) -> None:
        self._log = log
        self._record = record
        self._pid = pid
        self._process = Path(f"/proc/{pid}")
        self._index = index
        self._started = time.monotonic()
        self.samples: list[Sample] = []

    def take(self) -> None:
        status = dict(
            line.split(":", 1) for line in (self._process / "status").read_text().splitlines()
        )
        sample = Sample(
            at_s=time.monotonic() - self._started,
            resident_mib=resident_mib(self._pid),
            anonymous_mib=int(status["RssAnon"].split()[0]) / 1024,
            descriptors=sum(1 for _ in (self._process / "fd").iterdir()),
            threads=int(status["Threads"]),
            children=len(self._children()),
            database_mib=_size(self._index) / _MIB,
            wal_mib=_size(self._index.with_name(self._index.name + "-wal")) / _MIB,
            vectors=_vectors(self._index),
            log_mib=_size(self._log) / _MIB,
        )
        self.samples.append(sample)
        if self._record is not None:
            with self._record.open("ab") as record:
                record.write(msgspec.json.encode(sample) + b"\n")

    def _children(self) -> list[str]:
        found: list[str] = []
        for task in (self._process / "task").iterdir():
            try:
                found += (task / "children").read_text().split()
            except FileNotFoundError:
                continue  # a thread that ended meanwhile
        return found


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _vectors(index: Path) -> int:
    with closing(sqlite3.connect(f"file:{index}?mode=ro", uri=True)) as connection:
        (found,) = connection.execute("SELECT count(*) FROM embeddings").fetchone()
    return int(found)
