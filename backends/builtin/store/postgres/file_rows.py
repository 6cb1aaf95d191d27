"""The rows of files: their stamps, chunks, words and excerpts, the front matter of notes, the turns of transcripts."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from backends.builtin.store.port import (
    SEPARATOR,
    START,
    Checkpoint,
    FileCard,
    IndexedFile,
    IndexedTranscript,
    NoteNames,
    OddEncoding,
    OvertakenError,
    PreparedChunk,
    PreparedExcerpt,
    PreparedFile,
    ReadFile,
    Replaced,
    Tick,
    TooLargeError,
    TranscriptPiece,
    TurnRange,
    card_of,
    entry_at,
    overview_of,
    probes,
    split,
)
from backends.builtin.store.postgres.transactions import NOW_MS, new_number
from backends.files.reading import UTF8
from backends.files.scan import FoundFile
from backends.interface import Overview
from backends.text.frontmatter import FrontMatter
from backends.transcripts.source import FoundTranscript
from config.settings import Source

if TYPE_CHECKING:
    from backends.builtin.store.postgres.transactions import AgentStatement, AgentTransaction


FROM_FILES: Final = """
    FROM files AS f LEFT JOIN stamps AS s
        ON s.agent_id = f.agent_id AND s.viewpoint = %(viewpoint)s AND s.file_id = f.file_id
"""
"""Files, with the stamps of this viewpoint."""
SEEN: Final = """
    CASE WHEN s.file_id IS NOT NULL THEN 'here'
        WHEN EXISTS (SELECT 1 FROM stamps AS o WHERE o.agent_id = f.agent_id AND o.file_id = f.file_id)
        THEN 'elsewhere' ELSE 'nowhere' END
"""
_SELECT_INDEXED: Final = f"""
    SELECT f.path, coalesce(s.size, 0), coalesce(s.mtime_ns, 0), coalesce(s.ctime_ns, 0),
        coalesce(s.inode, 0), f.pipeline, coalesce(s.read_at_ns, 0), {SEEN}
    {FROM_FILES} WHERE f.agent_id = %(agent)s AND f.source = 'memory'
"""
_IS_INDEXED: Final = f"""
    SELECT 1 {FROM_FILES}
    WHERE f.agent_id = %(agent)s AND f.source = %(source)s AND f.path = %(path)s
        AND f.pipeline = %(pipeline)s AND (f.content_hash = %(content_hash)s
        OR s.content_hash = %(content_hash)s AND EXISTS (SELECT 1 FROM stamps AS o
            WHERE o.agent_id = f.agent_id AND o.file_id = f.file_id AND o.content_hash = f.content_hash))
"""
_SELECT_REMOVABLE: Final = f"""
    SELECT f.file_id {FROM_FILES}
    WHERE f.agent_id = %(agent)s AND f.source = %(source)s AND f.path = %(path)s AND {SEEN} <> 'elsewhere'
        AND coalesce(s.read_at_ns, 0) = coalesce(%(read_at_ns)s::bigint, s.read_at_ns, 0)
"""
_SELECT_ALL_REMOVABLE: Final = f"""
    SELECT f.source, f.path {FROM_FILES}
    JOIN unnest(%(sources)s::text[], %(paths)s::text[]) AS w (source, path)
        ON w.source = f.source AND w.path = f.path
    WHERE f.agent_id = %(agent)s AND {SEEN} <> 'elsewhere'
"""
_SELECT_TWIN: Final = """
    SELECT s.viewpoint
    FROM unnest(%(paths)s::text[], %(sizes)s::bigint[], %(mtimes)s::bigint[], %(ctimes)s::bigint[],
        %(inodes)s::bigint[]) WITH ORDINALITY AS p (path, size, mtime_ns, ctime_ns, inode, number)
    JOIN files AS f ON f.agent_id = %(agent)s AND f.source = %(source)s AND f.path = p.path
    JOIN stamps AS s ON s.agent_id = f.agent_id AND s.file_id = f.file_id
        AND (s.size, s.mtime_ns, s.ctime_ns, s.inode) = (p.size, p.mtime_ns, p.ctime_ns, p.inode)
    JOIN viewpoints AS v ON v.agent_id = s.agent_id AND v.name = s.viewpoint
    ORDER BY p.number, v.used_at_ms DESC LIMIT 1
"""
_COPY_STAMPS: Final = """
    INSERT INTO stamps (agent_id, viewpoint, file_id, size, mtime_ns, ctime_ns, inode, read_at_ns, content_hash)
    SELECT s.agent_id, %(viewpoint)s, s.file_id, s.size, s.mtime_ns, s.ctime_ns, s.inode, s.read_at_ns,
        s.content_hash
    FROM stamps AS s JOIN files AS f ON f.agent_id = s.agent_id AND f.file_id = s.file_id
    WHERE s.agent_id = %(agent)s AND s.viewpoint = %(twin)s AND f.source = %(source)s
        AND f.path = ANY(%(paths)s::text[])
    ON CONFLICT DO NOTHING
