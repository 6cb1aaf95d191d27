"""Transcripts as JSONL files: finding them, how much they grew, and reading their lines.

Those of Claude Code are below its projects, one directory per project. They are named
`sessions/claude-code@<project>@<session>.jsonl` here, and read like all others; no link is followed below the
directory of the projects. Blocks; may be used by several threads at once.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from backends.files.roots import Location
from backends.files.safe_open import is_absent, may_pass, opened
from backends.interface import FileUnreadableError, PathNotAllowedError
from backends.transcripts.source import (
    CLAUDE_PREFIX,
    HASH_BYTES,
    MAX_LINE_BYTES,
    PREFIX,
    SUFFIX,
    Entries,
    FoundTranscript,
    Position,
    Taken,
    TranscriptListing,
    is_claude,
    list_transcripts,
    listing_of,
    location_of,
    transcript_path,
)
from backends.transcripts.turns import (
    RENDERING_VERSION,
    decoded_leniently,
    joined,
    render_turn,
    speaker_of,
    texts_of,
)
from config.runtime.files import is_addressable

_COUNTED_BYTES: Final = 8 * 1024 * 1024
"""The most that one look counts; the next one continues from there."""
TAIL_BYTES: Final = 4096
_BLOCK_BYTES: Final = 256 * 1024
_VERSION: Final = f"claude 1, {RENDERING_VERSION}"
_TURNS: Final = ("user", "assistant")
_NOT_SAID: Final = ("isSidechain", "isMeta", "isCompactSummary", "isApiErrorMessage")
"""Marks of entries that neither the user nor the assistant of this conversation said."""
_INSERTED: Final = re.compile(
    r"<(system-reminder|command-(?:name|message|args|contents)|local-command-(?:stdout|stderr|caveat)"
    r"|bash-(?:input|stdout|stderr)|ide_(?:opened_file|selection|diagnostics)|task-notification)>"
    r".*?(?:</\1>|\Z)",
    re.DOTALL,
)
"""The blocks that the program puts into the user's messages."""
_INTERRUPTED: Final = "[Request interrupted by user"


class _Counted(NamedTuple):
    inode: int
    since: int
    until: int
    lines: int


