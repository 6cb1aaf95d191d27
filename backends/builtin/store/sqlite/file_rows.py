"""The rows of files: their stamps, chunks, words and excerpts, the front matter of notes, the turns of transcripts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import apsw

from backends.builtin.store.port import (
    SEPARATOR,
    START,
    Checkpoint,
    FileCard,
    IndexedFile,
    IndexedTranscript,
    NoteNames,
    OddEncoding,
    PreparedChunk,
    PreparedFile,
    ReadFile,
    Replaced,
    Tick,
    TranscriptPiece,
    TurnRange,
    card_of,
    entry_at,
    long_words,
    overview_of,
    probes,
    split,
)
from backends.builtin.store.sqlite.connections import int64s
from backends.builtin.store.sqlite.erasing import mark_deletion
from backends.builtin.store.sqlite.keywords import ComingWords, drop_ends, pack, words_of
from backends.files.reading import UTF8
from backends.files.scan import FoundFile
from backends.interface import Overview
from backends.text.frontmatter import FrontMatter
from backends.transcripts.source import FoundTranscript
from config.settings import Source

ENTER_VIEWPOINT: Final = (
    "INSERT OR IGNORE INTO viewpoints (name, used_at_ms) VALUES (?, unixepoch() * 1000)"
)
OF_VIEWPOINT: Final = "\x1f"
"""The separator in a key of `meta`, before the name of the viewpoint that remembers it."""
HERE: Final = "(SELECT id FROM viewpoints WHERE name = ?)"
"""The viewpoint of the store."""
FROM_FILES: Final = f"""
    FROM files AS f LEFT JOIN stamps AS s ON s.file_id = f.id AND s.viewpoint_id = {HERE}
"""
"""Files, with the stamps of this viewpoint."""
SEEN: Final = """
    CASE WHEN s.file_id IS NOT NULL THEN 'here'
        WHEN EXISTS (SELECT 1 FROM stamps AS o WHERE o.file_id = f.id) THEN 'elsewhere'
        ELSE 'nowhere' END
"""
_SELECT_OWN: Final = f"""
    SELECT f.path, s.size, s.mtime_ns, s.ctime_ns, s.inode, f.pipeline, s.read_at_ns
    FROM stamps AS s CROSS JOIN files AS f ON f.id = s.file_id
    WHERE s.viewpoint_id = {HERE} AND f.source = 'memory'
"""  # noqa: S608 - our own words
"""This order of the tables takes hardly longer than reading `files` alone."""
_COUNT_NOTES: Final = "SELECT count(*) FROM files WHERE source = 'memory'"
_SELECT_OTHERS: Final = f"""
    SELECT f.path, 0, 0, 0, 0, f.pipeline, 0, {SEEN}
    {FROM_FILES} WHERE f.source = 'memory' AND s.file_id IS NULL
"""
_IS_INDEXED: Final = f"""
    SELECT 1 {FROM_FILES}
    WHERE f.source = ?2 AND f.path = ?3 AND f.pipeline = ?5 AND (f.content_hash = ?4
        OR s.content_hash = ?4 AND EXISTS (SELECT 1 FROM stamps AS o
            WHERE o.file_id = f.id AND o.content_hash = f.content_hash))
""".replace("name = ?)", "name = ?1)")  # noqa: S608 - our own words
_STAMP: Final = f"""
    INSERT OR REPLACE INTO stamps (file_id, viewpoint_id, size, mtime_ns, ctime_ns, inode,
        read_at_ns, content_hash)
    SELECT f.id, {HERE}, ?, ?, ?, ?, ?, ? FROM files AS f WHERE f.source = ? AND f.path = ?
"""  # noqa: S608 - our own words
_SELECT_TWIN: Final = """
    SELECT v.name FROM files AS f JOIN stamps AS s ON s.file_id = f.id
    JOIN viewpoints AS v ON v.id = s.viewpoint_id
    WHERE f.source = ? AND f.path = ? AND s.size = ? AND s.mtime_ns = ? AND s.ctime_ns = ?
        AND s.inode = ? ORDER BY v.used_at_ms DESC LIMIT 1
"""
_COPY_STAMPS: Final = f"""
    INSERT OR IGNORE INTO stamps SELECT file_id, {HERE}, size, mtime_ns, ctime_ns, inode,
        read_at_ns, content_hash FROM stamps WHERE viewpoint_id = {HERE}
        AND file_id = (SELECT id FROM files WHERE source = ? AND path = ?)