"""
_COUNT_ELSEWHERE: Final = f"""
    SELECT count(*) {FROM_FILES}
    WHERE f.agent_id = %(agent)s AND f.source = %(source)s AND {SEEN} = 'elsewhere'
"""
_WITH_FACTS: Final = """
    FROM files AS f LEFT JOIN note_facts AS n ON n.agent_id = f.agent_id AND n.file_id = f.file_id
"""
_CARD_WITHOUT_FACTS: Final = "f.file_id, f.source, f.path, f.note_date, f.chunk_count"
CARD: Final = f"{_CARD_WITHOUT_FACTS}, coalesce(n.title, ''), coalesce(n.tags, '')"
_SELECT_CARDS: Final = f"""
    SELECT {CARD}
    {_WITH_FACTS} WHERE f.agent_id = %(agent)s AND f.file_id = ANY(%(ids)s::bigint[])
"""
_SELECT_ALL_CARDS: Final = f"""
    SELECT {_CARD_WITHOUT_FACTS}, '', '' FROM files AS f
    WHERE f.agent_id = %(agent)s ORDER BY f.file_id
"""
_SELECT_TAGGED_CARDS: Final = f"""
    SELECT {_CARD_WITHOUT_FACTS}, '', coalesce(n.tags, '')
    {_WITH_FACTS} WHERE f.agent_id = %(agent)s ORDER BY f.file_id
"""
_SELECT_NAMES: Final = f"""
    SELECT f.path, coalesce(n.title, ''), coalesce(n.aliases, '')
    {_WITH_FACTS} WHERE f.agent_id = %(agent)s AND f.source = 'memory' ORDER BY length(f.path), f.path
"""
_SELECT_DAYS: Final = """
    SELECT source, substr(note_date, 1, %(characters)s::int) AS day, count(*) FROM files
    WHERE agent_id = %(agent)s AND pipeline <> '' GROUP BY source, day
    ORDER BY (substr(note_date, 1, %(characters)s::int) IS NOT NULL), 2 DESC LIMIT %(limit)s::bigint
"""
_SELECT_SIZES: Final = """
    SELECT CASE WHEN size < 10 THEN 0 WHEN size < 100 THEN 10 WHEN size < 1000 THEN 100
        WHEN size < 10000 THEN 1000 WHEN size < 100000 THEN 10000 WHEN size < 1000000 THEN 100000
        ELSE 1000000 END AS least, count(*), sum(size)::bigint
    FROM files WHERE agent_id = %(agent)s AND source = 'memory' AND pipeline <> ''
    GROUP BY least ORDER BY least
"""
_SELECT_LANGUAGES: Final = """
    SELECT language, count(*) AS files FROM file_languages WHERE agent_id = %(agent)s
    GROUP BY language ORDER BY files DESC, language
"""

LOCK: Final = """
    SELECT pg_advisory_xact_lock(hashtextextended(%(source)s::text || U&'\\001F' || %(path)s::text, %(agent)s))
"""
"""Makes a process that publishes a file wait for others that publish the same one, whatever rows it has."""
_UPSERT: Final = """
    INSERT INTO files AS f (agent_id, source, path, size, mtime_ns, content_hash, pipeline, note_date, chunk_count,
        revision)
    SELECT %(agent)s, %(source)s, %(path)s, %(size)s, %(mtime_ns)s, %(content_hash)s, %(pipeline)s,
        %(note_date)s, %(chunk_count)s, %(new)s
    WHERE coalesce(%(revision)s::bigint, 0) = 0 OR EXISTS (
        SELECT 1 FROM files WHERE agent_id = %(agent)s AND source = %(source)s AND path = %(path)s)
    ON CONFLICT (agent_id, source, path) DO UPDATE SET size = excluded.size, mtime_ns = excluded.mtime_ns,
        content_hash = excluded.content_hash, pipeline = excluded.pipeline,
        note_date = excluded.note_date, chunk_count = excluded.chunk_count, revision = excluded.revision
    WHERE f.revision = coalesce(%(revision)s::bigint, f.revision)
    RETURNING file_id
"""
ENTER_VIEWPOINT: Final = f"""
    INSERT INTO viewpoints (agent_id, name, used_at_ms) VALUES (%(agent)s, %(viewpoint)s, {NOW_MS})
    ON CONFLICT DO NOTHING
