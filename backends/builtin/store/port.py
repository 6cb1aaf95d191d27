"""The interface of a store for searching, syncing, embedding and batch jobs, whichever database keeps the rows.

A `Store` gives views for reading and writers for changing; both are transactions. Ids are a store's own and mean
nothing outside of it. Everything blocks and may be called from any thread, but one view is used by one thread at a
time. Every error of the database becomes an IndexUnavailableError.

Several hosts may share one index. Content, chunks and vectors belong to all of them; stamps belong to a *viewpoint*,
which is one host's view of the files (its name is the key `store.view`). A store is opened for one viewpoint.

A keyword search asks for `corpus`, `count`, `best` and `cards`, once each if one block of candidates suffices: a store
behind a network answers it in three round trips if it reads the cards with the candidates. For languages that write
words together, and for words that no chunk holds, it asks for `longer` and for another `count` before.
"""

from __future__ import annotations

import hashlib
import math
import re
import sys
import time
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, TypeVar

import msgspec

from backends.files.reading import UTF8
from backends.files.scan import FoundFile
from backends.interface import DayCount, IndexUnavailableError, LanguageCount, Overview, SizeCount
from backends.text.frontmatter import FrontMatter
from backends.transcripts.source import HASH_BYTES, FoundTranscript, Position, Taken
from config.settings import Source

if TYPE_CHECKING:
    from backends.interface import Coverage, FailedText, StoreDetails, VectorStatus
    from backends.ranking.evidence import Background
    from backends.ranking.lines import Candidate, Excerpt
    from backends.ranking.query import Concept
    from config.settings import VectorStoreSettings
    from providers.provider_interface import Fingerprint, Vector

F = TypeVar("F")
Tick: TypeAlias = Callable[[], None]
"""Called repeatedly during long work; an exception that it raises ends the work."""
Failures: TypeAlias = Iterable[tuple[bytes, str]]
"""Texts that a provider refused, by hash, and the reasons."""


class IndexDamagedError(IndexUnavailableError):
    """The index is damaged. Its next use begins with a new one, so the caller may try again."""


Work = Literal["embedding", "batch", "verify"]
"""Work that one gateway at a time does: giving texts their vectors and dropping those of no use, looking after batch
jobs, and reading everything again (of one view of the files)."""


class Lease(msgspec.Struct, frozen=True):
    """The right to do this work, until it runs out and somebody else takes it."""

    work: Work
    token: int
    """A new number each time the work changes hands."""


class OvertakenError(Exception):
    """Somebody else has published the file meanwhile, perhaps a newer version: it has to be read again."""


class TooLargeError(Exception):
    """The store cannot take so much at once; the message says what is too large."""


class LeaseLostError(IndexUnavailableError):
    """Another gateway does this work by now; nothing was written."""

    def __init__(self, work: Work) -> None:
        super().__init__(
            f"Another gateway has taken over the work {work!r}; what this one had was not written.",
            remedy="Nothing has to be done: it waits for its next turn.",
        )


LONGEST_RETRY_MS: Final = 24 * 3600 * 1000
"""The longest pause before a refused text is sent again."""
FIRST_RETRY_MS: Final = 5_000
MOST_DOUBLINGS: Final = 16
"""The most doublings of the pause; by then it is longer than the longest pause."""
LENGTH_TOLERANCE: Final = 1e-3
"""The most by which a vector's length may differ from 1."""
UNFIT: Final = "The provider's vector is not one of finite numbers and length 1 like the others."
READERS: Final = 4
"""Searches that may read at the same time; more would only wait for the same two or four cores."""
SCRUB_LIMIT_S: Final = 20.0
"""The longest time of one reader: until it ends, SQLite's log cannot be folded into the file."""


def now_ms() -> int:
    """Returns the milliseconds since 1970, the form of times in rows."""
    return time.time_ns() // 1_000_000


# --- Words ---------------------------------------------------------------------------------------


class Corpus(msgspec.Struct, frozen=True, gc=False):
    """Facts about the whole index that every search needs."""

    documents: int
    """All chunks."""
    languages: tuple[str, ...]
    """The Latin-script languages in which stored texts were stemmed, in the order of their names."""
    sources: frozenset[Source]
    """The sources that have files."""


class Word(msgspec.Struct, frozen=True, gc=False):
    """One index term or, for a prefix, all terms that begin with it."""

    term: str
    is_prefix: bool