"""  # noqa: S608 - our own words
_COUNT_ELSEWHERE: Final = f"""
    SELECT count(*) {FROM_FILES} WHERE f.source = ? AND {SEEN} = 'elsewhere'
"""
_SELECT_REMOVABLE: Final = f"""
    SELECT f.id {FROM_FILES}
    WHERE f.source = ? AND f.path = ? AND {SEEN} <> 'elsewhere'
"""
_CARD_WITHOUT_FACTS: Final = "f.id, f.source, f.path, f.note_date, f.chunk_count"
_CARD: Final = f"{_CARD_WITHOUT_FACTS}, ifnull(n.title, ''), ifnull(n.tags, '')"
_SELECT_CARDS: Final = f"""
    SELECT {_CARD}
    FROM files AS f LEFT JOIN note_facts AS n ON n.file_id = f.id
    WHERE f.id IN (SELECT value FROM carray(?))
"""  # noqa: S608 - our own words
_SELECT_DATES: Final = """
    SELECT id, note_date FROM files
    WHERE note_date IS NOT NULL AND id IN (SELECT value FROM carray(?))
"""
_SELECT_NAMES: Final = """
    SELECT f.path, ifnull(n.title, ''), ifnull(n.aliases, '')
    FROM files AS f LEFT JOIN note_facts AS n ON n.file_id = f.id
    WHERE f.source = 'memory' ORDER BY length(f.path), f.path
"""
_SELECT_DAYS: Final = """
    SELECT source, substr(note_date, 1, ?) AS day, count(*) FROM files
    WHERE pipeline <> '' GROUP BY source, day ORDER BY day IS NOT NULL, day DESC LIMIT ?
"""
_SELECT_SIZES: Final = """
    SELECT CASE WHEN size < 10 THEN 0 WHEN size < 100 THEN 10 WHEN size < 1000 THEN 100
        WHEN size < 10000 THEN 1000 WHEN size < 100000 THEN 10000 WHEN size < 1000000 THEN 100000
        ELSE 1000000 END AS least, count(*), sum(size)
    FROM files WHERE source = 'memory' AND pipeline <> '' GROUP BY least ORDER BY least
"""
_SELECT_LANGUAGES: Final = """
    SELECT language, count(*) AS files FROM file_languages GROUP BY language
    ORDER BY files DESC, language
"""


_UPSERT: Final = """
    INSERT INTO files (source, path, size, mtime_ns, ctime_ns, inode, read_at_ns,
        content_hash, pipeline, note_date, chunk_count)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (source, path) DO UPDATE SET size = excluded.size,
        mtime_ns = excluded.mtime_ns, ctime_ns = excluded.ctime_ns, inode = excluded.inode,
        read_at_ns = excluded.read_at_ns, content_hash = excluded.content_hash,
        pipeline = excluded.pipeline, note_date = excluded.note_date,
        chunk_count = excluded.chunk_count
    RETURNING id