"""
_STAMP: Final = """
    INSERT INTO stamps (agent_id, viewpoint, file_id, size, mtime_ns, ctime_ns, inode, read_at_ns, content_hash)
    SELECT f.agent_id, %(viewpoint)s, f.file_id, %(size)s, %(mtime_ns)s, %(ctime_ns)s, %(inode)s,
        %(read_at_ns)s, %(content_hash)s
    FROM files AS f WHERE f.agent_id = %(agent)s AND f.source = %(source)s AND f.path = %(path)s
    ON CONFLICT (agent_id, viewpoint, file_id) DO UPDATE SET size = excluded.size,
        mtime_ns = excluded.mtime_ns, ctime_ns = excluded.ctime_ns, inode = excluded.inode,
        read_at_ns = excluded.read_at_ns, content_hash = excluded.content_hash
"""
_KEPT_CHUNKS: Final = """
    SELECT chunk_id, identity FROM chunks
    WHERE agent_id = %(agent)s AND file_id = %(file)s AND start >= %(first)s::bigint
        AND start < coalesce(%(before)s::bigint, 9223372036854775807) ORDER BY start DESC
"""
_INSERT_CHUNKS: Final = """
    INSERT INTO chunks (agent_id, file_id, start, start_line, end_line, identity, headings, text, terms, context)
    SELECT %(agent)s, %(file)s, c.start, c.start_line, c.end_line, c.identity, c.headings, c.text, c.terms, c.context
    FROM unnest(%(start)s::bigint[], %(start_line)s::bigint[], %(end_line)s::bigint[], %(identity)s::bytea[],
        %(headings)s::text[], %(text)s::bytea[], %(terms)s::text[], %(context)s::text[]) WITH ORDINALITY
        AS c (start, start_line, end_line, identity, headings, text, terms, context, number)
    ORDER BY c.number RETURNING chunk_id
"""
_DELETE_CHUNKS: Final = """
    DELETE FROM chunks WHERE agent_id = %(agent)s AND chunk_id = ANY(%(ids)s::bigint[])
    RETURNING chunk_id, terms, context
"""
_MOVE_CHUNKS: Final = """
    UPDATE chunks AS c SET start = m.start, start_line = m.start_line, end_line = m.end_line
    FROM unnest(%(ids)s::bigint[], %(start)s::bigint[], %(start_line)s::bigint[], %(end_line)s::bigint[])
        AS m (chunk_id, start, start_line, end_line)
    WHERE c.agent_id = %(agent)s AND c.chunk_id = m.chunk_id
        AND (c.start, c.start_line, c.end_line) IS DISTINCT FROM (m.start, m.start_line, m.end_line)
"""
_INSERT_EXCERPTS: Final = """
    INSERT INTO excerpts (agent_id, chunk_id, file_id, start, "end", line, text_hash)
    SELECT %(agent)s, x.chunk_id, %(file)s, x.start, x."end", x.line, x.text_hash
    FROM unnest(%(ids)s::bigint[], %(start)s::bigint[], %(end)s::bigint[], %(line)s::bigint[],
        %(text_hash)s::bytea[]) WITH ORDINALITY AS x (chunk_id, start, "end", line, text_hash, number)
    ORDER BY x.number
"""
_INSERT_POSTINGS: Final = """
    INSERT INTO postings (agent_id, term, chunk_id, body, context, length)
    SELECT %(agent)s, * FROM unnest(%(term)s::text[], %(ids)s::bigint[], %(body)s::smallint[],
        %(context)s::smallint[], %(length)s::int[])
"""
_DELETE_POSTINGS: Final = """
    DELETE FROM postings AS p USING unnest(%(terms)s::text[], %(ids)s::bigint[]) AS d (term, chunk_id)
    WHERE p.agent_id = %(agent)s AND p.term = d.term AND p.chunk_id = d.chunk_id
