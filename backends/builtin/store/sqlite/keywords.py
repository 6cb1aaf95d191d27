"""The keyword lane in SQLite: the stored words of chunks; FTS5 finds and scores the chunks, with one statement for
each tier of words.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby, islice
from typing import TYPE_CHECKING, Final, cast

import apsw

from backends.builtin.store.port import (
    BODY_WEIGHT,
    CONTEXT_WEIGHT,
    MOST_LONGER,
    Corpus,
    Lookup,
    PreparedChunk,
    Word,
    WordPart,
    long_words,
    split,
)
from backends.builtin.store.sqlite.connections import int64s
from backends.ranking.lines import Candidate
from config.settings import Source

if TYPE_CHECKING:
    from backends.ranking.query import Concept

_LEVEL: Final = 6
_WINDOW: Final = -12
"""4 kB without a header: hardly any chunk is longer, and a larger window costs time for every chunk."""
_MEMORY: Final = 5
_BETWEEN: Final = "\0"

_ADD_WORDS: Final = "INSERT INTO chunk_terms (rowid, body, context) VALUES (?, ?, ?)"
_ADD_ENDS: Final = "INSERT OR IGNORE INTO word_ends SELECT value FROM carray(?)"
_DELETE_ENDS: Final = "DELETE FROM word_ends WHERE backwards IN (SELECT value FROM carray(?))"
_HAS_WORD: Final = "SELECT 1 FROM chunk_terms WHERE chunk_terms MATCH ?"
_SELECT_WORDS: Final = """
    SELECT text, words FROM chunks WHERE id IN (SELECT value FROM carray(?))
"""


def pack(chunk: PreparedChunk) -> bytes:
    """Packs terms, context and headings of a chunk for `chunks.words`: deflated with the text as dictionary, since
    most terms are words of the text or their beginnings. That takes a sixth of the space.
    """
    deflate = zlib.compressobj(
        _LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY, zlib.Z_DEFAULT_STRATEGY, chunk.text.encode()
    )
    plain = f"{chunk.terms}{_BETWEEN}{chunk.context}{_BETWEEN}{chunk.headings}".encode()
    return deflate.compress(plain) + deflate.flush()


def unpack(words: bytes, text: str) -> tuple[str, str, str]:
    """Returns terms, context and headings of the chunk with this text. Raises apsw.CorruptError if they are damaged."""
    inflate = zlib.decompressobj(_WINDOW, zdict=text.encode())
    try:
        terms, _, rest = inflate.decompress(words).decode().partition(_BETWEEN)
    except (zlib.error, UnicodeDecodeError) as error:
        raise apsw.CorruptError(f"the words of a chunk are damaged ({error})") from error
    context, _, headings = rest.partition(_BETWEEN)  # 0.2 stored none
    return terms, context, headings


def words_of(connection: apsw.Connection, chunk_ids: Sequence[int]) -> set[str]:
    """Returns the long words of these chunks."""
    rows = connection.execute(_SELECT_WORDS, (int64s(chunk_ids),))
    return long_words(" ".join(unpack(words, text)) for text, words in rows)


class ComingWords:
    """The words of the chunks that one transaction inserts; all are written together, as late as possible.

    FTS5 writes its memory as a segment, to be merged with others, before each statement that SQLite may have to undo
    alone; statements that insert a file are such.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._rows: list[tuple[int, str, str]] = []

    def add(self, chunk_id: int, chunk: PreparedChunk) -> None:
        self._rows.append((chunk_id, chunk.terms, chunk.context))

    def write(self) -> None:
        """Writes all. Has to be called before words are looked up, and before the transaction ends."""
        if not self._rows:
            return
        came = long_words(words for _, *texts in self._rows for words in texts)
        if came:
            backwards = tuple(word[::-1] for word in came)
            self._connection.execute(_ADD_ENDS, (apsw.carray(backwards),))
        self._connection.executemany(_ADD_WORDS, self._rows)
        self._rows = []


