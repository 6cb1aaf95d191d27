"""What searching, syncing, embedding and batch jobs need from a store, whatever keeps the rows.

A `Store` gives views for reading and writers for changing; both are transactions. Ids are a store's own and mean nothing
outside of it. Everything blocks and may be called from any thread, but one view is used by one thread at a time. Whatever
the engine below cannot do becomes an IndexUnavailableError.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

import msgspec

from config.settings import Source

if TYPE_CHECKING:
    from backends.ranking.evidence import Background, Candidate, Excerpt
    from backends.ranking.query import Concept
    from config.settings import VectorStoreSettings
    from providers.interface import Fingerprint, Vector


# --- What is searched ----------------------------------------------------------------------------


class Corpus(NamedTuple):
    """The whole index, as far as every search needs it."""

    documents: int
    """All chunks."""
    languages: tuple[str, ...]
    """The Latin-script languages in which stored texts were stemmed, in the order of their names."""
    sources: frozenset[Source]
    """Those that have files."""


class Word(NamedTuple):
    """One index term, or, of a prefix, all that begin with it."""

    term: str
    is_prefix: bool


class Lookup(NamedTuple):
    """Which words are looked up, in which order, and how many chunks are scored."""

    tiers: Sequence[Sequence[Concept]]
    """Each is looked up as a whole, until there are `enough` chunks; the scores of several add up."""
    most: int
    """Chunks that one tier scores; of more the newest."""
    enough: int


BODY_WEIGHT: Final = 1.0
CONTEXT_WEIGHT: Final = 0.5
"""Titles, headings, file name and date count, but less than what the note says."""


class Matches(Protocol):
    """The chunks that hold words of one lookup, scored by BM25."""

    def best(self, limit: int, offset: int = 0) -> list[Candidate]:
        """The next best chunks; equal ones by path and place."""
        ...

    def of(self, chunk_ids: Sequence[int]) -> list[Candidate]:
        """These chunks, in this order, with their scores: 0 without a word of the lookup."""
        ...


class KeywordReads(Protocol):
    def corpus(self) -> Corpus: ...

    def count(self, words: Sequence[Word]) -> list[int]:
        """In how many chunks each word is; of a prefix, its most frequent term."""
        ...

    def matches(self, lookup: Lookup, file_ids: Sequence[int] | None) -> Matches:
        """`file_ids` limits the lookup itself; None permits every file."""
        ...


class FileCard(NamedTuple):
    """What a search may choose a file by, and what it tells of one."""

    id: int
    source: Source
    path: str
    note_date: str | None
    """ISO."""
    chunks: int
    title: str = ""
    tags: tuple[str, ...] = ()


class NoteNames(NamedTuple):
    """What a wiki link may call a note."""

    path: str
    title: str
    aliases: tuple[str, ...]


class FileReads(Protocol):
    def cards(self, file_ids: Collection[int]) -> Mapping[int, FileCard]:
        """By id."""
        ...

    def all_cards(self, *, with_tags: bool) -> Iterable[FileCard]:
        """Of every file, without titles; tags only if they are asked for."""
        ...

    def note_dates(self, file_ids: Collection[int]) -> Mapping[int, str]:
        """By id, of those that have one."""
        ...

    def names(self) -> Sequence[NoteNames]:
        """Of all notes, those with short paths first."""
        ...


class TranscriptReads(Protocol):
    def entries(self, file_id: int, first: int, last: int) -> tuple[int, int]:
        """The numbers of the entries that these two turns are. All count from 1."""
        ...


# --- Vectors -------------------------------------------------------------------------------------

EngineName = Literal["resident", "sqlite-vec", "numpy"]


class VectorHit(NamedTuple):
    excerpt_id: int
    cosine: float
    """-1..1."""


class VectorAnswer(NamedTuple):
    """The nearest excerpts, best first; equal ones by excerpt id."""

    hits: list[VectorHit]
    engine: EngineName
    reason: str | None = None
    """Why nothing could be compared: the query's vector does not belong to the stored ones."""


class Unavailable(NamedTuple):
    """An engine cannot search now; another one has to."""

    reason: str


class VectorStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """For `status`."""

    configured: str
    engine: EngineName | None
    """What would answer now; None when nothing can."""
    unavailable: dict[str, str]
    """Why each engine before that one would not."""
    dimensions: int | None
    """None before the first vector."""
    bytes_per_chunk: float | None
    """In the database, of all stored vectors."""
    resident_vectors: int
    resident_bytes: int


class VectorSpace(Protocol):
    """The vectors of one fingerprint, as one view sees them."""

    @property
    def is_empty(self) -> bool:
        """Whether none is stored."""
        ...

    def search(
        self, query: Vector, *, limit: int, file_ids: Sequence[int] | None = None
    ) -> VectorAnswer | Unavailable:
        """The `limit` nearest excerpts of the files in `file_ids`; None permits every file."""
        ...

    def background(self, query: Vector) -> Background | None:
        """How high the query's cosines are at large; None without any vector."""
        ...

    def covers_all(self, dimensions: int) -> bool:
        """Whether every stored text has a vector of this length."""
        ...

    def chunks_of(self, excerpt_ids: Sequence[int]) -> list[int]:
        """The chunks that hold these excerpts, in the order of their first one."""
        ...

    def excerpts(
        self, query: Vector, chunk_ids: Sequence[int], known: Mapping[int, float]
    ) -> Mapping[int, tuple[Excerpt, ...]]:
        """By chunk, in order, with their cosines; those without a usable vector are left out.

        `known`: cosines by excerpt, as `search` found them.
        """
        ...

    def refresh(self) -> bool:
        """Makes what this process holds in memory level with the view; whether it answers now."""
        ...

    def status(self) -> VectorStatus: ...


class VectorMemory(Protocol):
    """What this process holds of the vectors of one store."""

    @property
    def is_long(self) -> bool:
        """Whether a search reads so much of it that it is worth a thread of its own."""
        ...

    def scan_ahead(self, query: Vector) -> None:
        """Does the long part of a search that will come with this very array."""
        ...

    def release(self) -> None:
        """Gives the memory back, until the next refresh."""
        ...


# --- Transactions --------------------------------------------------------------------------------


class View(Protocol):
    """One state of the index, from its first query to the end."""

    @property
    def keywords(self) -> KeywordReads: ...

    @property
    def files(self) -> FileReads: ...

    @property
    def transcripts(self) -> TranscriptReads: ...

    def vectors(self, fingerprint: Fingerprint) -> VectorSpace | None:
        """None unless the store's vectors were opened."""
        ...


class Store(Protocol):
    """One agent's index."""

    def view(self) -> AbstractContextManager[View]: ...

    def open_vectors(self, settings: VectorStoreSettings) -> VectorMemory | None:
        """From now on views give vectors; None where the settings want none."""
        ...