"""


class PostgresFiles:
    """`FileWrites` in one transaction; a view uses only the reading half."""

    def __init__(self, transaction: AgentTransaction) -> None:
        self._transaction = transaction

    def indexed(self) -> dict[str, IndexedFile]:
        rows = self._transaction.run(_SELECT_INDEXED)
        return {row[0]: IndexedFile(*row[1:]) for row in rows}

    def holds(self, source: Source, path: str, content_hash: bytes, pipeline: str) -> bool:
        row = self._transaction.run(
            _IS_INDEXED,
            {"source": source, "path": path, "content_hash": content_hash, "pipeline": pipeline},
        ).fetchone()
        return row is not None

    def seen(self, files: Collection[tuple[Source, str]]) -> frozenset[tuple[Source, str]]:
        if not files:
            return frozenset()
        columns = {"sources": [source for source, _ in files], "paths": [path for _, path in files]}
        return frozenset(self._transaction.run(_SELECT_ALL_REMOVABLE, columns))

    def revision(self, source: Source, path: str) -> int:
        row = self._transaction.run(
            "SELECT revision FROM files"
            " WHERE agent_id = %(agent)s AND source = %(source)s AND path = %(path)s",
            {"source": source, "path": path},
        ).fetchone()
        return row[0] if row else 0

    def only_elsewhere(self, source: Source) -> int:
        (count,) = self._transaction.one(_COUNT_ELSEWHERE, {"source": source})
        return int(count)

    def count(self, source: Source) -> tuple[int, int]:
        files, chunks = self._transaction.one(
            "SELECT count(*), coalesce(sum(chunk_count), 0)::bigint FROM files"
            " WHERE agent_id = %(agent)s AND source = %(source)s AND pipeline <> ''",
            {"source": source},
        )
        return files, chunks

    def odd_encodings(self) -> list[OddEncoding]:
        rows = self._transaction.run(
            "SELECT n.encoding, count(*), min(f.path) FROM note_facts AS n"
            " JOIN files AS f ON f.agent_id = n.agent_id AND f.file_id = n.file_id"
            " WHERE n.agent_id = %(agent)s AND n.encoding <> '' GROUP BY n.encoding ORDER BY 1"
        )
        return [OddEncoding(*row) for row in rows]

    def overview(self) -> Overview:
        run = self._transaction.run
        return overview_of(
            lambda characters, most: run(_SELECT_DAYS, {"characters": characters, "limit": most}),
            run(_SELECT_SIZES),
            run(_SELECT_LANGUAGES),
        )

    def cards(self, file_ids: Collection[int]) -> Mapping[int, FileCard]:
        """Returns the cards; those of files whose chunks were read in this transaction are known."""
        known = self._transaction.cards
        unknown = [file_id for file_id in file_ids if file_id not in known]
        if unknown:
            rows = self._transaction.run(_SELECT_CARDS, {"ids": unknown})
            known.update((card.id, card) for card in map(card_of, rows))
        return {file_id: known[file_id] for file_id in file_ids if file_id in known}

    def all_cards(self, *, with_tags: bool) -> list[FileCard]:
        rows = self._transaction.run(_SELECT_TAGGED_CARDS if with_tags else _SELECT_ALL_CARDS)
        return [card_of(row) for row in rows]

    def note_dates(self, file_ids: Collection[int]) -> Mapping[int, str]:
        return {
            file_id: card.note_date
            for file_id, card in self.cards(file_ids).items()
            if card.note_date is not None
        }

    def texts(self, source: Source, path: str) -> Sequence[str]:
        rows = self._transaction.run(
            "SELECT c.text FROM files AS f JOIN chunks AS c ON c.agent_id = f.agent_id AND c.file_id = f.file_id"
            " WHERE f.agent_id = %(agent)s AND f.source = %(source)s AND f.path = %(path)s ORDER BY c.start",
            {"source": source, "path": path},
        )
        return [bytes(text).decode() for (text,) in rows]

    def mention(self, line: str) -> bool:
        row = self._transaction.run(
            "SELECT 1 FROM chunks WHERE agent_id = %(agent)s AND position(%(line)s::bytea IN text) > 0 LIMIT 1",
            {"line": line.encode()},
        ).fetchone()
        return row is not None

    def names(self) -> Sequence[NoteNames]:
        rows = self._transaction.run(_SELECT_NAMES)
        return [NoteNames(path, title, split(aliases)) for path, title, aliases in rows]

    def publish(
        self, read: ReadFile, pipeline: str, prepared: PreparedFile, *, tick: Tick = lambda: None
    ) -> int:
        row = {
            **_stamps(read),
            "pipeline": pipeline,
            "note_date": prepared.note_date,
            "chunk_count": len(prepared.chunks),
            "revision": read.revision,
            "new": new_number(),
        }
        _, found, *_ = self._transaction.write_all((LOCK, row), (_UPSERT, row), *stamping(row))
        published = found.fetchone()
        if published is None:
            raise OvertakenError
        (file_id,) = published
        facts = _facts(file_id, prepared.facts, read.encoding)
        languages = (FORGET_LANGUAGES, {"file": file_id}), languages_of(file_id, prepared)
        also = (*languages, *facts)
        return replace_chunks(
            self._transaction, file_id, prepared.chunks, also=also, tick=tick
        ).written

    def touch(self, read: ReadFile) -> None:
        self._transaction.write_all(*stamping(_stamps(read)))

    def twin(self, source: Source, found: Sequence[FoundFile | FoundTranscript]) -> str | None:
        some = probes(found)
        row = self._transaction.run(
            _SELECT_TWIN,
            {
                "source": source,
                "paths": [one.path for one in some],
                "sizes": [one.size for one in some],
                "mtimes": [one.mtime_ns for one in some],
                "ctimes": [one.ctime_ns for one in some],
                "inodes": [one.inode for one in some],
            },
        ).fetchone()
        return row[0] if row else None

    def copy_stamps(self, twin: str, source: Source, paths: Collection[str]) -> None:
        row = {"twin": twin, "source": source, "paths": sorted(paths)}
        self._transaction.write_all((ENTER_VIEWPOINT, {}), (_COPY_STAMPS, row))

    def remove(self, source: Source, path: str, *, read_at_ns: int | None = None) -> bool:
        row = {"source": source, "path": path, "read_at_ns": read_at_ns}
        *_, found = self._transaction.run_all((LOCK, row), (_SELECT_REMOVABLE, row))
        own = found.fetchone()
        if own is None:
            return False
        replace_chunks(self._transaction, own[0], ())
        self._transaction.write(
            "DELETE FROM files WHERE agent_id = %(agent)s AND file_id = %(file)s", {"file": own[0]}
        )
        return True


FORGET_LANGUAGES: Final = (
    "DELETE FROM file_languages WHERE agent_id = %(agent)s AND file_id = %(file)s"
)


def languages_of(file_id: int, prepared: PreparedFile) -> AgentStatement:
    """Returns a statement that records the languages of a file: queries are stemmed in all languages of the index."""
    insert = (
        "INSERT INTO file_languages (agent_id, language, file_id)"
        " SELECT %(agent)s, l, %(file)s FROM unnest(%(languages)s::text[]) AS l ON CONFLICT DO NOTHING"
    )
    return insert, {"file": file_id, "languages": sorted(prepared.languages)}


def stamp_row(
    source: Source, path: str, stamps: Iterable[int], content_hash: bytes
) -> dict[str, object]:
    """Returns the parameters of `stamping`. `stamps`: size, both times, inode, and the clock before it was read."""
    names = ("size", "mtime_ns", "ctime_ns", "inode", "read_at_ns")
    own = {"source": source, "path": path, "content_hash": content_hash}
    return {**dict(zip(names, stamps, strict=True)), **own}


def _stamps(read: ReadFile) -> dict[str, object]:
    return stamp_row(read.found.source, read.found.path, read.stamps, read.content_hash)


def stamping(row: Mapping[str, object]) -> tuple[AgentStatement, AgentStatement]:
    """Returns statements that record the copy of this viewpoint, if the file is indexed."""
    return (ENTER_VIEWPOINT, {}), (_STAMP, row)


def _facts(file_id: int, facts: FrontMatter, encoding: str) -> list[AgentStatement]:
    encoding = "" if encoding == UTF8 else encoding
    forget = "DELETE FROM note_facts WHERE agent_id = %(agent)s AND file_id = %(file)s"
    work: list[AgentStatement] = [(forget, {"file": file_id})]
    if facts.words or facts.tags or encoding:
        row = {
            "file": file_id,
            "title": plain(facts.title),
            "aliases": plain(SEPARATOR.join(facts.aliases)),
            "tags": plain(SEPARATOR.join(facts.tags)),
            "encoding": encoding,
        }
        insert = (
            "INSERT INTO note_facts (agent_id, file_id, title, aliases, tags, encoding)"
            " VALUES (%(agent)s, %(file)s, %(title)s, %(aliases)s, %(tags)s, %(encoding)s)"
        )
        work.append((insert, row))
    return work


_WORDS: Final = re.compile("[0-9A-Za-z_\u0080-\U0010ffff]+")
"""Words as FTS5's tokenizer "ascii tokenchars '_'" cuts them."""
_MOST_IN_CHUNK: Final = 2**15 - 1