def drop_ends(connection: apsw.Connection, went: set[str]) -> None:
    """Deletes the ends of those long words that no chunk contains any more."""
    gone = [
        word[::-1]
        for word in went
        if connection.execute(_HAS_WORD, (f'"{word}"',)).fetchone() is None
    ]
    if gone:
        connection.execute(_DELETE_ENDS, (apsw.carray(tuple(gone)),))


_SELECT_CORPUS: Final = """
    SELECT (SELECT coalesce(sum(chunk_count), 0) FROM files),
        EXISTS (SELECT 1 FROM files WHERE source = 'memory'),
        EXISTS (SELECT 1 FROM files WHERE source = 'sessions')
"""
# This steps from one language to the next: DISTINCT would read a row of each file.
_SELECT_LANGUAGES: Final = """
    WITH RECURSIVE found (language) AS (
        SELECT min(language) FROM file_languages
        UNION ALL
        SELECT (SELECT min(language) FROM file_languages AS f WHERE f.language > found.language)
        FROM found WHERE found.language IS NOT NULL
    )
    SELECT language FROM found WHERE language IS NOT NULL
"""
_COUNT_TERMS: Final = """
    SELECT value, (SELECT doc FROM temp.term_statistics WHERE term = value) FROM carray(?)
"""
_COUNT_PREFIX: Final = "SELECT max(doc) FROM temp.term_statistics WHERE term >= ? AND term < ?"

_SELECT_BEGUN: Final = "SELECT term FROM temp.term_statistics WHERE term > ? AND term < ? LIMIT ?"
_SELECT_ENDED: Final = """
    SELECT backwards FROM word_ends WHERE backwards > ? AND backwards < ?
    ORDER BY backwards LIMIT ?
"""

# bm25() is in a statement of its own: FTS5's column `rank` costs twice as much, and once more for each
# row that is read by its id. The newest chunks are kept if there are too many.
_SELECT_SCORES: Final = """
    {permitted}
    SELECT rowid, -bm25(chunk_terms, :body, :context) FROM chunk_terms
    WHERE chunk_terms MATCH :match {only} ORDER BY rowid DESC LIMIT :most
"""
_PERMITTED: Final = """
    WITH permitted AS MATERIALIZED
        (SELECT id FROM chunks WHERE file_id IN (SELECT value FROM carray(:files)))
"""
_ONLY: Final = """
    AND rowid BETWEEN (SELECT min(id) FROM permitted) AND (SELECT max(id) FROM permitted)
    AND +rowid IN permitted
"""
_SELECT_CHUNKS: Final = """
    SELECT c.id, c.file_id, c.start, c.start_line, c.text, c.words, f.path, n.title, n.aliases
    FROM chunks AS c JOIN files AS f ON f.id = c.file_id LEFT JOIN note_facts AS n ON n.file_id = f.id
    WHERE c.id IN (SELECT value FROM carray(?)) ORDER BY c.id
"""
_SELECT_IN_ORDER: Final = """
    SELECT c.id FROM chunks AS c JOIN files AS f ON f.id = c.file_id
    WHERE c.id IN (SELECT value FROM carray(?)) ORDER BY f.path, c.start
"""


