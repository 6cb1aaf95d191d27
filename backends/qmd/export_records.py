"""What the gateway remembers of every transcript that it exported: whose it is, and which line is which.

Owns one small file an export, in the home of QMD. Only what a record describes, byte for byte, is ever
replaced or deleted. Blocks.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

import msgspec

from backends.transcripts.listing import is_file
from config.disk.replacing import replace_file

HEADING_LINES: Final = 2
"""Of an export, before its first turn."""
_SUFFIX: Final = ".json"

Stamp = tuple[int, int, int]
"""Size, modification time in nanoseconds and inode of a file."""


class Record(msgspec.Struct, frozen=True):
    """One export."""

    transcript: str
    """Its name: of its file, or the id of its session in the host's database."""
    path: str
    """Absolute path of the export."""
    source: tuple[int, ...]
    """The stamp of the transcript when it was read."""
    rendering: str
    digests: tuple[str, ...]
    """Of what may stand at `path`: two only while one replaces the other."""
    stamp: Stamp | None = None
    """Of the export, once it is written."""
    lines: tuple[int, ...] = ()
    """The number of the transcript's entry, from 1, for every turn of the export."""

    def transcript_line(self, line: int) -> int:
        """For a line of the export, from 1: of the file, or of the conversation as it is read."""
        turn = self._turn(line)
        return self.lines[turn] if is_file(self.transcript) else turn + 1

    def events(self, first: int, last: int) -> tuple[int, int] | None:
        """For lines of the export: the events of the host's database, if it is from there."""
        if is_file(self.transcript):
            return None
        return self.lines[self._turn(first)] - 1, self.lines[self._turn(last)] - 1

    def _turn(self, line: int) -> int:
        """Counted from 0; the heading belongs to the first turn."""
        return min(max(0, line - HEADING_LINES - 1), len(self.lines) - 1)

    @property
    def is_written(self) -> bool:
        """Whether the export is there, untouched since."""
        return self.stamp is not None and stamp_of(Path(self.path)) == self.stamp

    @property
    def may_replace(self) -> bool:
        """Whether nothing but our own writing would be lost. Raises OSError."""
        path = Path(self.path)
        if not os.path.lexists(path):
            return True
        if path.is_symlink() or not path.is_file():
            return False
        return self.is_written or digest_of_file(path) in self.digests


def read_records(directory: Path) -> dict[str, Record]:
    """By the name of the transcript; an unreadable record is none, and its export nobody's."""
    records = {}
    for file in sorted(directory.glob(f"*{_SUFFIX}")):
        try:
            record = msgspec.json.decode(file.read_bytes(), type=Record)
        except (OSError, msgspec.DecodeError):
            continue
        if record.lines:
            records[record.transcript] = record
    return records


def write_record(directory: Path, record: Record) -> None:
    """Raises OSError."""
    replace_file(_file(directory, record), msgspec.json.encode(record))


def drop_record(directory: Path, record: Record) -> None:
    """Raises OSError."""
    _file(directory, record).unlink(missing_ok=True)


def stamp_of(path: Path) -> Stamp | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino


def digest_of_file(path: Path) -> str:
    """Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _file(directory: Path, record: Record) -> Path:
    name = hashlib.sha256(record.transcript.encode()).hexdigest()[:32]
    return directory / (name + _SUFFIX)