class Posting(NamedTuple):
    """The number of times that one word is in a chunk."""

    term: str
    body: int
    context: int
    length: int
    """Words of the whole chunk."""


def postings(terms: str, context: str) -> list[Posting]:
    """Returns all words of a chunk."""
    body, about = Counter(_WORDS.findall(terms)), Counter(_WORDS.findall(context))
    length, most = body.total() + about.total(), _MOST_IN_CHUNK
    return [
        Posting(term, min(body[term], most), min(about[term], most), length)
        for term in body | about
    ]


def plain(text: str) -> str:
    """Replaces U+0000, which the type text cannot contain."""
    return text.replace("\0", "\ufffd")


def replace_chunks(
    transaction: AgentTransaction,
    file_id: int,
    chunks: Iterable[PreparedChunk],
    *,
    first: int = 0,
    before: int | None = None,
    also: Sequence[AgentStatement] = (),
    tick: Tick = lambda: None,
) -> Replaced:
    """Replaces the chunks that begin in this range of the file's text (None: its end).

    The statements of `also` run with the first one. Takes three round trips, and two for each further step; `tick` is
    called before each chunk and step. Raises TooLargeError.
    """
    *_, rows = transaction.write_all(
        *also, (_KEPT_CHUNKS, {"file": file_id, "first": first, "before": before})
    )
    kept: dict[bytes, list[int]] = defaultdict(list)
    for chunk_id, identity in rows:
        kept[identity].append(chunk_id)
    new, moved = _new_and_moved(chunks, kept, tick)
    obsolete = [chunk_id for ids in kept.values() for chunk_id in ids]
    columns = {**_chunk_columns([one for _, one in moved]), "ids": [at for at, _ in moved]}
    moving: tuple[AgentStatement, ...] = ((_MOVE_CHUNKS, columns),)
    words = 0
    for start in range(0, max(len(new), len(obsolete), 1), _STEP_CHUNKS):
        tick()
        step = slice(start, start + _STEP_CHUNKS)
        words += _replace_some(transaction, file_id, obsolete[step], new[step], moving)
        if words > MOST_WORDS:
            raise TooLargeError(f"more than {MOST_WORDS:,} words for PostgreSQL")
        moving = ()
    return Replaced(len(new), len(obsolete))


