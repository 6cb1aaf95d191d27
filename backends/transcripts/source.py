"""What every kind of transcript offers to whoever takes conversations in, and how transcripts are listed and named."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, Protocol, TypeAlias

import msgspec

from backends.files.roots import Location
from backends.files.safe_open import IS_LINK, NOT_REGULAR, may_pass
from backends.interface import SkippedFile
from config.runtime.files import is_addressable

SUFFIX: Final = ".jsonl"
PREFIX: Final = "sessions/"
CLAUDE_PREFIX: Final = f"{PREFIX}claude-code@"
HASH_BYTES: Final = 16
MAX_LINE_BYTES: Final = 8 * 1024 * 1024
"""A longer line (an image in a message) is passed over; it still counts as a line."""


class FoundTranscript(msgspec.Struct, frozen=True, gc=False):
    """One transcript as it was when it was listed. Unchanged stamps mean an unchanged file."""

    path: str
    """Index path: `sessions/<file name>`, or `sessions/<session id>` of the host's database."""
    size: int
    """Bytes."""
    mtime_ns: int
    ctime_ns: int
    inode: int
    is_settled: bool = True
    """False while the host works out what is part of a conversation in its database."""

    @property
    def stamps(self) -> tuple[int, int, int, int]:
        return self.size, self.mtime_ns, self.ctime_ns, self.inode


class HostDatabase(msgspec.Struct, frozen=True):
    """The database in which the host keeps its sessions, as it was when it was listed."""

    path: str
    version: int | None = None
    """Its `user_version`; None where it could not be read."""
    is_known: bool = False
    """Whether this is the version that was tried."""
    failure: str | None = None
    """Why nothing is known of its sessions."""
    may_pass: bool = False
    left_out: Mapping[str, int] = {}
    """How many sessions are no conversations to remember, by reason."""
    ids: frozenset[str] = frozenset()
    """The ids of all its sessions, including those that are left out."""


class TranscriptListing(msgspec.Struct, frozen=True):
    files: tuple[FoundTranscript, ...] = ()
    """By name."""
    skipped: tuple[SkippedFile, ...] = ()
    failure: str | None = None
    """Why the directory could not be listed: nothing is known about its transcripts then."""
    may_pass: bool = False
    """Whether that may be otherwise the next time, without anybody's doing."""
    database: HostDatabase | None = None
    """None: the host has none."""
    claude: TranscriptListing | None = None
    """What of all this is of Claude Code; None where that is no source."""

    @property
    def failures(self) -> tuple[tuple[str, str, bool], ...]:
        """What could not be listed, why, and whether that may pass."""
        failed = []
        if self.failure is not None:
            failed.append(("sessions", self.failure, self.may_pass))
        if self.database is not None and self.database.failure is not None:
            failed.append((self.database.path, self.database.failure, self.database.may_pass))
        if self.claude is not None and self.claude.failure is not None:
            failed.append(("sessions of Claude Code", self.claude.failure, self.claude.may_pass))
        return tuple(failed)

    def tells_of(self, path: str) -> bool:
        """Whether a transcript of this path that is not listed does not exist."""
        if is_claude(path):
            return self.claude is None or self.claude.failure is None
        if is_file(path):
            return self.failure is None
        return self.database is None or self.database.failure is None


def is_claude(path: str) -> bool:
    """Whether this is the index path of a conversation of Claude Code."""
    return path.startswith(CLAUDE_PREFIX)


def is_file(path: str) -> bool:
    """Whether this is the index path of a JSONL file, not of a session in the host's database."""
    return path.endswith(SUFFIX)


def id_of(path: str) -> str:
    """The id of the session that an index path names, be it of a file or of the host's database."""
    return path.removeprefix(PREFIX).removesuffix(SUFFIX)


def list_transcripts(directory: Path) -> TranscriptListing:
    """Never raises for the state of the disk. A directory that does not exist has no transcripts."""
    try:
        with os.scandir(directory) as entries:
            listed = sorted(
                (entry for entry in entries if entry.name.endswith(SUFFIX)),
                key=lambda entry: entry.name,
            )
    except (FileNotFoundError, NotADirectoryError):
        return TranscriptListing()
    except OSError as error:
        return TranscriptListing(failure=error.strerror or str(error), may_pass=may_pass(error))
    return listing_of((entry, PREFIX + entry.name) for entry in listed)