class WordPart(msgspec.Struct, frozen=True, gc=False):
    """The characters that index terms begin or end with."""

    text: str
    is_end: bool


MIN_LONG: Final = 7
"""The fewest characters of a word that may be a compound."""
MOST_LONGER: Final = 200
"""The most terms that are read for one part of a word."""
_NOT_LONG: Final = re.compile(r"[0-9_]")


def long_words(texts: Iterable[str]) -> set[str]:
    """Returns the different terms that may be compounds."""
    different = {term for text in texts for term in text.split()}
    return {term for term in different if len(term) >= MIN_LONG and not _NOT_LONG.search(term)}


class Lookup(msgspec.Struct, frozen=True, gc=False):
    """The words to look up, in their order, and how many chunks to score."""

    tiers: Sequence[Sequence[Concept]]
    """Each is looked up as a whole, until there are `enough` chunks; the scores of several add up."""
    most: int
    """The most chunks that one tier scores; the newest, if more match."""
    enough: int


BODY_WEIGHT: Final = 1.0
CONTEXT_WEIGHT: Final = 0.5
"""Titles, headings, file name and date count, but less than what the note says."""


class Matches(Protocol):
    """The chunks that contain words of one lookup, scored by BM25."""

    def best(
        self, limit: int, offset: int = 0, also: Sequence[int] = ()
    ) -> tuple[list[Candidate], list[Candidate]]:
        """Returns the next best chunks, equal ones by path and place; and those of `also` that are not among them, in
        the order of `also`. The score of a chunk without a word of the lookup is 0.
        """


class KeywordReads(Protocol):
    def corpus(self) -> Corpus: ...

    def count(self, words: Sequence[Word]) -> list[int]:
        """Counts the chunks that contain each word; for a prefix, those of its most frequent term."""

    def longer(self, parts: Sequence[WordPart]) -> list[list[str]]:
        """Returns the terms that begin, or the long words that end, with each part and have more characters: the first
        `MOST_LONGER` in the order of their characters, for ends in that of the reversed words.
        """

    def matches(self, lookup: Lookup, file_ids: Sequence[int] | None) -> Matches:
        """Looks words up in the files of `file_ids`; None permits every file."""


# --- Files ---------------------------------------------------------------------------------------


class FileCard(msgspec.Struct, frozen=True, gc=False):
    """The facts by which a search may choose a file, and those that it reports."""

    id: int
    source: Source
    path: str
    note_date: str | None
    """The date in ISO form."""
    chunks: int
    title: str = ""
    tags: tuple[str, ...] = ()


class NoteNames(msgspec.Struct, frozen=True, gc=False):
    """The names by which a wiki link may refer to a note."""

    path: str
    title: str
    aliases: tuple[str, ...]


Seen = Literal["here", "elsewhere", "nowhere"]
"""The viewpoints that saw a file: this one (and perhaps others), others alone, or none that is not forgotten."""


class IndexedFile(msgspec.Struct, frozen=True, gc=False):
    """One file as the index remembers it: its stamps when this viewpoint read it, and how it was cut.

    The stamps of a file that this viewpoint did not see are 0.
    """

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    pipeline: str
    read_at_ns: int
    seen: Seen = "here"


class ReadFile(msgspec.Struct, frozen=True, gc=False):
    """One file as it was read: the stamps are those of the content."""

    found: FoundFile
    content_hash: bytes
    read_at_ns: int
    """The clock just before it was read."""
    encoding: str = UTF8
    revision: int | None = None
    """The revision in the index before the file was read (`FileReads.revision`); None: the present one."""

    @property
    def stamps(self) -> tuple[int, int, int, int, int]:
        found = self.found
        return found.size, found.mtime_ns, found.ctime_ns, found.inode, self.read_at_ns


class PreparedExcerpt(msgspec.Struct, frozen=True, gc=False):
    """Characters `start` to `end` of its chunk's text, and `line` of it, counted from 0."""

    start: int
    end: int
    line: int
    text_hash: bytes


class PreparedChunk(msgspec.Struct, frozen=True, gc=False):
    start: int
    start_line: int
    end_line: int
    identity: bytes
    """Hash of all that is stored of the chunk except its place: if it is unchanged, the rows stay."""
    headings: str
    text: str
    terms: str
    context: str
    excerpts: tuple[PreparedExcerpt, ...]
    """The excerpts of what the chunk does not repeat of the one before it."""