def _new_and_moved(
    chunks: Iterable[PreparedChunk], kept: Mapping[bytes, list[int]], tick: Tick
) -> tuple[list[PreparedChunk], list[tuple[int, PreparedChunk]]]:
    """Returns new chunks, and those with their ids that stay, perhaps at new places; takes the latter out of `kept`."""
    new, moved = [], []
    for chunk in chunks:
        tick()
        if kept[chunk.identity]:
            moved.append((kept[chunk.identity].pop(), chunk))
        else:
            new.append(chunk)
    return new, moved


_STEP_CHUNKS: Final = 50
"""A step of a large note takes some tenths of a second: no statement takes long, and the server does not wait long."""
MOST_WORDS: Final = 1_000_000
"""The most words of one note, each once a chunk. They take 20 s of two idle cores; a file may take 120 s."""


def _replace_some(
    transaction: AgentTransaction,
    file_id: int,
    obsolete: Sequence[int],
    new: Sequence[PreparedChunk],
    also: Sequence[AgentStatement],
) -> int:
    """Does one step, in two round trips. Returns how many words were written."""
    deleted, inserted, *_ = transaction.step(
        (_DELETE_CHUNKS, {"ids": obsolete}),
        (_INSERT_CHUNKS, {**_chunk_columns(new), "file": file_id}),
        *also,
    )
    gone = [
        (chunk_id, posting)
        for chunk_id, terms, context in deleted
        for posting in postings(terms, context)
    ]
    added = [(chunk_id, chunk) for (chunk_id,), chunk in zip(inserted, new, strict=True)]
    rows = [(chunk_id, chunk.terms, chunk.context) for chunk_id, chunk in added]
    excerpts = [(chunk_id, excerpt) for chunk_id, chunk in added for excerpt in chunk.excerpts]
    work: list[AgentStatement] = []
    if gone:
        columns = {"terms": [one.term for _, one in gone], "ids": [at for at, _ in gone]}
        work.append((_DELETE_POSTINGS, columns))
    if excerpts:
        columns = _columns(excerpts, PreparedExcerpt.__struct_fields__)
        work.append((_INSERT_EXCERPTS, {**columns, "file": file_id}))
    transaction.count_words(
        removed=[posting.term for _, posting in gone],
        documents=-len(obsolete),
        tokens=-_tokens(gone),
    )
    return add_words(transaction, rows, also=work)


def add_words(
    transaction: AgentTransaction,
    chunks: Sequence[tuple[int, str, str]],
    *,
    also: Sequence[AgentStatement] = (),
) -> int:
    """Writes and counts the words of chunks that have none yet: their ids, terms and contexts. Returns how many."""
    words = [
        (chunk_id, posting)
        for chunk_id, terms, context in chunks
        for posting in postings(terms, context)
    ]
    work = list(also)
    if words:
        work.append((_INSERT_POSTINGS, _columns(words, Posting._fields)))
    if work:
        transaction.write_all(*work)
    transaction.count_words(
        added=[posting.term for _, posting in words], documents=len(chunks), tokens=_tokens(words)
    )
    return len(words)


def _chunk_columns(chunks: Sequence[PreparedChunk]) -> dict[str, list[object]]:
    return {
        "start": [chunk.start for chunk in chunks],
        "start_line": [chunk.start_line for chunk in chunks],
        "end_line": [chunk.end_line for chunk in chunks],
        "identity": [chunk.identity for chunk in chunks],
        "headings": [plain(chunk.headings) for chunk in chunks],
        "text": [chunk.text.encode() for chunk in chunks],
        "terms": [plain(chunk.terms) for chunk in chunks],
        "context": [plain(chunk.context) for chunk in chunks],
    }


def _columns(rows: Sequence[tuple[int, object]], names: Sequence[str]) -> dict[str, list[object]]:
    """Returns columns of the fields of records and of the ids before them."""
    named = {name: [getattr(record, name) for _, record in rows] for name in names}
    return {**named, "ids": [number for number, _ in rows]}


