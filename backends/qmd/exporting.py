"""Transcripts as Markdown for QMD: one file per conversation, one line per turn, secrets masked."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from backends.files.scan import SECOND_LOOK_S, is_mass
from backends.interface import FileUnreadableError, PathNotAllowedError
from backends.transcripts.source import (
    BEGINNING,
    PREFIX,
    SUFFIX,
    FoundTranscript,
    TranscriptListing,
    TranscriptSource,
    is_file,
)
from config.runtime.decoding import prepared
from config.runtime.files import make_directories, replace_file, sha256_of
from config.settings import QmdSessionsSettings

HEADING_LINES: Final = 2
"""The number of lines of an export before its first turn."""
_SUFFIX: Final = ".json"

Stamp = tuple[int, int, int]
"""Size, modification time in nanoseconds and inode of a file."""


class ExportRecord(msgspec.Struct, frozen=True):
    """One export."""

    transcript: str
    """The name of its file, or the id of its session in the host's database."""
    path: str
    """Absolute path of the export."""
    source: tuple[int, ...]
    """The stamp of the transcript when it was read."""
    rendering: str
    digests: tuple[str, ...]
    """The digests of the files that may be at `path`: two only while one replaces the other."""
    stamp: Stamp | None = None
    """The stamp of the export, once it is written."""
    lines: tuple[int, ...] = ()
    """The number of the transcript's entry, from 1, for every turn of the export."""

    def transcript_line(self, line: int) -> int:
        """Returns the line of the file, or of the conversation as it is read, for a line of the export (from 1)."""
        turn = self._turn(line)
        return self.lines[turn] if is_file(self.transcript) else turn + 1

    def events(self, first: int, last: int) -> tuple[int, int] | None:
        """Returns the events of the host's database for lines of the export; None if it is not from there."""
        if is_file(self.transcript):
            return None
        return self.lines[self._turn(first)] - 1, self.lines[self._turn(last)] - 1

    def _turn(self, line: int) -> int:
        """Returns the number of the turn, from 0; the heading belongs to the first turn."""
        return min(max(0, line - HEADING_LINES - 1), len(self.lines) - 1)

    @property
    def is_written(self) -> bool:
        """True if the export exists and is unchanged since it was written."""
        return self.stamp is not None and stamp_of(Path(self.path)) == self.stamp

    @property
    def may_replace(self) -> bool:
        """True if nothing but our own text would be lost. Raises OSError."""
        path = Path(self.path)
        if not os.path.lexists(path):
            return True
        if path.is_symlink() or not path.is_file():
            return False
        return self.is_written or sha256_of(path) in self.digests


def read_records(directory: Path) -> dict[str, ExportRecord]:
    """Reads the records, by name of the transcript; an unreadable one is ignored, and so is its export."""
    records = {}
    for file in sorted(directory.glob(f"*{_SUFFIX}")):
        try:
            record = msgspec.json.decode(file.read_bytes(), type=prepared(ExportRecord))
        except (OSError, msgspec.DecodeError):
            continue
        if record.lines:
            records[record.transcript] = record
    return records


def write_record(directory: Path, record: ExportRecord) -> None:
    """Raises OSError."""
    replace_file(_file(directory, record), msgspec.json.encode(record))


def stamp_of(path: Path) -> Stamp | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino


def _file(directory: Path, record: ExportRecord) -> Path:
    name = hashlib.sha256(record.transcript.encode()).hexdigest()[:32]
    return directory / (name + _SUFFIX)


_DAY_NS: Final = 24 * 3600 * 1_000_000_000
_STEP_BYTES: Final = 1024 * 1024
_EXPORT_SUFFIX: Final = ".md"