"""


def key_of(key: str, viewpoint: str) -> str:
    """Returns the key of `meta` for what one viewpoint remembers; the only viewpoint has no name."""
    return f"{key}{OF_VIEWPOINT}{viewpoint}" if viewpoint else key


class SqliteFiles:
    """`FileWrites`; a view uses only the reading half."""

    def __init__(self, connection: apsw.Connection, viewpoint: str = "") -> None:
        self._connection = connection
        self._viewpoint = viewpoint
        self._words = ComingWords(connection)

    def indexed(self) -> dict[str, IndexedFile]:
        here, select = (self._viewpoint,), self._connection.execute
        indexed = {row[0]: IndexedFile(*row[1:]) for row in select(_SELECT_OWN, here)}
        if len(indexed) < select(_COUNT_NOTES).get:
            indexed |= {row[0]: IndexedFile(*row[1:]) for row in select(_SELECT_OTHERS, here)}
        return indexed

    def seen(self, files: Collection[tuple[Source, str]]) -> frozenset[tuple[Source, str]]:
        return frozenset(
            one
            for one in files
            if self._connection.execute(_SELECT_REMOVABLE, (self._viewpoint, *one)).fetchone()
        )

    def holds(self, source: Source, path: str, content_hash: bytes, pipeline: str) -> bool:
        row = self._connection.execute(
            _IS_INDEXED, (self._viewpoint, source, path, content_hash, pipeline)
        ).fetchone()
        return row is not None

    def revision(self, source: Source, path: str) -> int:  # noqa: ARG002 - only its owner writes to a file
        return 0

    def only_elsewhere(self, source: Source) -> int:
        count: int = self._connection.execute(_COUNT_ELSEWHERE, (self._viewpoint, source)).get
        return count

    def count(self, source: Source) -> tuple[int, int]:
        files, chunks = self._connection.execute(
            "SELECT count(*), ifnull(sum(chunk_count), 0) FROM files"
            " WHERE source = ? AND pipeline <> ''",  # blank: enrolled, not read yet
            (source,),
        ).get
        return files, chunks

    def odd_encodings(self) -> list[OddEncoding]:
        rows = self._connection.execute(
            "SELECT n.encoding, count(*), min(f.path) FROM note_facts AS n"
            " JOIN files AS f ON f.id = n.file_id WHERE n.encoding != '' GROUP BY n.encoding"
        )
        return [OddEncoding(*row) for row in rows]

    def overview(self) -> Overview:
        select = self._connection.execute
        return overview_of(
            lambda characters, most: select(_SELECT_DAYS, (characters, most)),
            select(_SELECT_SIZES),
            select(_SELECT_LANGUAGES),
        )

    def cards(self, file_ids: Collection[int]) -> Mapping[int, FileCard]:
        rows = self._connection.execute(_SELECT_CARDS, (int64s(list(file_ids)),))
        return {card.id: card for card in map(card_of, rows)}

    def all_cards(self, *, with_tags: bool) -> list[FileCard]:
        rows = self._connection.execute(f"SELECT {_CARD_WITHOUT_FACTS} FROM files AS f")  # noqa: S608 - our own words
        if not with_tags:
            return [FileCard(*row) for row in rows]
        tagged = self._connection.execute("SELECT file_id, tags FROM note_facts WHERE tags != ''")
        tags = dict(tagged)
        return [
            card_of((*row, "", tags[row[0]])) if row[0] in tags else FileCard(*row) for row in rows
        ]

    def note_dates(self, file_ids: Collection[int]) -> Mapping[int, str]:
        return dict(self._connection.execute(_SELECT_DATES, (int64s(list(file_ids)),)))

    def texts(self, source: Source, path: str) -> Sequence[str]:
        rows = self._connection.execute(
            "SELECT c.text FROM files AS f JOIN chunks AS c ON c.file_id = f.id"
            " WHERE f.source = ? AND f.path = ? ORDER BY c.start",
            (source, path),
        )
        return [text for (text,) in rows]

    def mention(self, line: str) -> bool:
        row = self._connection.execute(
            "SELECT 1 FROM chunks WHERE instr(text, ?) > 0 LIMIT 1", (line,)
        ).fetchone()
        return row is not None

    def names(self) -> Sequence[NoteNames]:
        rows = self._connection.execute(_SELECT_NAMES)
        return [NoteNames(path, title, split(aliases)) for path, title, aliases in rows]

    def publish(
        self, read: ReadFile, pipeline: str, prepared: PreparedFile, *, tick: Tick = lambda: None
    ) -> int:
        found, stored = read.found, (prepared.note_date, len(prepared.chunks))
        row = (found.source, found.path, *read.stamps, read.content_hash, pipeline, *stored)
        file_id: int = self._connection.execute(_UPSERT, row).get
        self.touch(read)
        self._connection.execute("DELETE FROM file_languages WHERE file_id = ?", (file_id,))
        remember_languages(self._connection, file_id, prepared)
        self._remember_facts(file_id, prepared.facts, read.encoding)
        return replace_chunks(
            self._connection, file_id, prepared.chunks, self._words, tick=tick
        ).written

    def write_words(self) -> None:
        """Writes the words of the chunks that were published. Has to be called before the transaction ends."""
        self._words.write()

    def touch(self, read: ReadFile) -> None:
        found = read.found
        stamps = (*read.stamps, read.content_hash)
        stamp(self._connection, self._viewpoint, found.source, found.path, stamps)

    def twin(self, source: Source, found: Sequence[FoundFile | FoundTranscript]) -> str | None:
        for one in probes(found):
            stamps = (one.size, one.mtime_ns, one.ctime_ns, one.inode)
            same = self._connection.execute(_SELECT_TWIN, (source, one.path, *stamps)).get
            if same is not None:
                name: str = same
                return name
        return None

    def copy_stamps(self, twin: str, source: Source, paths: Collection[str]) -> None:
        self._connection.execute(ENTER_VIEWPOINT, (self._viewpoint,))
        self._connection.executemany(
            _COPY_STAMPS, [(self._viewpoint, twin, source, path) for path in paths]
        )

    def remove(self, source: Source, path: str, *, read_at_ns: int | None = None) -> bool:
        file_id = self._connection.execute(
            f"{_SELECT_REMOVABLE} AND ifnull(s.read_at_ns, 0) = ifnull(?, ifnull(s.read_at_ns, 0))",
            (self._viewpoint, source, path, read_at_ns),
        ).get
        if file_id is None:
            return False
        rows = self._connection.execute("SELECT id FROM chunks WHERE file_id = ?", (file_id,))
        doomed = [chunk_id for (chunk_id,) in rows]
        self._words.write()
        _delete_chunks(self._connection, doomed)
        self._connection.execute("DELETE FROM files WHERE id = ?", (file_id,))
        mark_deletion(self._connection)
        return True

    def _remember_facts(self, file_id: int, facts: FrontMatter, encoding: str) -> None:
        self._connection.execute("DELETE FROM note_facts WHERE file_id = ?", (file_id,))
        encoding = "" if encoding == UTF8 else encoding
        if facts.words or facts.tags or encoding:
            aliases, tags = SEPARATOR.join(facts.aliases), SEPARATOR.join(facts.tags)
            self._connection.execute(
                "INSERT INTO note_facts (file_id, title, aliases, tags, encoding)"
                " VALUES (?, ?, ?, ?, ?)",
                (file_id, facts.title, aliases, tags, encoding),
            )


def stamp(
    connection: apsw.Connection,
    viewpoint: str,
    source: Source,
    path: str,
    stamps: tuple[int, int, int, int, int, bytes],
) -> None:
    """Records the `stamps` of a viewpoint's copy: size, mtime, ctime, inode, time of reading, and content hash."""
    connection.execute(ENTER_VIEWPOINT, (viewpoint,))
    connection.execute(_STAMP, (viewpoint, *stamps, source, path))