class JsonlTranscripts:
    """The files in one directory. See `TranscriptSource`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._counted: dict[str, _Counted] = {}
        """The counts by path, remembered only to save reading."""

    def listing(self) -> TranscriptListing:
        listing = list_transcripts(self._directory)
        self._keep_counts(found.path for found in listing.files)
        return listing

    def measured(
        self, found: Sequence[FoundTranscript], _taken: Mapping[str, Taken]
    ) -> tuple[FoundTranscript, ...]:
        return tuple(found)

    def entries_beyond(self, found: FoundTranscript, end: Position) -> int:
        counted = self._counted.get(found.path)
        if (
            counted is None
            or (counted.inode, counted.since) != (found.inode, end.byte)
            or counted.until > found.size
        ):
            counted = _Counted(found.inode, end.byte, end.byte, 0)
        if counted.until == found.size:
            return counted.lines
        until = min(found.size, counted.until + _COUNTED_BYTES)
        try:
            with opened(self._location(found.path)) as descriptor:
                lines = count_lines(descriptor, counted.until, until)
        except (FileNotFoundError, FileUnreadableError, PathNotAllowedError):
            return 0  # the step that takes it in reports it
        counted = counted._replace(until=until, lines=counted.lines + lines)
        self._counted[found.path] = counted
        return counted.lines

    @contextmanager
    def open(self, path: str, _taken: Taken | None) -> Iterator[OpenFile]:
        with opened(self._location(path)) as descriptor:
            yield OpenFile(self._file(path), path, descriptor)

    def is_gone(self, path: str) -> bool:
        return is_absent(self._file(path))

    def path_of(self, reference: str) -> str | None:
        return transcript_path(self._directory, reference)

    def rendering(self, _path: str) -> str:
        return RENDERING_VERSION

    def render(self, _path: str, line: bytes) -> str | None:
        return render_turn(line)

    def _keep_counts(self, paths: Iterable[str]) -> None:
        for path in self._counted.keys() - set(paths):
            self._counted.pop(path, None)

    def _location(self, path: str) -> Location:
        return location_of(self._directory, path)

    def _file(self, path: str) -> Path:
        return self._directory / path.removeprefix(PREFIX)


class OpenFile:
    """See `OpenTranscript`."""

    def __init__(self, file: Path, path: str, descriptor: int) -> None:
        self._file, self._descriptor = file, descriptor
        status = os.fstat(descriptor)
        self.found = FoundTranscript(
            path, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino
        )

    def read(self, begin: Position, until: int) -> Entries:
        stretch = read_stretch(self._descriptor, begin.byte, until)
        end = Position(stretch.end, begin.line + len(stretch.lines))
        numbers = tuple(range(begin.line + 1, end.line + 1))
        return Entries(numbers, stretch.lines, end, stretch.digest, stretch.is_last)

    def digest(self, begin: Position, end: Position) -> bytes:
        return digest_of(self._descriptor, begin.byte, end.byte)

    def tail(self, end: Position) -> bytes:
        return tail_of(self._descriptor, end.byte)

    def is_current(self, end: Position) -> bool:
        try:
            now = self._file.lstat()
        except OSError:
            return False
        return now.st_ino == self.found.inode and now.st_size >= end.byte


class LineStretch(NamedTuple):
    """Complete lines of a file from one offset on."""

    lines: tuple[bytes | None, ...]
    """The lines without their newlines; None for one that was too long."""
    end: int
    """The offset after the last newline; the start if no line was complete."""
    digest: bytes
    """The digest of all bytes from the start to the end."""
    is_last: bool
    """True if no complete line follows."""


def read_stretch(descriptor: int, start: int, until: int) -> LineStretch:
    """Returns the complete lines from `start` on, at least up to `until` if there are so many. Raises OSError."""
    lines: list[bytes | None] = []
    end, digest, is_last = start, hashlib.blake2b(digest_size=HASH_BYTES), False
    with open(descriptor, "rb", buffering=_BLOCK_BYTES, closefd=False) as file:
        file.seek(start)
        while end < until and not is_last:
            size, line, ahead, piece = 0, bytearray(), digest.copy(), b"\0"
            while piece and not piece.endswith(b"\n"):
                piece = file.readline(_BLOCK_BYTES)
                ahead.update(piece)
                size += len(piece)
                if size <= MAX_LINE_BYTES:
                    line += piece
            is_last = not piece
            if piece:
                lines.append(bytes(line[:-1]) if size <= MAX_LINE_BYTES else None)
                end, digest = end + size, ahead
    return LineStretch(tuple(lines), end, digest.digest(), is_last)


def digest_of(descriptor: int, start: int, end: int) -> bytes:
    """Returns the hash of a range of the file, to compare with that of a stretch. Raises OSError."""
    digest = hashlib.blake2b(digest_size=HASH_BYTES)
    for block in _blocks(descriptor, start, end):
        digest.update(block)
    return digest.digest()


def tail_of(descriptor: int, end: int) -> bytes:
    """Returns the hash of the last bytes before `end`: cheap, and another one if the file was rewritten."""
    return digest_of(descriptor, max(0, end - TAIL_BYTES), end)


def count_lines(descriptor: int, start: int, end: int) -> int:
    """Returns the number of newlines in a range of the file. Raises OSError."""
    return sum(block.count(b"\n") for block in _blocks(descriptor, start, end))


def _blocks(descriptor: int, start: int, end: int) -> Iterator[bytes]:
    while start < end and (block := os.pread(descriptor, min(_BLOCK_BYTES, end - start), start)):
        yield block
        start += len(block)


class ClaudeTranscripts(JsonlTranscripts):
    """The files of all projects. See `TranscriptSource`."""

    def listing(self) -> TranscriptListing:
        try:
            projects = sorted(
                entry.name
                for entry in os.scandir(self._directory)
                if is_addressable(entry.name) and entry.is_dir(follow_symlinks=False)
            )
            listing = listing_of(one for project in projects for one in self._in(project))
        except (FileNotFoundError, NotADirectoryError):
            return TranscriptListing()
        except OSError as error:
            return TranscriptListing(failure=error.strerror or str(error), may_pass=may_pass(error))
        self._keep_counts(found.path for found in listing.files)
        return listing

    def path_of(self, reference: str) -> str | None:
        """Returns the index path of a session named by its index path or by the path of its file."""
        reference = reference.strip()
        if is_claude(reference):
            return reference if reference.endswith(SUFFIX) else None
        parent, name = os.path.split(reference)
        above, project = os.path.split(parent)
        if not above or os.path.realpath(above) != os.path.realpath(self._directory):
            return None
        is_one = name.endswith(SUFFIX) and project and is_addressable(name)
        return f"{CLAUDE_PREFIX}{project}@{name}" if is_one else None

    def rendering(self, _path: str) -> str:
        return _VERSION

    def render(self, _path: str, line: bytes) -> str | None:
        return render_entry(line)

    def _location(self, path: str) -> Location:
        project, _, name = path.removeprefix(CLAUDE_PREFIX).rpartition("@")
        return Location(path=path, anchor=str(self._directory), names=(project, name))

    def _file(self, path: str) -> Path:
        return self._directory.joinpath(*self._location(path).names)

    def _in(self, project: str) -> Iterator[tuple[os.DirEntry[str], str]]:
        """Yields the transcripts of a project, each with its index path."""
        try:
            entries = sorted(os.scandir(self._directory / project), key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return  # it vanished since it was listed
        for entry in entries:
            # Subagents of a conversation have files of their own.
            if entry.name.endswith(SUFFIX) and not entry.name.startswith("agent-"):
                yield entry, f"{CLAUDE_PREFIX}{project}@{entry.name}"


def render_entry(line: bytes) -> str | None:
    """Returns `User: ...` or `Assistant: ...` for an entry that is such a turn; None for every other one."""
    try:
        entry = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        entry = decoded_leniently(line)
    if not isinstance(entry, dict) or entry.get("type") not in _TURNS:
        return None
    message = entry.get("message")
    if not isinstance(message, dict) or any(entry.get(mark) is True for mark in _NOT_SAID):
        return None
    speaker = speaker_of(message.get("role"))
    said = [_INSERTED.sub("", text) for text in texts_of(message.get("content"))]
    text = joined(one for one in said if not one.startswith(_INTERRUPTED))
    return f"{speaker}: {text}" if speaker and text else None
