"""The collections that QMD is to have, and the mapping between its names and real files; transcripts, which are
exported for it as Markdown: one file per conversation, one line per turn, secrets masked.
"""

from __future__ import annotations

import hashlib
import os
import os.path
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain, count
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from backends.files.globs import Glob
from backends.files.reading import read_located
from backends.files.roots import Location, MemoryRoots, Root, RootKind, is_below
from backends.files.scan import SECOND_LOOK_S, FoundFile, is_mass
from backends.interface import FileUnreadableError, PathNotAllowedError, ReadAnswer, ReadRequest
from backends.transcripts.source import (
    BEGINNING,
    SUFFIX,
    FoundTranscript,
    TranscriptListing,
    TranscriptSource,
    is_jsonl,
)
from backends.transcripts.source import PREFIX as TRANSCRIPTS
from config.runtime.decoding import prepared
from config.runtime.files import is_addressable, make_directories, replace_file, sha256_of
from config.settings import QmdSessionsSettings, Settings, Source

_NOT_IN_NAMES = re.compile(r"[^a-z0-9-]+")
_GLOB_CHARACTERS = re.compile(r"([*?\[\]{}()!+@\\,])")


class Collection(NamedTuple):
    """One collection. `pattern` is relative to the directory `path`, as QMD reads it."""

    name: str
    path: Path
    pattern: str
    source: Source
    root: Root
    """The root that says which files of it count as memory and how they are opened."""


class _Wish(NamedTuple):
    name: str
    path: Path
    pattern: str
    source: Source = "memory"


def plan_collections(
    settings: Settings, is_file: Callable[[Path], bool] = Path.is_file
) -> tuple[Collection, ...]:
    """Plans them in documented order, with unique names; of two wishes for the same files the first counts."""
    workspace = settings.workspace.absolute()
    planned: list[Collection] = []
    for wish in _wishes(settings, workspace, is_file):
        places = {(one.path, one.pattern) for one in planned}
        if (wish.path, wish.pattern) not in places:
            name = _unique(sanitise(wish.name), {one.name for one in planned})
            root = _root(wish.path, wish.pattern, workspace)
            planned.append(Collection(name, wish.path, wish.pattern, wish.source, root))
    return tuple(planned)


def sanitise(name: str) -> str:
    """Returns a name that is valid in QMD's addresses."""
    return _NOT_IN_NAMES.sub("-", name.lower()).strip("-") or "collection"


def _wishes(
    settings: Settings, workspace: Path, is_file: Callable[[Path], bool]
) -> Iterator[_Wish]:
    qmd = settings.qmd
    if qmd.include_default_memory:
        yield _Wish("memory-root", workspace, "MEMORY.md")
        yield _Wish("memory-alt", workspace, "memory.md")
        yield _Wish("memory-user", workspace, "USER.md")
        yield _Wish("memory-dir", workspace / "memory", "**/*.md")
    for entry in qmd.paths:
        if is_file(entry.path):
            yield _Wish(entry.name, entry.path.parent, _literal(entry.path.name))
        else:
            yield _Wish(entry.name, entry.path, entry.pattern)
    if qmd.sessions.enabled:
        yield _Wish("sessions", qmd.sessions.export_dir, "**/*.md", "sessions")


def _unique(name: str, taken: set[str]) -> str:
    candidates = (f"{name}-{number}" for number in count(2))
    return next(one for one in chain((name,), candidates) if one not in taken)


def _literal(name: str) -> str:
    return _GLOB_CHARACTERS.sub(r"\\\1", name)


def _root(path: Path, pattern: str, workspace: Path) -> Root:
    single = re.sub(r"\\(.)", r"\1", pattern)
    kind: RootKind = "directory"
    if _literal(single) == pattern and "/" not in pattern:
        path, kind, glob = path / single, "file", None
    else:
        glob = Glob(_union(pattern))
    return replace(Root.at(path, kind=kind), glob=glob).within(str(workspace))


def _union(pattern: str) -> str:
    """Puts patterns with commas between them, as QMD takes them, in braces, which mean the same here."""
    depth, parts, start = 0, [], 0
    for position, character in enumerate(pattern):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(pattern[start:position].strip())
            start = position + 1
    parts.append(pattern[start:].strip())
    return parts[0] if len(parts) == 1 else "{" + ",".join(parts) + "}"


PREFIX = "qmd/"
_UNSEEN = re.compile(r"(?:^|/)(?:\.[^/]*|node_modules|vendor|dist|build)(?=/|$)")


class CollectionRoots(MemoryRoots, frozen=True, dict=True):
    """The collections as roots, so that they are scanned and opened like all memory."""

    collections: tuple[Collection, ...] = ()

    @cached_property
    def all(self) -> tuple[Root, ...]:
        return tuple(one.root for one in self.collections)