def listing_of(entries: Iterable[tuple[os.DirEntry[str], str]]) -> TranscriptListing:
    """What these are, each under its index path; what vanished meanwhile is left out."""
    found = [_look_at(entry, path) for entry, path in entries]
    return TranscriptListing(
        files=tuple(one for one in found if isinstance(one, FoundTranscript)),
        skipped=tuple(one for one in found if isinstance(one, SkippedFile)),
    )


def location_of(directory: Path, path: str) -> Location:
    """Where the transcript with this index path is to be opened."""
    return Location(path=path, anchor=str(directory), names=(path.removeprefix(PREFIX),))


def transcript_path(directory: Path, reference: str) -> str | None:
    """The index path of what a client names: a session id, a file name or any path of the file.

    None for a path that leads elsewhere. Looks at directories only, so the file need not exist.
    """
    reference = reference.strip()
    parent, name = os.path.split(reference)
    inside = parent in {"", PREFIX.rstrip("/")} or (
        os.path.realpath(parent) == os.path.realpath(directory)
    )
    if not inside or not name or name in {".", ".."} or not is_addressable(name):
        return None
    return f"{PREFIX}{name if name.endswith(SUFFIX) else name + SUFFIX}"


def _look_at(entry: os.DirEntry[str], path: str) -> FoundTranscript | SkippedFile | None:
    """What stands there, under this index path; None when it vanished."""
    if not is_addressable(path):
        shown = os.fsencode(path).decode(errors="backslashreplace")
        return SkippedFile(path=shown, reason="its name is not valid UTF-8")
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return None  # it vanished since it was listed
    if not stat.S_ISREG(status.st_mode):
        is_link = stat.S_ISLNK(status.st_mode)
        return SkippedFile(path=path, reason=IS_LINK if is_link else NOT_REGULAR)
    return FoundTranscript(
        path, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino
    )


class Position(msgspec.Struct, frozen=True, gc=False):
    """Between two entries of a transcript, which are numbered in their order."""

    byte: int
    """Bytes of all entries before it."""
    line: int
    """Every entry before it has a number of at most this, every entry behind it a greater one."""


BEGINNING: Final = Position(0, 0)


class Entries(msgspec.Struct, frozen=True, gc=False):
    """Some entries of a transcript, from one place to another."""

    numbers: tuple[int, ...]
    """The number of each entry, counted from 1."""
    lines: tuple[bytes | None, ...]
    """Each as JSON; None for one that is too long, or broken."""
    end: Position
    digest: bytes
    """The digest of everything between the two places."""
    is_last: bool
    """Nothing follows."""


class OpenTranscript(Protocol):
    """One transcript, open for reading. Methods raise FileUnreadableError or OSError."""

    @property
    def found(self) -> FoundTranscript:
        """The stamps that it has, as far as it was read."""
        ...

    def read(self, begin: Position, until: int) -> Entries:
        """The entries behind `begin`, at least up to the byte `until` if there are so many."""
        ...

    def digest(self, begin: Position, end: Position) -> bytes:
        """What `Entries.digest` would be for these two places."""
        ...

    def tail(self, end: Position) -> bytes:
        """A hash of what stands just before a place: cheap, telling when it is another."""
        ...

    def is_current(self, end: Position) -> bool:
        """Whether the transcript still is the one that was opened, with all of it up to `end`."""
        ...


Taken: TypeAlias = "tuple[FoundTranscript, Position]"
"""What a transcript was when it was last looked at, and the place up to which it was taken in."""


class TranscriptSource(Protocol):
    """Where transcripts of one agent come from. May be used by several threads at once."""

    def listing(self) -> TranscriptListing:
        """Never raises for the state of the disk."""
        ...

    def measured(
        self, found: Sequence[FoundTranscript], taken: Mapping[str, Taken]
    ) -> tuple[FoundTranscript, ...]:
        """The listed transcripts with their sizes; `taken` by path, without those that are new."""
        ...

    def entries_beyond(self, found: FoundTranscript, end: Position) -> int:
        """How many entries of a listed transcript follow on a place, as far as one look may count."""
        ...

    def open(self, path: str, taken: Taken | None) -> AbstractContextManager[OpenTranscript]:
        """Raises FileNotFoundError, RefusedFileError, FileUnreadableError."""
        ...

    def is_gone(self, path: str) -> bool:
        """Whether no such transcript exists, for certain."""
        ...

    def path_of(self, reference: str) -> str | None:
        """The index path of what a client names."""
        ...

    def rendering(self, path: str) -> str:
        """Changes whenever the same transcript gives other text."""
        ...

    def render(self, path: str, line: bytes) -> str | None:
        """The turn that an entry is, as one line of text; None for all other entries."""
        ...