class PreparedFile(msgspec.Struct, frozen=True, gc=False):
    chunks: tuple[PreparedChunk, ...]
    note_date: str | None
    languages: frozenset[str]
    facts: FrontMatter = FrontMatter()


class Replaced(msgspec.Struct, frozen=True, gc=False):
    """The number of chunks that were written, and of those that were removed."""

    written: int
    removed: int


SEPARATOR: Final = "\x1f"
"""The separator of the aliases or the tags of one row."""


def split(joined: str) -> tuple[str, ...]:
    return tuple(joined.split(SEPARATOR)) if joined else ()


def card_of(row: Iterable[Any]) -> FileCard:
    """Builds a card of its members in their order, of which the last, the tags, are joined."""
    *members, tags = row
    members.append(split(tags))
    return FileCard(*members)


_PROBES: Final = 1_000


def probes(found: Sequence[F]) -> Sequence[F]:
    """Returns some of the files, spread over all, to be looked for among the stamps of other viewpoints."""
    return found[:: 1 + len(found) // _PROBES]


_MOST_DAYS: Final = 1000
"""A picture cannot show more; if there are more, they are counted by month, then by year."""


def overview_of(
    days: Callable[[int, int], Iterable[Any]], sizes: Iterable[Any], languages: Iterable[Any]
) -> Overview:
    """Builds an overview of rows; `days` takes the number of characters of a date and the most rows."""
    counts: list[DayCount] = []
    for characters in (len("2026-02-08"), len("2026-02"), len("2026")):
        counts = [DayCount(*row) for row in days(characters, 10 * _MOST_DAYS)]
        if len(counts) <= _MOST_DAYS:
            break
    return Overview(
        days=tuple(sorted(counts, key=lambda one: (one.day or "", one.source))),
        sizes=tuple(SizeCount(*row) for row in sizes),
        languages=tuple(LanguageCount(*row) for row in languages),
    )


class OddEncoding(msgspec.Struct, frozen=True, gc=False):
    encoding: str
    notes: int
    first_path: str


class FileReads(Protocol):
    def indexed(self) -> Mapping[str, IndexedFile]:
        """Returns all notes by path, whichever viewpoint saw them."""

    def seen(self, files: Collection[tuple[Source, str]]) -> frozenset[tuple[Source, str]]:
        """Returns those that this viewpoint may declare gone: it saw them, or no other viewpoint did."""

    def holds(self, source: Source, path: str, content_hash: bytes, pipeline: str) -> bool:
        """Returns whether nothing is to be published of a file with this content, cut in this way: it is indexed so,
        or it is as this viewpoint saw it before, and another viewpoint has published a change since.
        """

    def revision(self, source: Source, path: str) -> int:
        """Returns a number that changes whenever the file is published; 0 if it is not indexed, or if only this process
        writes to the index.
        """

    def only_elsewhere(self, source: Source) -> int:
        """Counts the files that other viewpoints saw and this one did not."""

    def count(self, source: Source) -> tuple[int, int]:
        """Counts the files of a source and their chunks; transcripts that were not read yet are left out."""

    def odd_encodings(self) -> Sequence[OddEncoding]:
        """Returns the encodings of notes that are not UTF-8."""

    def overview(self) -> Overview:
        """Counts files by day, size and language; transcripts that were not read yet are left out."""

    def cards(self, file_ids: Collection[int]) -> Mapping[int, FileCard]:
        """Returns the cards of these files by id."""

    def all_cards(self, *, with_tags: bool) -> Iterable[FileCard]:
        """Returns the cards of all files, without titles; with tags only if they are asked for."""

    def note_dates(self, file_ids: Collection[int]) -> Mapping[int, str]:
        """Returns the dates of these files by id; files without a date are left out."""

    def texts(self, source: Source, path: str) -> Sequence[str]:
        """Returns the chunks of one file, in their order."""

    def mention(self, line: str) -> bool:
        """Returns whether any chunk contains these characters. Reads all chunks."""

    def names(self) -> Sequence[NoteNames]:
        """Returns the names of all notes, those with short paths first."""


class FileWrites(FileReads, Protocol):
    def publish(
        self, read: ReadFile, pipeline: str, prepared: PreparedFile, *, tick: Tick = lambda: None
    ) -> int:
        """Makes the index contain exactly this content for the file, as seen here; returns the chunks written.

        Stamps of other viewpoints stay: what they saw before, they need not read again. Chunks that did not change
        keep their rows, so an edit costs only what it touches. `tick` is called before each chunk; its errors end the
        work. Raises OvertakenError when another process has published or removed the file since it was read, and
        TooLargeError; then nothing is written.
        """

    def touch(self, read: ReadFile) -> None:
        """Records the stamps of this viewpoint for a file of which nothing is to be published (`holds`)."""

    def twin(self, source: Source, found: Sequence[FoundFile | FoundTranscript]) -> str | None:
        """Returns the name of a viewpoint that sees the same disk, or None. It has the same size, times and inode of
        one of these files: a copy has others.
        """

    def copy_stamps(self, twin: str, source: Source, paths: Collection[str]) -> None:
        """Copies the stamps that another viewpoint has of these files, where this one has none."""

    def remove(self, source: Source, path: str, *, read_at_ns: int | None = None) -> bool:
        """Takes a file and all of its chunks out of the index, for every viewpoint, and returns whether it did.

        A file that only other viewpoints saw stays. With `read_at_ns` it is removed only if the stamps of this one
        still stem from that reading; 0 for a file that no viewpoint saw.
        """


# --- Transcripts ---------------------------------------------------------------------------------


class Checkpoint(msgspec.Struct, frozen=True, gc=False):
    """A place between two lines of a transcript, with the counts up to it."""

    end_byte: int
    end_line: int
    end_turn: int
    end_char: int
    tail: bytes
    """Hash of the last bytes before it."""
    digest: bytes = b""
    """Hash of the part that ends there."""

    @property
    def place(self) -> Position:
        return Position(self.end_byte, self.end_line)


START: Final = Checkpoint(0, 0, 0, 0, hashlib.blake2b(digest_size=HASH_BYTES).digest())


class IndexedTranscript(msgspec.Struct, frozen=True, gc=False):
    """One transcript with the stamps it had when this viewpoint last looked at it; 0 if it did not see it.

    While a part is missing, `size` counts only the parts that were read, so that it never seems complete.
    """

    file_id: int
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    pipeline: str
    read_at_ns: int
    end_byte: int
    end_line: int = 0
    seen: Seen = "here"

    @property
    def stamps(self) -> tuple[int, int, int, int]:
        return self.size, self.mtime_ns, self.ctime_ns, self.inode

    def taken(self, path: str) -> Taken:
        """Returns the stamps and the place up to which it was read, as its source needs them."""
        return FoundTranscript(path, *self.stamps), Position(self.end_byte, self.end_line)


class TranscriptPiece(msgspec.Struct, frozen=True, gc=False):
    """One part of a transcript, once it was read and prepared."""

    path: str
    stamps: tuple[int, int, int, int]
    """Size, mtime, ctime and inode to remember."""
    pipeline: str
    read_at_ns: int
    begin: Checkpoint
    end: Checkpoint
    numbers: Sequence[int]
    """The number of each turn's entry."""
    prepared: PreparedFile
    is_last: bool
    """The text ends with it: nothing older follows."""
    is_rewritten: bool
    """The transcript no longer contains the text that was read beyond `begin`."""

    @property
    def end_char(self) -> int | None:
        """The character of the text before which the replaced part ends; None: the end of the text."""
        return None if self.is_last or self.is_rewritten else self.end.end_char

    def chunks(self) -> list[PreparedChunk]:
        """Returns the chunks with their places in the whole transcript."""
        chars, turns = self.begin.end_char, self.begin.end_turn
        return [
            msgspec.structs.replace(
                chunk,
                start=chunk.start + chars,
                start_line=chunk.start_line + turns,
                end_line=chunk.end_line + turns,
            )
            for chunk in self.prepared.chunks
        ]

    def packed_numbers(self) -> bytes:
        """Returns the numbers in the form that `entry_at` reads."""
        numbers = array("I", self.numbers)
        if sys.byteorder == "big":
            numbers.byteswap()
        return numbers.tobytes()


_NUMBER_BYTES: Final = 4


def entry_at(packed: bytes, turn: int) -> int:
    """Returns the number of a turn's entry; turns of a part are counted from 0."""
    place = turn * _NUMBER_BYTES
    return int.from_bytes(packed[place : place + _NUMBER_BYTES], "little")


class TurnRange(msgspec.Struct, frozen=True, gc=False):
    """Consecutive turns of a transcript."""

    file_id: int
    first: int
    last: int


class TranscriptReads(Protocol):
    def indexed(self) -> Mapping[str, IndexedTranscript]:
        """Returns all transcripts by index path, whichever viewpoint saw them."""

    def one(self, path: str) -> IndexedTranscript | None: ...

    def checkpoints(self, file_id: int) -> list[Checkpoint]:
        """Returns the checkpoints of all parts that were read, in order, `START` first."""

    def enrolled(self, among: Collection[str]) -> frozenset[str]:
        """Returns those that were sources of this viewpoint when it last brought the index up to date."""

    def entries(self, turns: Collection[TurnRange]) -> Mapping[TurnRange, tuple[int, int]]:
        """Returns the numbers of the entries of the first and the last turn. Entries and turns count from 1."""


class TranscriptWrites(TranscriptReads, Protocol):
    def publish(self, piece: TranscriptPiece) -> int:
        """Publishes the transcript up to the end of this part, as seen here; returns the chunks written."""

    def touch(self, path: str, stamps: tuple[int, int, int, int], read_at_ns: int) -> None:
        """Records size, mtime, ctime and inode of this viewpoint for a transcript that stays as others published it."""

    def enrol(self, source: str, paths: Collection[str]) -> None:
        """Adds a source of this viewpoint with these transcripts: all are due, however little they grow from now on."""

    def disenrol(self, sources: Iterable[str]) -> None:
        """Removes these sources of this viewpoint; the rows of what it saw there are removed like those of deleted
        files.
        """


# --- Vectors -------------------------------------------------------------------------------------

EngineName = Literal["resident", "sqlite-vec", "numpy", "pgvector"]


class VectorHit(msgspec.Struct, frozen=True, gc=False):
    excerpt_id: int
    cosine: float
    """From -1 to 1."""


class VectorAnswer(msgspec.Struct, frozen=True, gc=False):
    """The nearest excerpts, best first; equal ones by excerpt id."""

    hits: list[VectorHit]
    engine: EngineName
    reason: str | None = None
    """The reason if nothing could be compared: the query's vector does not belong to the stored ones."""


class Unavailable(msgspec.Struct, frozen=True, gc=False):
    """The engine cannot search now; another one has to."""

    reason: str


def why_unlike(dimensions: int | None, query: Vector) -> str | None:
    """Returns why a query cannot be compared with stored vectors of these dimensions (None: none stored), or None."""
    if dimensions is None:
        return "no vectors of this provider and model are stored"
    if dimensions != len(query):
        return f"the query has {len(query)} dimensions and the stored vectors have {dimensions}"
    return None


def fit_and_unfit(
    vectors: Sequence[tuple[bytes, Vector]],
) -> tuple[list[tuple[bytes, Vector]], list[tuple[bytes, str]]]:
    """Returns the vectors of length 1 with as many numbers as the first, and the other texts with what is wrong."""
    import numpy as np  # noqa: PLC0415 - to embed takes it, to search need not

    def is_fit(vector: Vector) -> bool:
        numbers = np.asarray(vector)
        is_as_long = len(numbers) == len(vectors[0][1])
        # False for NaN.
        return is_as_long and abs(float(numbers @ numbers) - 1) <= 2 * LENGTH_TOLERANCE

    unfit = {text_hash: UNFIT for text_hash, vector in vectors if not is_fit(vector)}
    return [one for one in vectors if one[0] not in unfit], list(unfit.items())


class VectorSpace(Protocol):
    """The vectors of one fingerprint, as one view sees them."""

    @property
    def is_empty(self) -> bool:
        """True if no vector is stored."""

    def search(
        self, query: Vector, *, limit: int, file_ids: Sequence[int] | None = None
    ) -> VectorAnswer | Unavailable:
        """Returns the `limit` nearest excerpts of the files in `file_ids`; None permits every file."""

    def background(self, query: Vector) -> Background | None:
        """Returns the distribution of the query's cosines over the whole index; None without any vector."""

    def covers_all(self, dimensions: int) -> bool:
        """Returns whether every stored text has a vector of this length."""

    def chunks_of(self, excerpt_ids: Sequence[int]) -> list[int]:
        """Returns the chunks of these excerpts, each in the place of its first excerpt."""

    def excerpts(
        self, query: Vector, chunk_ids: Sequence[int], known: Mapping[int, float]
    ) -> Mapping[int, tuple[Excerpt, ...]]:
        """Returns the excerpts of each chunk, in order, with their cosines; those without a usable vector are left out.

        `known`: cosines by excerpt, as `search` found them.
        """

    def refresh(self, give_way: Tick = lambda: None) -> bool:
        """Brings the vectors in memory up to date with the view; returns whether they can answer now.

        `give_way` is called repeatedly during the work.
        """

    def status(self) -> VectorStatus: ...


class VectorMemory(Protocol):
    """The vectors of one store that this process holds in memory."""

    @property
    def is_long(self) -> bool:
        """True if a search reads so much memory that it is worth a thread of its own."""

    def scan_ahead(self, query: Vector) -> None:
        """Does the long part of a search in advance; the search has to come with the same array."""

    def release(self) -> None:
        """Gives the memory back, until the next refresh."""


class EmbeddingReads(Protocol):
    """The one durable copy of each vector, by fingerprint and text; and the texts that a provider refused."""

    def dimensions(self) -> Mapping[bytes, int]:
        """Returns the length of the vectors of each fingerprint that has any, by its digest."""

    def fingerprints(self) -> Sequence[Fingerprint]:
        """Returns all fingerprints that have vectors."""

    def vectors_of(
        self, fingerprint: Fingerprint, text_hashes: Sequence[bytes]
    ) -> list[tuple[bytes, Vector]]:
        """Returns the vectors of these texts, by hash; texts without a vector are left out."""

    def pending(
        self, fingerprint: Fingerprint, *, limit: int, dimensions: int | None = None
    ) -> list[tuple[bytes, str]]:
        """Returns different texts without a vector of this fingerprint, by hash, the newest files first.

        Those that wait for a batch job or for their next attempt, and those that another gateway has sent, are left
        out. `dimensions` is the length that the provider gives now, if it is known: stored vectors of another length
        are of no use any more.
        """

    def backlog(self, fingerprint: Fingerprint) -> list[tuple[bytes, int]]:
        """Returns all texts that have no vector, were not refused, are not being sent by another gateway and wait for
        no job, with their characters.
        """

    def superseded(self, current: Fingerprint) -> Fingerprint | None:
        """Returns the fingerprint whose vectors cover more of the stored texts than those of `current` do.

        None when there is none: then `current` covers as much as any other.
        """

    def coverage(self, fingerprint: Fingerprint) -> Coverage: ...

    def failed_texts(self, fingerprint: Fingerprint, *, limit: int) -> tuple[FailedText, ...]:
        """Returns the refused texts that wait longest, each with one place where the text is."""

    def next_retry_s(self, fingerprint: Fingerprint) -> float | None:
        """Seconds until the first refused text is due again; None when none was refused."""

    def claims_end_s(self) -> float | None:
        """Seconds until the first text that another gateway has sent may be offered here; None when there is none."""

    def fallen_out_of_use(self) -> Sequence[int]:
        """Returns the vectors that no chunk uses any more and that are not noted as such. Reads a whole index."""


class EmbeddingWrites(EmbeddingReads, Protocol):
    def put(self, fingerprint: Fingerprint, vectors: Sequence[tuple[bytes, Vector]]) -> None:
        """Stores vectors by the hash of their text.

        A vector whose length is not 1, or that has other dimensions than the rest, is recorded as a failure. A host
        that changed its dimensions under the same fingerprint has changed its model: the former vectors are deleted,
        so that the two are never compared.
        """

    def record_failures(
        self, fingerprint: Fingerprint, failures: Failures, *, longest_ms: int = LONGEST_RETRY_MS
    ) -> None:
        """Remembers which texts the provider refused, and why, so that the rest is not stopped.

        They are due again after pauses that grow to `longest_ms`.
        """

    def offer_again(self, fingerprint: Fingerprint) -> None:
        """Makes all texts that this provider refused due at once, and keeps how often they were refused."""

    def forget_gone(self) -> None:
        """Forgets the refused texts that are in no note any more."""

    def refresh_use(self, fallen: Sequence[int]) -> None:
        """Notes which vectors went out of use since the last call, and which are in use again.

        `fallen` is the result of `fallen_out_of_use`, called before, so that no writer waits for it.
        """

    def prune(self, max_entries: int | None) -> int:
        """Drops the longest unused vectors beyond `max_entries`; those in use always stay.

        Returns how many were dropped. None: no bound. `refresh_use` has to be called before in the same transaction.
        """

    def drop_superseded(self, kept: Sequence[Fingerprint]) -> None:
        """Deletes the vectors of all other fingerprints."""


# --- Batch jobs ----------------------------------------------------------------------------------

JobState = Literal["prepared", "uploaded", "submitted", "ended", "read", "closed"]
"""`prepared`: texts chosen; `uploaded`: the vendor has the file; `submitted`: it works on the job;
`ended`: results may be read; `read`: they are stored, the vendor's files are still to be deleted."""

BY_REQUEST: Final = "It was cancelled on request."
"""The reason of a job that a person cancels. It stays until the job is done."""


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One batch job."""

    id: int = 0
    label: str
    """Random; names the job's file at the vendor."""
    digest: bytes
    """The digest of the fingerprint."""
    state: JobState = "prepared"
    items: int
    stored: int = 0
    refused: int = 0
    created_at_ms: int
    submitted_at_ms: int | None = None
    next_at_ms: int = 0
    attempts: int = 0
    cancelling: bool = False
    remote_id: str | None = None
    remote_state: str | None = None
    remote_done: int = 0
    input_file: str | None = None
    result_files: str = ""
    outcome: Literal["completed", "failed", "expired", "cancelled", "divided"] | None = None
    """`divided`: its texts went into smaller jobs."""
    reason: str | None = None


class JobReads(Protocol):
    """The durable record of batch jobs."""

    def open(self, digest: bytes) -> list[JobRecord]:
        """Returns the jobs of one provider that need something done, the oldest first."""

    def recent(self) -> list[JobRecord]:
        """Returns all remembered jobs, the newest first."""

    def waiting(self, digest: bytes) -> int:
        """Counts the texts that wait for jobs of this provider."""

    def texts(self, job: JobRecord) -> Iterator[tuple[bytes, str]]:
        """Yields the texts that wait for this job, by hash; those that are in no note any more are left out."""

    def waiting_hashes(self, job: JobRecord) -> set[bytes]: ...

    def wish_to_cancel(self, job: JobRecord) -> str | None:
        """Returns why the job is to be cancelled, even if that was decided after `job` was read; else None."""


class JobWrites(JobReads, Protocol):
    def add(self, job: JobRecord, text_hashes: Sequence[bytes]) -> None:
        """Makes a job that these texts wait for, and no other."""

    def save(self, job: JobRecord) -> None:
        """Records how far the job is. A request to cancel it that came meanwhile stays, with its reason."""

    def release(self, job: JobRecord, text_hashes: Sequence[bytes] | None = None) -> None:
        """Ends the wait of these texts, or of all, for this job."""

    def ask_to_cancel(self, job_id: int) -> bool:
        """Asks for the job to be cancelled, which happens at its next turn. Returns whether such a job is running."""

    def forget_closed(self, kept: int) -> None:
        """Forgets the closed jobs except for the latest, `kept` of them."""


# --- Transactions --------------------------------------------------------------------------------


class Version(msgspec.Struct, frozen=True, gc=False):
    """The version of the index as one reader sees it: `number` changes with every commit of another connection or
    process. The version of its files changes with their stamps.
    """

    reader: int
    number: int


class Viewpoint(msgspec.Struct, frozen=True, gc=False):
    """One host's view of the files."""

    name: str
    """Empty for the only host that can open the index."""
    used_at_ms: int
    """The time when a gateway last used it, accurate to a day."""
    is_here: bool


ARRIVAL_MS: Final = 24 * 3600 * 1000
"""The interval at which a viewpoint records that it is in use."""
VIEWPOINT_LIFE_MS: Final = 30 * ARRIVAL_MS
"""A viewpoint that was not in use for this long is forgotten."""
ARRIVALS_TO_FORGET: Final = 7
"""For a store without a server's clock: how many arrivals of others it must have missed, too."""


class View(Protocol):
    """One state of the index, from the first query to the end."""

    def version(self) -> Version: ...

    def files_version(self) -> Version:
        """Returns a version that changes whenever `files.indexed` does, and perhaps with vectors and the like."""

    def remembered(self, key: str, *, here: bool = False) -> str | None:
        """Returns the text that `Writer.remember` stored: for all viewpoints, or only for this one."""

    def now_ms(self) -> int:
        """Returns the time by a clock that is the same for all users of the store."""

    def viewpoints(self) -> Sequence[Viewpoint]:
        """Returns all viewpoints that are not forgotten, the most recently used first."""

    def probe(self) -> None:
        """Reads something, so that an index that cannot be read is noticed."""

    def details(self) -> StoreDetails:
        """Returns what `status` reports of the store at this moment."""

    def journal(self) -> str | None:
        """Returns the journal mode of SQLite; None for other databases."""

    @property
    def keywords(self) -> KeywordReads: ...

    @property
    def files(self) -> FileReads: ...

    @property
    def transcripts(self) -> TranscriptReads: ...

    @property
    def embeddings(self) -> EmbeddingReads: ...

    @property
    def jobs(self) -> JobReads: ...

    def vectors(self, fingerprint: Fingerprint) -> VectorSpace | None:
        """Returns the vectors of a fingerprint; None unless the store's vectors were opened."""


class Writer(View, Protocol):
    """One transaction that changes the index; an exception undoes all of it. It sees what it wrote."""

    @property
    def files(self) -> FileWrites: ...

    @property
    def transcripts(self) -> TranscriptWrites: ...

    @property
    def embeddings(self) -> EmbeddingWrites: ...

    @property
    def jobs(self) -> JobWrites: ...

    def remember(self, key: str, text: str, *, here: bool = False) -> None:
        """Stores a text for all viewpoints, or only for this one."""

    def arrive(self, *, life_ms: int = VIEWPOINT_LIFE_MS) -> None:
        """Notes that this viewpoint is in use now, and forgets all others that were not in use for `life_ms`, with
        their stamps and what they remember.
        """


class Store(Protocol):
    """One agent's index."""

    @property
    def place(self) -> str:
        """The place of the index, for people; without credentials."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for a person, such as that the index was replaced."""

    @property
    def viewpoint(self) -> str:
        """The name of the viewpoint that the store was opened for."""

    @property
    def generation(self) -> int:
        """Goes up when an empty index takes the place of this one."""

    @property
    def is_shared(self) -> bool:
        """True if gateways on other hosts write to it, too."""

    def view(self, *, until: float = math.inf) -> AbstractContextManager[View]:
        """Yields one state of the index. A server has to answer before `until`, a time of `time.monotonic`."""

    def writer(
        self, patience_s: float | None = None, *, lease: Lease | None = None
    ) -> AbstractContextManager[Writer]:
        """Waits at most `patience_s` for its turn; by default, as long as others in this process take.

        Raises LeaseLostError unless `lease` is the latest lease of its work; nobody gets the next one until the
        transaction ends.
        """

    def lease(self, work: Work, ttl_s: float) -> Lease | None:
        """Takes the right to do this work for this time, by the store's clock; None while another gateway has it.

        A store that is not shared gives it at once: only the process that owns the index does such work.
        """

    def renew(self, lease: Lease, ttl_s: float) -> bool:
        """Extends the lease by this time from now. Returns False if another gateway has taken the work."""

    def give_back(self, lease: Lease) -> None:
        """Gives the lease back, so that others need not wait until it runs out."""

    def claim(self, lease: Lease, text_hashes: Sequence[bytes]) -> None:
        """Notes that these texts are about to be sent to a provider: others leave them alone until something is stored
        of them, or until this store was silent for a minute.

        Raises LeaseLostError as `writer` does. Does nothing in a store that is not shared.
        """

    def release(self, text_hashes: Sequence[bytes]) -> None:
        """Withdraws that these texts were sent: any gateway may send them again."""

    def size_bytes(self) -> int: ...

    def tidy(self) -> None:
        """Gives unused space back, where there is much of it."""

    def search_files(self, texts: Sequence[bytes]) -> Mapping[Path, bool]:
        """Returns the files of the index on this machine, and whether each contains one of these texts, byte for byte.

        The files of a server are not among them.
        """

    def erase_deleted(self, *, at_once: bool = False) -> bool:
        """Erases what was deleted. Returns whether none of it is left in any file of the store, except for those of a
        server.

        A server keeps unused vectors for a while, because another host may be moving their note, unless `at_once`.
        """

    def scrub(self) -> bool:
        """Reads everything and raises IndexDamagedError where it is not what was written.

        Returns whether all of it could be read in time.
        """

    def close(self) -> None: ...

    def open_vectors(self, settings: VectorStoreSettings) -> VectorMemory | None:
        """Lets views give vectors from now on; returns None if the settings want none."""