class SqliteKeywords:
    """`KeywordReads` over a reader's connection."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def corpus(self) -> Corpus:
        documents, has_memory, has_sessions = self._connection.execute(_SELECT_CORPUS).get
        sources = (("memory", has_memory), ("sessions", has_sessions))
        return Corpus(
            documents,
            tuple(name for (name,) in self._connection.execute(_SELECT_LANGUAGES)),
            frozenset(cast("Source", source) for source, has_files in sources if has_files),
        )

    def count(self, words: Sequence[Word]) -> list[int]:
        terms = tuple({word.term for word in words if not word.is_prefix})
        counts = (
            dict(self._connection.execute(_COUNT_TERMS, (apsw.carray(terms),))) if terms else {}
        )
        return [
            self._count_prefix(word.term) if word.is_prefix else counts[word.term] or 0
            for word in words
        ]

    def longer(self, parts: Sequence[WordPart]) -> list[list[str]]:
        return [self._longer(part) for part in parts]

    def matches(self, lookup: Lookup, file_ids: Sequence[int] | None) -> SqliteMatches:
        return SqliteMatches(self._connection, lookup, file_ids)

    def _count_prefix(self, start: str) -> int:
        return self._connection.execute(_COUNT_PREFIX, (start, f"{start}\U0010ffff")).get or 0

    def _longer(self, part: WordPart) -> list[str]:
        step = -1 if part.is_end else 1
        start = part.text[::step]
        statement = _SELECT_ENDED if part.is_end else _SELECT_BEGUN
        rows = self._connection.execute(statement, (start, f"{start}\U0010ffff", MOST_LONGER))
        return [term[::step] for (term,) in rows]


class SqliteMatches:
    """`Matches`, looked up when the first of them is needed."""

    def __init__(
        self, connection: apsw.Connection, lookup: Lookup, file_ids: Sequence[int] | None
    ) -> None:
        self._connection = connection
        self._lookup = lookup
        self._file_ids = file_ids
        self._ranked: list[int] = []

    def best(
        self, limit: int, offset: int = 0, also: Sequence[int] = ()
    ) -> tuple[list[Candidate], list[Candidate]]:
        missing = offset + limit - len(self._ranked)
        self._ranked += islice(self._order, max(0, missing))
        best = self._ranked[offset : offset + limit]
        others = [chunk_id for chunk_id in also if chunk_id not in best]
        return self._of(best), self._of(others) if others else []

    def _of(self, chunk_ids: Sequence[int]) -> list[Candidate]:
        rows = self._connection.execute(_SELECT_CHUNKS, (int64s(chunk_ids),))
        found = {}
        for chunk_id, file_id, start, line, text, words, path, title, aliases in rows:
            terms, context, headings = unpack(words, text)
            bm25 = self._scores.get(chunk_id, 0.0)
            found[chunk_id] = Candidate(
                chunk_id, file_id, start, line, text, terms, bm25, path, context, headings,
                () if title is None else (title, *split(aliases)),
            )  # fmt: skip
        return [found[chunk_id] for chunk_id in chunk_ids if chunk_id in found]

    @cached_property
    def _scores(self) -> dict[int, float]:
        """BM25 by chunk id. The scores of several words are added up."""
        scores: dict[int, float] = {}
        if self._file_ids is not None and not self._file_ids:
            return scores
        for concepts in self._lookup.tiers:
            found = self._scored(concepts)
            if not scores:
                scores = dict(found)
            else:
                for chunk_id, score in found:
                    scores[chunk_id] = scores.get(chunk_id, 0.0) + score
            if len(scores) >= self._lookup.enough:
                break
        return scores

    def _scored(self, concepts: Sequence[Concept]) -> apsw.Cursor:
        parameters: dict[str, object] = {
            "match": _match(concepts),
            "body": BODY_WEIGHT,
            "context": CONTEXT_WEIGHT,
            "most": self._lookup.most,
        }
        if self._file_ids is None:
            statement = _SELECT_SCORES.format(permitted="", only="")
        else:
            statement = _SELECT_SCORES.format(permitted=_PERMITTED, only=_ONLY)
            parameters["files"] = int64s(self._file_ids)
        return self._connection.execute(statement, parameters)

    @cached_property
    def _order(self) -> Iterator[int]:
        # A generator that knew this object would keep it until the garbage collector comes.
        return _in_order(self._connection, self._scores)


def _in_order(connection: apsw.Connection, scores: Mapping[int, float]) -> Iterator[int]:
    """Yields the chunks, best first; equal ones by path and place."""
    score_of = scores.__getitem__
    for _, group in groupby(sorted(scores, key=score_of, reverse=True), key=score_of):
        equal = list(group)
        if len(equal) > 1:
            rows = connection.execute(_SELECT_IN_ORDER, (int64s(equal),))
            equal = [chunk_id for (chunk_id,) in rows]
        yield from equal


def _match(concepts: Sequence[Concept]) -> str:
    """Returns a query for any of the concepts. Terms contain no quotes, so no input of a user is syntax."""
    return " OR ".join(
        f'"{term}"{"*" if concept.is_prefix else ""}'
        for concept in concepts
        for term in concept.alternatives
    )