def remember_languages(connection: apsw.Connection, file_id: int, prepared: PreparedFile) -> None:
    """Records the languages in which a file was stemmed: queries are stemmed in all languages of the index."""
    connection.executemany(
        "INSERT OR IGNORE INTO file_languages VALUES (?, ?)",
        [(name, file_id) for name in prepared.languages],
    )


def replace_chunks(
    connection: apsw.Connection,
    file_id: int,
    chunks: Iterable[PreparedChunk],
    words: ComingWords,
    *,
    first: int = 0,
    before: int | None = None,
    tick: Tick = lambda: None,
) -> Replaced:
    """Replaces the chunks that begin in this range of the file's text (None: its end). `tick`: see `publish`."""
    kept: dict[bytes, list[int]] = defaultdict(list)
    for chunk_id, identity in connection.execute(
        "SELECT id, identity FROM chunks WHERE file_id = ? AND start >= ?"
        " AND start < ifnull(?, 9e18) ORDER BY start DESC",
        (file_id, first, before),
    ):
        kept[identity].append(chunk_id)
    moved, written = [], []
    for chunk in chunks:
        tick()
        if kept[chunk.identity]:
            moved.append((*_place(chunk), kept[chunk.identity].pop(), *_place(chunk)))
        else:
            words.add(_insert_chunk(connection, file_id, chunk), chunk)
            written.append(chunk)
    obsolete = [chunk_id for ids in kept.values() for chunk_id in ids]
    if obsolete:
        words.write()
        came = long_words(text for one in written for text in (one.terms, one.context))
        _delete_chunks(connection, obsolete, came)
        mark_deletion(connection)
    connection.executemany(
        "UPDATE chunks SET start = ?, start_line = ?, end_line = ?"
        " WHERE id = ? AND (start, start_line, end_line) IS NOT (?, ?, ?)",
        moved,
    )
    return Replaced(len(written), len(obsolete))


