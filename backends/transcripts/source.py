"""The interface of every kind of transcript, and how transcripts are listed and named."""

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
    """Its `user_version`; None if it could not be read."""
    is_known: bool = False
    """True if this is the version that was tested."""
    failure: str | None = None
    """The reason why nothing is known of its sessions."""
    may_pass: bool = False
    left_out: Mapping[str, int] = {}
    """The number of sessions that are not to be remembered, by reason."""
    ids: frozenset[str] = frozenset()
    """The ids of all its sessions, including those that are left out."""


class TranscriptListing(msgspec.Struct, frozen=True):
    files: tuple[FoundTranscript, ...] = ()
    """The transcripts in the order of their names."""
    skipped: tuple[SkippedFile, ...] = ()
    failure: str | None = None
    """The reason why the directory could not be listed; nothing is known about its transcripts then."""
    may_pass: bool = False
    """True if the next attempt may succeed without intervention."""
    database: HostDatabase | None = None
    """None if the host has none."""
    claude: TranscriptListing | None = None
    """The part of all this from Claude Code; None if that is not a source."""

    @property
    def failures(self) -> tuple[tuple[str, str, bool], ...]:
        """The places that could not be listed, each with the reason and whether that may pass."""
        failed = []
        if self.failure is not None:
            failed.append(("sessions", self.failure, self.may_pass))
        if self.database is not None and self.database.failure is not None:
            failed.append((self.database.path, self.database.failure, self.database.may_pass))
        if self.claude is not None and self.claude.failure is not None:
            failed.append(("sessions of Claude Code", self.claude.failure, self.claude.may_pass))
        return tuple(failed)

    def covers(self, path: str) -> bool:
        """Returns whether a transcript of this path that is not listed does not exist."""
        if is_claude(path):
            return self.claude is None or self.claude.failure is None
        if is_jsonl(path):
            return self.failure is None
        return self.database is None or self.database.failure is None


def is_claude(path: str) -> bool:
    """Returns whether this is the index path of a conversation of Claude Code."""
    return path.startswith(CLAUDE_PREFIX)


def is_jsonl(path: str) -> bool:
    """Returns whether this is the index path of a JSONL file, not of a session in the host's database."""
    return path.endswith(SUFFIX)


def id_of(path: str) -> str:
    """Returns the id of the session that an index path names, of a file or of the host's database."""
    return path.removeprefix(PREFIX).removesuffix(SUFFIX)


def list_transcripts(directory: Path) -> TranscriptListing:
    """Lists a directory, which need not exist. Never raises for the state of the disk."""
    try:
        with os.scandir(directory) as entries:
            found = (entry for entry in entries if entry.name.endswith(SUFFIX))
            listed = sorted(found, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return TranscriptListing()
    except OSError as error:
        return TranscriptListing(failure=error.strerror or str(error), may_pass=may_pass(error))
    return listing_of((entry, PREFIX + entry.name) for entry in listed)


def listing_of(entries: Iterable[tuple[os.DirEntry[str], str]]) -> TranscriptListing:
    """Returns the listing of entries with their index paths; those that vanished meanwhile are left out."""
    found = [_look_at(entry, path) for entry, path in entries]
    return TranscriptListing(
        files=tuple(one for one in found if isinstance(one, FoundTranscript)),
        skipped=tuple(one for one in found if isinstance(one, SkippedFile)),
    )


def location_of(directory: Path, path: str) -> Location:
    """Returns where to open the transcript with this index path."""
    return Location(path=path, anchor=str(directory), names=(path.removeprefix(PREFIX),))


def transcript_path(directory: Path, reference: str) -> str | None:
    """Returns the index path of what a client names: a session id, a file name or any path of the file.

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
    """Returns the transcript, or the skipped file, under this index path; None if it vanished."""
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
    """A place between two entries of a transcript, which are numbered in their order."""

    byte: int
    """The bytes of all entries before it."""
    line: int
    """Every entry before it has at most this number, every entry after it a greater one."""


BEGINNING: Final = Position(0, 0)


class Entries(msgspec.Struct, frozen=True, gc=False):
    """Some entries of a transcript, from one place to another."""

    numbers: tuple[int, ...]
    """The number of each entry, counted from 1."""
    lines: tuple[bytes | None, ...]
    """The entries as JSON; None for one that is too long or broken."""
    end: Position
    digest: bytes
    """The digest of everything between the two places."""
    is_last: bool
    """True if nothing follows."""


class OpenTranscript(Protocol):
    """One transcript, open for reading. Methods raise FileUnreadableError or OSError."""

    @property
    def found(self) -> FoundTranscript:
        """The transcript with its stamps, as far as it was read."""

    def read(self, begin: Position, until: int) -> Entries:
        """Returns the entries after `begin`, at least up to the byte `until` if there are so many."""

    def digest(self, begin: Position, end: Position) -> bytes:
        """Returns the `Entries.digest` of these two places."""

    def tail(self, end: Position) -> bytes:
        """Returns a hash of what is just before a place: cheap, and another one if that changed."""

    def is_current(self, end: Position) -> bool:
        """Returns whether it is still the transcript that was opened, with all of it up to `end`."""


Taken: TypeAlias = "tuple[FoundTranscript, Position]"
"""A transcript as it was when last looked at, and the place up to which it was taken in."""


class TranscriptSource(Protocol):
    """A source of transcripts of one agent. May be used by several threads at once."""

    def listing(self) -> TranscriptListing:
        """Lists the transcripts. Never raises for the state of the disk."""

    def measured(
        self, found: Sequence[FoundTranscript], taken: Mapping[str, Taken]
    ) -> tuple[FoundTranscript, ...]:
        """Returns the transcripts with their sizes; `taken` by path, without those that are new."""

    def entries_beyond(self, found: FoundTranscript, end: Position) -> int:
        """Returns the number of entries of a listed transcript after a place, as far as one look counts."""

    def open(self, path: str, taken: Taken | None) -> AbstractContextManager[OpenTranscript]:
        """Opens a transcript. Raises FileNotFoundError, RefusedFileError, FileUnreadableError."""

    def is_gone(self, path: str) -> bool:
        """Returns whether such a transcript certainly does not exist."""

    def path_of(self, reference: str) -> str | None:
        """Returns the index path of what a client names, if it is a transcript."""

    def rendering(self, path: str) -> str:
        """Returns a version that changes whenever the same transcript gives other text."""

    def render(self, path: str, line: bytes) -> str | None:
        """Returns the turn of an entry as one line of text; None for an entry that is not a turn."""
