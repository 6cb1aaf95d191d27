"""What every kind of transcript offers to whoever takes conversations in.

Owns the words of the interface: a place in a transcript, a stretch of entries, an open transcript, and a
source of transcripts. Whether they are files of lines or rows of a database stays behind it. All of it
blocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final, NamedTuple, Protocol, TypeAlias

from backends.transcripts.listing import FoundTranscript, TranscriptListing


class Place(NamedTuple):
    """Between two entries of a transcript, which are numbered in their order."""

    byte: int
    """Bytes of all entries before it."""
    line: int
    """Every entry before it has a number of at most this, every entry behind it a greater one."""


BEGINNING: Final = Place(0, 0)


class Entries(NamedTuple):
    """Some entries of a transcript, from one place to another."""

    numbers: tuple[int, ...]
    """Of each; counted from 1."""
    lines: tuple[bytes | None, ...]
    """Each as JSON; None for one that is too long, or broken."""
    end: Place
    digest: bytes
    """Of everything between the two places."""
    is_last: bool
    """Nothing follows."""


class OpenTranscript(Protocol):
    """One transcript, open for reading. Methods raise FileUnreadableError or OSError."""

    @property
    def found(self) -> FoundTranscript:
        """The stamps that it has, as far as it was read."""
        ...

    def read(self, begin: Place, until: int) -> Entries:
        """The entries behind `begin`, at least up to the byte `until` if there are so many."""
        ...

    def digest(self, begin: Place, end: Place) -> bytes:
        """What `Entries.digest` would be for these two places."""
        ...

    def tail(self, end: Place) -> bytes:
        """A hash of what stands just before a place: cheap, telling when it is another."""
        ...

    def is_current(self, end: Place) -> bool:
        """Whether the transcript still is the one that was opened, with all of it up to `end`."""
        ...


Taken: TypeAlias = "tuple[FoundTranscript, Place]"
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

    def entries_beyond(self, found: FoundTranscript, end: Place) -> int:
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