def _place(chunk: PreparedChunk) -> tuple[int, int, int]:
    return chunk.start, chunk.start_line, chunk.end_line


def _insert_chunk(connection: apsw.Connection, file_id: int, chunk: PreparedChunk) -> int:
    """Inserts a chunk without its words; returns its id."""
    connection.execute(
        "INSERT INTO chunks (file_id, start, start_line, end_line, identity, text, words)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (file_id, *_place(chunk), chunk.identity, chunk.text, pack(chunk)),
    )
    chunk_id = connection.last_insert_rowid()
    connection.executemany(
        'INSERT INTO excerpts (chunk_id, file_id, start, "end", line, text_hash)'
        " VALUES (?, ?, ?, ?, ?, ?)",
        [
            (chunk_id, file_id, one.start, one.end, one.line, one.text_hash)
            for one in chunk.excerpts
        ],
    )
    return chunk_id


def _delete_chunks(
    connection: apsw.Connection, ids: Sequence[int], kept: Collection[str] = ()
) -> None:
    """Deletes chunks whose words are written; `kept` are long words that other chunks contain."""
    went = words_of(connection, ids).difference(kept)
    doomed = [(chunk_id,) for chunk_id in ids]
    connection.executemany("DELETE FROM chunk_terms WHERE rowid = ?", doomed)
    connection.executemany("DELETE FROM chunks WHERE id = ?", doomed)
    drop_ends(connection, went)


# --- Transcripts: how far each was read, and the entry of each of its turns -----------------------

_SELECT_TRANSCRIPTS: Final = f"""
    SELECT f.path, f.id, ifnull(s.size, 0), ifnull(s.mtime_ns, 0), ifnull(s.ctime_ns, 0),
        ifnull(s.inode, 0), f.pipeline, ifnull(s.read_at_ns, 0),
        ifnull((SELECT max(p.end_byte) FROM transcript_parts AS p
            WHERE p.file_id = f.id AND p.superseded = 0), 0),
        ifnull((SELECT p.end_line FROM transcript_parts AS p
            WHERE p.file_id = f.id AND p.superseded = 0 ORDER BY p.end_byte DESC LIMIT 1), 0),
        {SEEN}
    {FROM_FILES} WHERE f.source = 'sessions'
"""  # noqa: S608 - our own words