class CollectionPlaces:
    """Every file that QMD may answer from or that may be read beside it."""

    def __init__(
        self, settings: Settings, planned: tuple[Collection, ...], exports: Exports
    ) -> None:
        self.exports = exports
        self.collections = {one.name: one for one in planned}
        self.roots = CollectionRoots(settings.workspace, collections=planned)
        notes = tuple(one for one in planned if one.source != "sessions")
        self._notes = CollectionRoots(settings.workspace, collections=notes)
        """The collections without the exports, which chat gateways recognise only as `qmd/sessions/<name>.md`."""
        self._memory = MemoryRoots.of(settings)

    def read(self, request: ReadRequest) -> ReadAnswer:
        """Reads like `backends.files.reading`, also below `qmd/<collection>/`. Blocks; same errors."""
        return read_located(self._locations(request.path.strip()), request)

    def locate(self, collection: str, path: str) -> Location | None:
        """Returns where to open a file of a collection; None if it is not permitted."""
        one = self.collections.get(collection)
        if one is None or not is_addressable(path) or path.startswith("/"):
            return None
        absolute = self.roots.absolute(f"{one.path}/{path}")
        if not one.root.permits(absolute) or self._is_strange(one, path):
            return None
        return one.root.location(absolute, self._shown(one, absolute))

    def absolute(self, path: str) -> str | None:
        """Returns where a file of this name would be; None if it is not permitted."""
        location = next(iter(self._locations(path)), None)
        return str(Path(location.anchor, *location.names)) if location else None

    def shown_path(self, path: str) -> str:
        """Returns the shown name for a path that is relative to the workspace, perhaps with `../`."""
        absolute = self.roots.absolute(path)
        if not is_below(absolute, self.roots.base):
            for one in self.collections.values():
                if one.root.permits(absolute):
                    return self._shown(one, absolute)
        return path

    def seen_by_qmd(self, files: Iterable[FoundFile]) -> dict[str, FoundFile]:
        """Returns those of the scanned files that QMD indexes, by shown name."""
        roots = self.roots
        return {
            self._shown(roots.collections[one.root], roots.absolute(one.path)): one
            for one in files
            if self._is_seen(one)
        }

    def source_of(self, path: str) -> Source:
        """Returns the kind of memory of a shown path."""
        return "sessions" if self.exports.of_hit(path) else "memory"

    def _is_seen(self, found: FoundFile) -> bool:
        """Returns whether QMD indexes the file: it leaves out hidden and vendor directories, and empty files."""
        one = self.roots.collections[found.root]
        below = os.path.relpath(self.roots.absolute(found.path), one.path)
        hidden = _UNSEEN.search(below) is not None or self._is_strange(one, below)
        return found.size > 0 and not hidden

    def _is_strange(self, one: Collection, below: str) -> bool:
        """Returns whether it is among the exports without being one: then it is not memory."""
        return one.source == "sessions" and self.exports.of_export(below) is None

    def _shown(self, one: Collection, absolute: str) -> str:
        if one.source == "sessions":
            record = self.exports.of_export(os.path.relpath(absolute, one.path))
            if record is not None:
                return TRANSCRIPTS + record.transcript
        if is_below(absolute, self.roots.base):
            return self.roots.index_path(absolute)
        return f"{PREFIX}{one.name}/{os.path.relpath(absolute, one.path)}"

    def _locations(self, path: str) -> tuple[Location, ...]:
        if path.startswith(PREFIX):
            collection, _, below = path.removeprefix(PREFIX).partition("/")
            location = self.locate(collection, below)
            if location is not None:
                named = self.exports.of_export(below) and replace(location, path=path)
                return (named or location,)
        return (*self._memory.locate(path), *self._notes.locate(path))


# --- Exports --------------------------------------------------------------------------------------

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
        return self.lines[turn] if is_jsonl(self.transcript) else turn + 1

    def events(self, first: int, last: int) -> tuple[int, int] | None:
        """Returns the events of the host's database for lines of the export; None if it is not from there."""
        if is_jsonl(self.transcript):
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
        return (
            self.records.get(path.removeprefix(TRANSCRIPTS))
            if path.startswith(TRANSCRIPTS)
            else None
        )

    def refresh(self) -> None:
        """Brings the exports up to date. Never raises for the state of the disk: see `issues`."""
        records = dict(self.records)
        issues: list[str] = []
        listing = self._transcripts.listing() if self._settings.enabled else TranscriptListing()
        issues += [f"{path} cannot be listed: {why}." for path, why, _ in listing.failures]
        wanted = self._wanted(listing)
        there = {one.path for one in listing.files}
        gone = {
            name
            for name in records
            if TRANSCRIPTS + name not in there and listing.covers(TRANSCRIPTS + name)
        }
        kept = gone if self._settings.enabled and self._must_wait(len(gone), issues) else set()
        for name in sorted(records.keys() - wanted.keys() - kept):
            if listing.covers(TRANSCRIPTS + name):
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
            one.path.removeprefix(TRANSCRIPTS): one
            for one in listing.files
            if one.mtime_ns >= oldest_ns
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
    path, place, is_last = TRANSCRIPTS + name, BEGINNING, False
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