def _tokens(words: Sequence[tuple[int, Posting]]) -> int:
    """Returns the number of words of all of these chunks."""
    return sum({chunk_id: posting.length for chunk_id, posting in words}.values())


# --- Transcripts: how far each was read, and the entry of each of its turns -----------------------

_SELECT_TRANSCRIPTS: Final = f"""
    SELECT f.path, f.file_id, coalesce(s.size, 0), coalesce(s.mtime_ns, 0), coalesce(s.ctime_ns, 0),
        coalesce(s.inode, 0), f.pipeline, coalesce(s.read_at_ns, 0),
        coalesce(p.end_byte, 0), coalesce(p.end_line, 0), {SEEN}
    {FROM_FILES}
    LEFT JOIN LATERAL (
        SELECT end_byte, end_line FROM transcript_parts AS p
        WHERE p.agent_id = f.agent_id AND p.file_id = f.file_id AND NOT p.superseded
        ORDER BY end_byte DESC LIMIT 1
    ) AS p ON true
    WHERE f.agent_id = %(agent)s AND f.source = 'sessions'
"""
_SELECT_ENTRIES: Final = """
    SELECT w.file_id, w.turn, p.first_turn, p.lines
    FROM unnest(%(files)s::bigint[], %(turns)s::bigint[]) AS w (file_id, turn)
    CROSS JOIN LATERAL (
        SELECT first_turn, lines FROM transcript_parts AS p
        WHERE p.agent_id = %(agent)s AND p.file_id = w.file_id
            AND p.first_turn <= w.turn AND p.end_turn >= w.turn
        ORDER BY superseded LIMIT 1
    ) AS p
"""
_UPSERT_TRANSCRIPT: Final = """
    INSERT INTO files (agent_id, source, path, size, mtime_ns, content_hash, pipeline, note_date, chunk_count)
    VALUES (%(agent)s, 'sessions', %(path)s, %(size)s, %(mtime_ns)s, %(tail)s, %(pipeline)s, %(note_date)s, 0)
    ON CONFLICT (agent_id, source, path) DO UPDATE SET size = excluded.size, mtime_ns = excluded.mtime_ns,
        content_hash = excluded.content_hash, pipeline = excluded.pipeline,
        note_date = excluded.note_date
    RETURNING file_id
"""
_ENROL: Final = """
    INSERT INTO files (agent_id, source, path, size, mtime_ns, content_hash, pipeline, chunk_count)
    SELECT %(agent)s, 'sessions', path, 0, 0, '', '', 0 FROM unnest(%(paths)s::text[]) AS path
    ON CONFLICT DO NOTHING
"""
_STAMP_NEW: Final = """
    INSERT INTO stamps (agent_id, viewpoint, file_id, size, mtime_ns, ctime_ns, inode, read_at_ns, content_hash)
    SELECT f.agent_id, %(viewpoint)s, f.file_id, 0, 0, 0, 0, 0, '' FROM files AS f
    WHERE f.agent_id = %(agent)s AND f.source = 'sessions' AND f.path = ANY(%(paths)s::text[])
        AND NOT EXISTS (SELECT 1 FROM stamps AS o WHERE o.agent_id = f.agent_id AND o.file_id = f.file_id)
"""
_INSERT_PART: Final = """
    INSERT INTO transcript_parts (agent_id, file_id, end_byte, end_line, end_turn, end_char, first_turn,
        lines, digest, tail, superseded)
    VALUES (%(agent)s, %(file)s, %(end_byte)s, %(end_line)s, %(end_turn)s, %(end_char)s, %(first_turn)s,
        %(lines)s, %(digest)s, %(tail)s, false)
    ON CONFLICT (agent_id, file_id, end_byte) DO UPDATE SET end_line = excluded.end_line,
        end_turn = excluded.end_turn, end_char = excluded.end_char, first_turn = excluded.first_turn,
        lines = excluded.lines, digest = excluded.digest, tail = excluded.tail, superseded = false
"""