class SqliteTranscripts:
    """`TranscriptWrites`; a view uses only the reading half."""

    def __init__(self, connection: apsw.Connection, viewpoint: str = "") -> None:
        self._connection = connection
        self._viewpoint = viewpoint

    def indexed(self) -> dict[str, IndexedTranscript]:
        rows = self._connection.execute(_SELECT_TRANSCRIPTS, (self._viewpoint,))
        return {path: IndexedTranscript(*row) for path, *row in rows}

    def one(self, path: str) -> IndexedTranscript | None:
        row = self._connection.execute(
            f"{_SELECT_TRANSCRIPTS} AND f.path = ?", (self._viewpoint, path)
        ).fetchone()
        return IndexedTranscript(*row[1:]) if row else None

    def checkpoints(self, file_id: int) -> list[Checkpoint]:
        rows = self._connection.execute(
            "SELECT end_byte, end_line, end_turn, end_char, tail, digest FROM transcript_parts"
            " WHERE file_id = ? AND superseded = 0 ORDER BY end_byte",
            (file_id,),
        )
        return [START, *(Checkpoint(*row) for row in rows)]

    def enrolled(self, among: Collection[str]) -> frozenset[str]:
        keys = {key for (key,) in self._connection.execute("SELECT key FROM meta")}
        return frozenset(one for one in among if key_of(one, self._viewpoint) in keys)

    def entries(self, turns: Collection[TurnRange]) -> dict[TurnRange, tuple[int, int]]:
        return {
            one: (self._entry(one.file_id, one.first), self._entry(one.file_id, one.last))
            for one in turns
        }

    def _entry(self, file_id: int, turn: int) -> int:
        first_turn, lines = self._connection.execute(
            "SELECT first_turn, lines FROM transcript_parts"
            " WHERE file_id = ? AND first_turn <= ? AND end_turn >= ? ORDER BY superseded LIMIT 1",
            (file_id, turn, turn),
        ).get
        return entry_at(lines, turn - first_turn)

    def enrol(self, source: str, paths: Collection[str]) -> None:
        self._connection.execute(
            "INSERT OR REPLACE INTO meta VALUES (?, '1')", (key_of(source, self._viewpoint),)
        )
        self._connection.executemany(
            "INSERT OR IGNORE INTO files (source, path, size, mtime_ns, ctime_ns, inode,"
            " content_hash, pipeline, chunk_count, read_at_ns)"
            " VALUES ('sessions', ?, 0, 0, 0, 0, x'', '', 0, 0)",
            [(path,) for path in paths],
        )
        for path in paths:
            known = self.one(path)
            if known is not None and known.seen == "nowhere":
                self.touch(path, (0, 0, 0, 0), 0)

    def disenrol(self, sources: Iterable[str]) -> None:
        self._connection.executemany(
            "DELETE FROM meta WHERE key = ?",
            [(key_of(source, self._viewpoint),) for source in sources],
        )

    def touch(self, path: str, stamps: tuple[int, int, int, int], read_at_ns: int) -> None:
        stamp(self._connection, self._viewpoint, "sessions", path, (*stamps, read_at_ns, b""))

    def publish(self, piece: TranscriptPiece) -> int:
        connection = self._connection
        file_id = _upsert_file(connection, piece)
        self.touch(piece.path, piece.stamps, piece.read_at_ns)
        _make_room(connection, file_id, piece)
        if piece.end.end_byte > piece.begin.end_byte:
            _insert_part(connection, file_id, piece)
        begin, end = piece.begin.end_char, piece.end_char
        words = ComingWords(connection)
        replaced = replace_chunks(
            connection, file_id, piece.chunks(), words, first=begin, before=end
        )
        words.write()
        connection.execute(
            "UPDATE files SET chunk_count = chunk_count + ? WHERE id = ?",
            (replaced.written - replaced.removed, file_id),
        )
        if piece.begin == START and piece.is_last:
            connection.execute("DELETE FROM file_languages WHERE file_id = ?", (file_id,))
        remember_languages(connection, file_id, piece.prepared)
        return replaced.written


def _upsert_file(connection: apsw.Connection, piece: TranscriptPiece) -> int:
    file_id: int = connection.execute(
        "INSERT INTO files (source, path, size, mtime_ns, ctime_ns, inode, content_hash, pipeline,"
        " note_date, chunk_count, read_at_ns) VALUES ('sessions', ?, ?, ?, ?, ?, ?, ?, ?, 0, ?)"
        " ON CONFLICT (source, path) DO UPDATE SET size = excluded.size,"
        " mtime_ns = excluded.mtime_ns, ctime_ns = excluded.ctime_ns, inode = excluded.inode,"
        " content_hash = excluded.content_hash, pipeline = excluded.pipeline,"
        " note_date = excluded.note_date, read_at_ns = excluded.read_at_ns RETURNING id",
        (
            piece.path,
            *piece.stamps,
            piece.end.tail,
            piece.pipeline,
            piece.prepared.note_date,
            piece.read_at_ns,
        ),
    ).get
    return file_id


def _make_room(connection: apsw.Connection, file_id: int, piece: TranscriptPiece) -> None:
    """Removes parts beyond the beginning: at once, or when the new pass has come as far."""
    if piece.is_rewritten:
        connection.execute(
            "DELETE FROM transcript_parts WHERE file_id = ? AND (superseded = 1 OR end_byte > ?)",
            (file_id, piece.begin.end_byte),
        )
    elif piece.begin == START:
        connection.execute(
            "UPDATE transcript_parts SET superseded = 1 WHERE file_id = ?", (file_id,)
        )
    connection.execute(
        "DELETE FROM transcript_parts"
        " WHERE file_id = ? AND superseded = 1 AND (end_turn <= ? OR ?)",
        (file_id, piece.end.end_turn, piece.is_last),
    )


def _insert_part(connection: apsw.Connection, file_id: int, piece: TranscriptPiece) -> None:
    end = piece.end
    place = end.end_byte, end.end_line, end.end_turn, end.end_char
    turns = piece.begin.end_turn + 1, piece.packed_numbers()
    connection.execute(
        "INSERT OR REPLACE INTO transcript_parts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0)",
        (file_id, *place, *turns, end.digest, end.tail),
    )