class Exports:
    """The exported transcripts of one agent, by the transcript's name: of its file, or its session."""

    def __init__(
        self, transcripts: TranscriptSource, settings: QmdSessionsSettings, ledger: Path
    ) -> None:
        self._transcripts = transcripts
        self._settings = settings
        self._ledger = ledger
        self._records: Mapping[str, ExportRecord] | None = None
        self._missed_since: float | None = None
        self.issues: tuple[str, ...] = ()
        """The reasons why transcripts are missing, or exports are left that should be gone."""

    @property
    def records(self) -> Mapping[str, ExportRecord]:
        """All records of exports; read from the disk on first use."""
        if self._records is None:
            self._records = read_records(self._ledger)
        return self._records

    def of_export(self, path: str) -> ExportRecord | None:
        """Returns the record of a file of the collection, by its path there."""
        stem = path.removesuffix(_EXPORT_SUFFIX)
        for name in (stem, stem + SUFFIX):
            record = self.records.get(name)
            if record and record.path == str(self._settings.export_dir / path):
                return record
        return None

    def of_hit(self, path: str) -> ExportRecord | None:
        """Returns the record of the export that is shown as `sessions/<name>`."""
        return self.records.get(path.removeprefix(PREFIX)) if path.startswith(PREFIX) else None

    def refresh(self) -> None:
        """Brings the exports up to date. Never raises for the state of the disk: see `issues`."""
        records = dict(self.records)
        issues: list[str] = []
        listing = self._transcripts.listing() if self._settings.enabled else TranscriptListing()
        issues += [f"{path} cannot be listed: {why}." for path, why, _ in listing.failures]
        wanted = self._wanted(listing)
        there = {one.path for one in listing.files}
        gone = {
            name for name in records if PREFIX + name not in there and listing.covers(PREFIX + name)
        }
        kept = gone if self._settings.enabled and self._must_wait(len(gone), issues) else set()
        for name in sorted(records.keys() - wanted.keys() - kept):
            if listing.covers(PREFIX + name):
                self._remove(records, name, issues)
        for name, found in wanted.items():
            try:
                self._export(records, name, found)
            except FileNotFoundError:
                continue  # it vanished since it was listed; the next refresh sees that
            except (OSError, PathNotAllowedError, FileUnreadableError) as error:
                issues.append(f"The transcript {name!r} is not exported: {error}")
        self._records, self.issues = records, tuple(issues)

    def _must_wait(self, gone: int, issues: list[str]) -> bool:
        """Returns whether so many transcripts are gone at once that their disk may be away: see `is_mass`."""
        total = len(self.records)
        if not is_mass(gone, total):
            self._missed_since = None
            return False
        now = time.monotonic()
        self._missed_since = self._missed_since or now
        if now - self._missed_since >= SECOND_LOOK_S:
            return False
        issues.append(
            f"{gone:,} of {total:,} exported transcripts are gone at once: their exports stay until a look "
            f"{SECOND_LOOK_S:g} s later misses them, too."
        )
        return True

    def _wanted(self, listing: TranscriptListing) -> dict[str, FoundTranscript]:
        """Returns the transcripts to export, by name."""
        days = self._settings.retention_days
        oldest_ns = time.time_ns() - days * _DAY_NS if days else 0
        return {
            one.path.removeprefix(PREFIX): one for one in listing.files if one.mtime_ns >= oldest_ns
        }

    def _export(self, records: dict[str, ExportRecord], name: str, found: FoundTranscript) -> None:
        target = self._settings.export_dir / f"{name.removesuffix(SUFFIX)}{_EXPORT_SUFFIX}"
        known = records.get(name)
        if known is not None and known.path != str(target):
            self._retract(known)
            del records[name]
            known = None
        rendering = self._transcripts.rendering(found.path)
        same = known is not None and (known.source, known.rendering) == (found.stamps, rendering)
        if known is not None and same and known.is_written:
            return
        record = ExportRecord(name, str(target), found.stamps, rendering, digests=())
        written = self._write(record, known)
        if written is not None:
            records[name] = written
        elif known is not None:
            self._retract(known)
            del records[name]

    def _write(self, record: ExportRecord, known: ExportRecord | None) -> ExportRecord | None:
        """Writes the export and returns its record; None for a conversation without turns."""
        target = Path(record.path)
        for directory in (self._ledger, target.parent):
            make_directories(directory)
        if not (known or record).may_replace:
            raise _changed_by_hand(target)
        making = target.with_name(f".{target.name}.making")
        making.unlink(missing_ok=True)  # of a gateway that was killed
        try:
            digest, lines = self._render(record.transcript, making)
            record = msgspec.structs.replace(record, digests=(digest,), lines=lines)
            return self._put_in_place(making, record, known) if lines else None
        finally:
            making.unlink(missing_ok=True)

    def _render(self, name: str, making: Path) -> tuple[str, tuple[int, ...]]:
        """Writes the text; returns its digest, and the number of the transcript's entry for every turn."""
        digest, numbers = hashlib.sha256(), []
        with making.open("xb") as file:
            os.fchmod(file.fileno(), 0o600)
            for number, text in _texts(self._transcripts, name):
                data = text.encode()
                file.write(data)
                digest.update(data)
                if number:
                    numbers.append(number)
            file.flush()
            os.fsync(file.fileno())
        return digest.hexdigest(), tuple(numbers)

    def _put_in_place(
        self, making: Path, record: ExportRecord, known: ExportRecord | None
    ) -> ExportRecord:
        target = Path(record.path)
        if known is None or not known.is_written or known.digests != record.digests:
            # Both files are ours until the new one has replaced the old one.
            both = (*(known.digests if known else ()), *record.digests)
            write_record(self._ledger, msgspec.structs.replace(record, digests=both))
            making.replace(target)
        record = msgspec.structs.replace(record, stamp=stamp_of(target))
        write_record(self._ledger, record)
        return record

    def _remove(self, records: dict[str, ExportRecord], name: str, issues: list[str]) -> None:
        try:
            self._retract(records[name])
            del records[name]
        except OSError as error:
            issues.append(f"{records[name].path} should be gone and is left: {error}.")

    def _retract(self, record: ExportRecord) -> None:
        if not record.may_replace:
            raise _changed_by_hand(Path(record.path))
        Path(record.path).unlink(missing_ok=True)
        _file(self._ledger, record).unlink(missing_ok=True)


def _texts(transcripts: TranscriptSource, name: str) -> Iterator[tuple[int, str]]:
    """Yields the pieces of the export, each turn with the number of its line in the transcript."""
    yield 0, f"# Session {' '.join(name.removesuffix(SUFFIX).split())}\n\n"
    path, place, is_last = PREFIX + name, BEGINNING, False
    with transcripts.open(path, None) as opened:
        while not is_last:
            entries = opened.read(place, place.byte + _STEP_BYTES)
            for number, line in zip(entries.numbers, entries.lines, strict=True):
                turn = transcripts.render(path, line) if line is not None else None
                if turn is not None:
                    yield number, turn + "\n"
            place, is_last = entries.end, entries.is_last


def _changed_by_hand(path: Path) -> OSError:
    return OSError(f"{path} is not as the gateway wrote it, so it is left alone")