class PostgresTranscripts:
    """`TranscriptWrites` in one transaction; a view uses only the reading half."""

    def __init__(self, transaction: AgentTransaction, *, locks: bool = False) -> None:
        """`locks`: `one` reads the present state and keeps others from publishing until the transaction ends."""
        self._transaction = transaction
        self._locks = locks

    def indexed(self) -> dict[str, IndexedTranscript]:
        return {
            path: IndexedTranscript(*row)
            for path, *row in self._transaction.run(_SELECT_TRANSCRIPTS)
        }

    def one(self, path: str) -> IndexedTranscript | None:
        if self._locks:
            self._transaction.run(LOCK, {"source": "sessions", "path": path})
        statement = f"{_SELECT_TRANSCRIPTS} AND f.path = %(path)s"
        row = self._transaction.run(statement, {"path": path}).fetchone()
        return IndexedTranscript(*row[1:]) if row else None

    def checkpoints(self, file_id: int) -> list[Checkpoint]:
        rows = self._transaction.run(
            "SELECT end_byte, end_line, end_turn, end_char, tail, digest FROM transcript_parts"
            " WHERE agent_id = %(agent)s AND file_id = %(file)s AND NOT superseded ORDER BY end_byte",
            {"file": file_id},
        )
        return [START, *(Checkpoint(*row) for row in rows)]

    def enrolled(self, among: Collection[str]) -> frozenset[str]:
        rows = self._transaction.run(
            "SELECT key FROM meta WHERE agent_id = %(agent)s AND viewpoint = %(viewpoint)s"
            " AND key = ANY(%(keys)s::text[])",
            {"keys": list(among)},
        )
        return frozenset(key for (key,) in rows)

    def entries(self, turns: Collection[TurnRange]) -> dict[TurnRange, tuple[int, int]]:
        wanted = {(one.file_id, turn) for one in turns for turn in (one.first, one.last)}
        columns = {"files": [at for at, _ in wanted], "turns": [turn for _, turn in wanted]}
        entry: dict[tuple[int, int], int] = {}
        for file_id, turn, first_turn, lines in self._transaction.run(_SELECT_ENTRIES, columns):
            entry[file_id, turn] = entry_at(lines, turn - first_turn)
        return {one: (entry[one.file_id, one.first], entry[one.file_id, one.last]) for one in turns}

    def enrol(self, source: str, paths: Collection[str]) -> None:
        self._transaction.remember(source, "1", here=True)
        row = {"paths": sorted(paths)}
        self._transaction.write_all((ENTER_VIEWPOINT, {}), (_ENROL, row), (_STAMP_NEW, row))

    def disenrol(self, sources: Iterable[str]) -> None:
        self._transaction.write(
            "DELETE FROM meta WHERE agent_id = %(agent)s AND viewpoint = %(viewpoint)s AND key = ANY(%(keys)s::text[])",
            {"keys": list(sources)},
        )

    def publish(self, piece: TranscriptPiece) -> int:
        row = _row(piece)
        _, found, *_ = self._transaction.write_all(
            (LOCK, row), (_UPSERT_TRANSCRIPT, row), *stamping(row)
        )
        ((file_id,),) = found
        work: list[AgentStatement] = list(_making_room(file_id, piece))
        if piece.end.end_byte > piece.begin.end_byte:
            part = {
                **msgspec.structs.asdict(piece.end),
                "file": file_id,
                "first_turn": piece.begin.end_turn + 1,
                "lines": piece.packed_numbers(),
            }
            work.append((_INSERT_PART, part))
        if piece.begin == START and piece.is_last:
            work.append((FORGET_LANGUAGES, {"file": file_id}))
        work.append(languages_of(file_id, piece.prepared))
        replaced = replace_chunks(
            self._transaction,
            file_id,
            piece.chunks(),
            first=piece.begin.end_char,
            before=piece.end_char,
            also=work,
        )
        self._transaction.write(
            "UPDATE files SET chunk_count = chunk_count + %(more)s"
            " WHERE agent_id = %(agent)s AND file_id = %(file)s",
            {"more": replaced.written - replaced.removed, "file": file_id},
        )
        return replaced.written

    def touch(self, path: str, stamps: tuple[int, int, int, int], read_at_ns: int) -> None:
        row = stamp_row("sessions", path, (*stamps, read_at_ns), b"")
        self._transaction.write_all(*stamping(row))


def _row(piece: TranscriptPiece) -> dict[str, object]:
    return {
        **stamp_row("sessions", piece.path, (*piece.stamps, piece.read_at_ns), b""),
        "pipeline": piece.pipeline,
        "note_date": piece.prepared.note_date,
        "tail": piece.end.tail,
    }


def _making_room(file_id: int, piece: TranscriptPiece) -> Iterable[AgentStatement]:
    """Removes parts beyond the beginning: at once, or when the new pass has come as far."""
    row = {
        "file": file_id,
        "begin": piece.begin.end_byte,
        "turn": piece.end.end_turn,
        "all": piece.is_last,
    }
    own = "agent_id = %(agent)s AND file_id = %(file)s"
    delete = f"DELETE FROM transcript_parts WHERE {own}"
    if piece.is_rewritten:
        yield f"{delete} AND (superseded OR end_byte > %(begin)s)", row
    elif piece.begin == START:
        yield f"UPDATE transcript_parts SET superseded = true WHERE {own}", row
    yield f"{delete} AND superseded AND (end_turn <= %(turn)s OR %(all)s)", row
