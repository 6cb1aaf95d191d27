"""Transcripts in the chat gateway's own database, read while it writes and without it noticing."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import apsw
from msgspec.structs import replace

from backends.files.safe_open import (
    BEHIND_LINK,
    IS_LINK,
    NOT_REGULAR,
    MomentarilyUnreadableError,
    RefusedFileError,
    fault_of,
    may_pass,
    walked,
)
from backends.interface import FileUnreadableError, SkippedFile
from backends.transcripts.source import (
    BEGINNING,
    HASH_BYTES,
    MAX_LINE_BYTES,
    PREFIX,
    SUFFIX,
    Entries,
    FoundTranscript,
    HostDatabase,
    Position,
    Taken,
    TranscriptListing,
)
from backends.transcripts.turns import HOST_RENDERING_VERSION, render_event
from config.paths import host_database
from config.runtime.files import is_addressable

_LARGEST_WINDOW_LOG: Final = 23
"""8 MiB, which the format requires of every decoder; no entry is longer."""


def decompressed(data: bytes, size: int) -> bytes | None:
    """Returns the `size` bytes in a zstd frame; None if it contains more or fewer, or is broken.

    Allocates no more than `size`, whatever the frame claims.
    """
    if sys.version_info >= (3, 14):
        from compression import zstd  # noqa: PLC0415 - few transcripts need it
    else:
        from backports import zstd  # noqa: PLC0415

    options = {int(zstd.DecompressionParameter.window_log_max): _LARGEST_WINDOW_LOG}
    decompressor = zstd.ZstdDecompressor(options=options)
    try:
        text = decompressor.decompress(data, max_length=size + 1)
    except zstd.ZstdError:
        return None
    complete = len(text) == size and decompressor.eof and not decompressor.unused_data
    return text if complete else None


KNOWN_VERSION: Final = 23
"""`user_version` of OpenClaw 2026.9.6, with which all of this was tested."""
_PATIENCE_MS: Final = 500
"""The time that SQLite waits while the host locks out readers, such as when it starts or stops."""
_STEP_BYTES: Final = 1024 * 1024
"""About the most bytes that one transaction reads."""
_STEP_ROWS: Final = 4096
_FRESH_NS: Final = 100_000_000
"""A file that changed this recently may change again without a new time stamp."""
_NO_HASH: Final = hashlib.blake2b(digest_size=HASH_BYTES).digest()

_NEEDED: Final[Mapping[str, frozenset[str]]] = {
    "transcript_events": frozenset({"session_id", "seq", "event_json"}),
    "session_windows": frozenset({"session_id", "session_key", "updated_at"}),
    "session_nodes": frozenset({"session_key", "current_session_id"}),
}
_Shape: TypeAlias = "Mapping[str, frozenset[str]]"
"""The columns of each table that exists."""

_NOT_CONVERSATIONS: Final = (
    (re.compile(r"cron:"), "cron"),
    (re.compile(r"dreaming-narrative-"), "dreaming"),
    (re.compile(r"(?:.*:)?heartbeat(?:$|:)"), "heartbeat"),
    (re.compile(r"(?:.*:)?active-memory:"), "active memory"),
    (re.compile(r"(?:.*:)?incognito(?:$|[:-])"), "incognito"),
)
"""Keys of sessions (without their agent) that nobody spoke in or that are not to be remembered, and the reason."""
_INHERITED: Final = frozenset({"cron", "dreaming"})
"""The reasons that also apply to sessions begun by such a session."""


class _Session(NamedTuple):
    session_id: str
    key: str
    updated_ms: int
    last_seq: int | None
    generation: str | None
    projected_seq: int | None
    """The last event up to which the host knows what is part of the conversation."""
    leaf: str | None
    parts: int | None
    is_rebuilding: bool
    why_not: str | None
    parents: tuple[str | None, ...]

    @property
    def is_settled(self) -> bool:
        return self.projected_seq is not None and not self.is_rebuilding

    def found(self) -> FoundTranscript:
        """Returns it without its size. `ctime_ns` and `inode` are hashes of the facts that change with it."""
        return FoundTranscript(
            path=PREFIX + self.session_id,
            size=0,
            mtime_ns=self.updated_ms * 1_000_000,
            ctime_ns=_number((self.last_seq, self.projected_seq, self.leaf, self.parts)),
            inode=_number((self.generation, self.is_settled)),
            is_settled=self.is_settled,
        )


class HostTranscripts:
    """The sessions in one database. See `TranscriptSource`."""

    def __init__(self, state_dir: Path, agent_id: str) -> None:
        self._path = host_database(state_dir, agent_id)
        self._database = _Database(state_dir, self._path)
        self._listed: tuple[_Stamps, TranscriptListing] | None = None
        self._sizes: dict[str, tuple[FoundTranscript, Taken | None, int]] = {}

    def rendering(self, _path: str) -> str:
        return HOST_RENDERING_VERSION

    def render(self, _path: str, line: bytes) -> str | None:
        return render_event(line)

    def listing(self) -> TranscriptListing:
        """Lists the sessions; returns the last listing while neither the database nor its log changed."""
        try:
            stamps = _stamps(self._path)
        except OSError as error:
            return _failed(self._path, f"{error.strerror or error}.", may_pass(error))
        if stamps is None:
            return TranscriptListing()
        listed = self._listed
        if listed is not None and listed[0] == stamps:
            return listed[1]
        try:
            with self._database.opened() as connection:
                listing = _list(connection, self._path)
        except FileNotFoundError:
            return TranscriptListing()
        except FileUnreadableError as error:
            return _failed(self._path, str(error), isinstance(error, MomentarilyUnreadableError))
        except RefusedFileError as error:
            return _failed(self._path, error.reason, may_pass=False)
        except (apsw.Error, UnicodeDecodeError) as error:
            return _failed(self._path, _cause(error), _may_pass(error))
        if stamps.changed_ns < time.time_ns() - _FRESH_NS:
            self._listed = stamps, listing
        return listing

    def measured(
        self, found: Sequence[FoundTranscript], taken: Mapping[str, Taken]
    ) -> tuple[FoundTranscript, ...]:
        """Returns the sessions with their sizes: of what was taken in of each, and of what follows."""
        sized = [self._sized(one, taken.get(one.path)) for one in found]
        unsized = [one for one, size in zip(found, sized, strict=True) if size is None]
        if unsized:
            for one, size in zip(unsized, self._measure(unsized, taken), strict=True):
                self._sizes[one.path] = one, taken.get(one.path), size
            sized = [self._sized(one, taken.get(one.path)) for one in found]
        for path in self._sizes.keys() - {one.path for one in found}:
            self._sizes.pop(path, None)
        return tuple(size or one for one, size in zip(found, sized, strict=True))

    def _sized(self, found: FoundTranscript, taken: Taken | None) -> FoundTranscript | None:
        """Returns the session with its size; None if it has to be measured first."""
        if taken is not None and _seems_same(found, taken[0]):
            return replace(taken[0], is_settled=found.is_settled)
        measured = self._sizes.get(found.path)
        if measured is None or measured[:2] != (found, taken):
            return None
        return replace(found, size=measured[2])

    def _measure(self, found: Sequence[FoundTranscript], taken: Mapping[str, Taken]) -> list[int]:
        """Returns the sizes; one byte more than was taken in if unknown, so that reading it finds out."""
        try:
            with self._database.opened() as connection:
                shape = _shape(connection)
                return [
                    _size(_Reader(connection, shape, one), one, taken.get(one.path))
                    for one in found
                ]
        except _UNREADABLE:
            return [_end_of(taken.get(one.path)).byte + 1 for one in found]

    def entries_beyond(self, found: FoundTranscript, end: Position) -> int:
        try:
            with self._database.opened() as connection:
                return _Reader(connection, _shape(connection), found).count_beyond(end)
        except _UNREADABLE:
            return 0  # the step that takes it in reports it

    @contextmanager
    def open(self, path: str, taken: Taken | None) -> Iterator[OpenSession]:
        """See `TranscriptSource`. The database itself is open only while something is read."""
        with self._database.typed_errors(), self._database.opened() as connection, connection:
            shape = _shape(connection)
            problem = _problem(connection, shape)
            if problem:
                raise FileUnreadableError(problem, remedy=_OTHER_SHAPE)
            session = _session(connection, shape, path.removeprefix(PREFIX))
            if session is None:
                raise FileNotFoundError(path)
            found = session.found()
            found = replace(found, size=_size(_Reader(connection, shape, found), found, taken))
        yield OpenSession(self._database, shape, found)

    def is_gone(self, path: str) -> bool:
        is_gone = False
        try:
            with self._database.opened() as connection, connection:
                shape = _shape(connection)
                if not _problem(connection, shape):
                    is_gone = _session(connection, shape, path.removeprefix(PREFIX)) is None
        except FileNotFoundError:
            is_gone = True
        except _UNREADABLE:
            pass
        return is_gone

    def path_of(self, reference: str) -> str | None:
        path = PREFIX + reference
        return path if any(found.path == path for found in self.listing().files) else None


class OpenSession:
    """See `OpenTranscript`. Every method is one transaction, or several short ones."""

    def __init__(self, database: _Database, shape: _Shape, found: FoundTranscript) -> None:
        self._database, self._shape = database, shape
        self.found = found

    def read(self, begin: Position, until: int) -> Entries:
        digest = hashlib.blake2b(digest_size=HASH_BYTES)
        numbers: list[int] = []
        lines: list[bytes | None] = []
        end, is_last = begin, False
        while end.byte < until and not is_last:
            is_last = True
            with self._reading() as reader:
                for event in reader.events(end, min(until, end.byte + _STEP_BYTES)):
                    digest.update(event.identity)
                    numbers.append(event.number)
                    lines.append(event.line)
                    end = Position(end.byte + event.size, event.number)
                is_last = reader.count_beyond(end, at_most=1) == 0
        if is_last:
            self.found = replace(self.found, size=end.byte)
        return Entries(tuple(numbers), tuple(lines), end, digest.digest(), is_last)

    def digest(self, begin: Position, end: Position) -> bytes:
        digest = hashlib.blake2b(digest_size=HASH_BYTES)
        place, more = begin, True
        while more and place.line < end.line:
            more = False
            with self._reading() as reader:
                for event in reader.events(place, place.byte + _STEP_BYTES, last=end.line):
                    digest.update(event.identity)
                    place, more = Position(place.byte + event.size, event.number), True
        return digest.digest()

    def tail(self, end: Position) -> bytes:
        with self._reading() as reader:
            return reader.tail(end)

    def is_current(self, end: Position) -> bool:
        is_current = False
        with self._database.typed_errors(), self._database.opened() as connection, connection:
            session = _session(connection, self._shape, self.found.path.removeprefix(PREFIX))
            if session is not None and session.found().inode == self.found.inode:
                is_current = _Reader(connection, self._shape, self.found).holds(end)
        return is_current

    @contextmanager
    def _reading(self) -> Iterator[_Reader]:
        with self._database.typed_errors(), self._database.opened() as connection, connection:
            yield _Reader(connection, self._shape, self.found)


class _Event(NamedTuple):
    number: int
    size: int
    line: bytes | None
    identity: bytes


class _Reader:
    """The events of one session, within a transaction of the caller.

    Those of the current conversation; all of them if the host does not know which these are.
    """

    def __init__(self, connection: apsw.Connection, shape: _Shape, found: FoundTranscript) -> None:
        self._connection = connection
        self._id = found.path.removeprefix(PREFIX)
        packed = shape["transcript_events"] >= {"event_zstd", "event_utf8_bytes"}
        self._size = "ifnull(octet_length(e.event_json), {}) + 1".format(
            "ifnull(e.event_utf8_bytes, 0)" if packed else "0"
        )
        self._zstd = "NULL, NULL"
        if packed:
            fitting = "CASE WHEN octet_length(e.event_zstd) <= ?3 THEN e.event_zstd END"
            self._zstd = f"{fitting}, e.event_utf8_bytes"
        self._from = "transcript_events AS e WHERE e.session_id = ?1"
        self._seq = "e.seq"
        if found.is_settled:
            self._from = (
                "session_transcript_active_events AS a JOIN transcript_events AS e"
                " ON e.session_id = a.session_id AND e.seq = a.event_seq WHERE a.session_id = ?1"
            )
            self._seq = "a.event_seq"

    def events(self, begin: Position, until: int, last: int = 2**62) -> Iterator[_Event]:
        """Yields the events after a place until so many bytes were read; whole events, at least one."""
        rows = self._connection.execute(
            f"SELECT {self._seq} + 1, {self._size},"
            " CASE WHEN octet_length(e.event_json) <= ?3 THEN CAST(e.event_json AS BLOB) END,"
            f" {self._zstd} FROM {self._from} AND {self._seq} >= ?2 AND {self._seq} < ?4"
            f" ORDER BY {self._seq} LIMIT {_STEP_ROWS}",
            (self._id, begin.line, MAX_LINE_BYTES, last),
        )
        byte = begin.byte
        for number, size, plain, packed, packed_size in rows:
            line = plain if packed is None else _unpacked(packed, packed_size)
            byte += size
            yield _Event(number, size, line, b"%d %d " % (number, size) + (line or b""))
            if byte >= until:
                return

    def bytes_beyond(self, end: Position) -> int:
        total: int = self._connection.execute(
            f"SELECT ifnull(sum({self._size}), 0) FROM {self._from} AND {self._seq} >= ?2",
            (self._id, end.line),
        ).get
        return total

    def count_beyond(self, end: Position, at_most: int = 10**6) -> int:
        count: int = self._connection.execute(
            f"SELECT count(*) FROM (SELECT 1 FROM {self._from} AND {self._seq} >= ?2 LIMIT ?3)",
            (self._id, end.line, at_most),
        ).get
        return count

    def holds(self, end: Position) -> bool:
        """Returns whether the event just before a place is part of the conversation."""
        if end == BEGINNING:
            return True
        row = self._connection.execute(
            f"SELECT 1 FROM {self._from} AND {self._seq} = ?2", (self._id, end.line - 1)
        ).fetchone()
        return row is not None

    def tail(self, end: Position) -> bytes:
        if end == BEGINNING:
            return _NO_HASH
        before = Position(0, end.line - 1)
        for event in self.events(before, 1, last=end.line):
            return _hash(event.identity)
        return _hash(b"gone")


class _Database:
    """The file, opened anew for each look at it."""

    def __init__(self, state_dir: Path, path: Path) -> None:
        self.path = path
        self._state_dir = state_dir

    @contextmanager
    def opened(self) -> Iterator[apsw.Connection]:
        """Opens it for reading. Raises FileNotFoundError, RefusedFileError, FileUnreadableError, apsw.Error."""
        connection = apsw.Connection(
            str(self._checked()),
            flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_NOFOLLOW,
            vfs="unix",  # not one that other code of this process registered
        )
        try:
            connection.set_busy_timeout(_PATIENCE_MS)
            connection.execute("PRAGMA query_only = ON")
            connection.execute("PRAGMA trusted_schema = OFF")
            yield connection
        finally:
            connection.close(True)

    def _checked(self) -> Path:
        """Returns its path, with no link on the way below the state directory.

        It and the files that SQLite keeps beside it must belong to this user: the host can then use
        every file that SQLite makes there. No descriptor of the files is opened and closed, for that
        drops the locks that other connections in this process have on them.
        """
        below = self.path.relative_to(self._state_dir).parts
        try:
            with walked(str(self._state_dir), below[:-1]) as directory:
                for suffix in _SUFFIXES:
                    self._check(below[-1] + suffix, directory, may_miss=bool(suffix))
        except OSError as error:
            if fault_of(error) == "absent":
                raise FileNotFoundError(str(self.path)) from None
            if fault_of(error) == "refused":
                raise RefusedFileError(str(self.path), BEHIND_LINK) from None
            raise self._unreadable(error.strerror or str(error), may_pass(error)) from None
        return Path(os.path.realpath(self.path.parent), self.path.name)

    def _check(self, name: str, directory: int, *, may_miss: bool) -> None:
        try:
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            if may_miss:
                return
            raise
        if not stat.S_ISREG(status.st_mode):
            is_link = stat.S_ISLNK(status.st_mode)
            raise RefusedFileError(str(self.path), IS_LINK if is_link else NOT_REGULAR)
        if status.st_uid != os.geteuid():
            raise RefusedFileError(str(self.path), _FOREIGN)

    @contextmanager
    def typed_errors(self) -> Iterator[None]:
        """Turns errors of SQLite into FileUnreadableError."""
        try:
            yield
        except (apsw.Error, UnicodeDecodeError) as error:
            raise self._unreadable(_cause(error), _may_pass(error)) from None

    def _unreadable(self, reason: str, may_pass: bool) -> FileUnreadableError:
        cause = f"The host's database {str(self.path)!r} cannot be read: {reason}"
        if may_pass:
            return MomentarilyUnreadableError(cause, remedy="It will be tried again.")
        return FileUnreadableError(cause, remedy="Let `openclaw doctor` look at it.")


def _size(reader: _Reader, found: FoundTranscript, taken: Taken | None) -> int:
    begin = BEGINNING
    if taken is not None and taken[0].inode == found.inode and reader.holds(taken[1]):
        begin = taken[1]
    return begin.byte + reader.bytes_beyond(begin)


def _end_of(taken: Taken | None) -> Position:
    return taken[1] if taken else BEGINNING


def _list(connection: apsw.Connection, path: Path) -> TranscriptListing:
    with connection:
        version: int = connection.execute("PRAGMA user_version").get
        shape = _shape(connection)
        problem = _problem(connection, shape)
        if problem:
            return _failed(path, f"{problem} {_OTHER_SHAPE}", may_pass=False, version=version)
        sessions = list(_sessions(connection, shape))
        forgotten = _forgotten(connection, shape)
    inherited = _generated(sessions)
    left_out: Counter[str] = Counter()
    files: list[FoundTranscript] = []
    skipped: list[SkippedFile] = []
    for one in sessions:
        why_not = "forgotten" if one.session_id in forgotten else one.why_not
        why_not = why_not or inherited.get(one.key)
        if why_not:
            left_out[why_not] += 1
        elif one.last_seq is not None and not _is_name(one.session_id):
            shown = ascii(one.session_id[:80])
            skipped.append(SkippedFile(path=PREFIX + shown, reason="its id is no name of a file"))
        elif one.last_seq is not None:
            files.append(one.found())
    return TranscriptListing(
        files=tuple(sorted(files, key=lambda found: found.path)),
        skipped=tuple(skipped),
        database=HostDatabase(
            path=str(path),
            version=version,
            is_known=version == KNOWN_VERSION,
            left_out=dict(sorted(left_out.items())),
            ids=frozenset(one.session_id for one in sessions) | forgotten,
        ),
    )


def _session(connection: apsw.Connection, shape: _Shape, session_id: str) -> _Session | None:
    """Returns the session, if it is still one to take in."""
    if session_id in _forgotten(connection, shape):
        return None
    found = next(_sessions(connection, shape, session_id), None)
    if found is None or found.why_not or found.last_seq is None:
        return None
    nodes = shape["session_nodes"]
    columns = [name for name in ("spawned_by", "parent_session_key") if name in nodes]

    def parents_of(key: str) -> Iterable[str | None]:
        if not columns:
            return ()
        sql = f"SELECT {', '.join(columns)} FROM session_nodes WHERE session_key = ?"
        return connection.execute(sql, (key,)).fetchone() or ()

    return None if _inherited(found.parents, parents_of) else found


def _sessions(
    connection: apsw.Connection, shape: _Shape, session_id: str | None = None
) -> Iterator[_Session]:
    only = "" if session_id is None else " WHERE w.session_id = ?1"
    bindings = () if session_id is None else (session_id,)
    for row in connection.execute(_select_sessions(shape) + only, bindings):
        *own, is_rebuilding, current_id = row[:10]
        session_id, key, updated_ms, *_ = own
        if not (
            isinstance(session_id, str) and isinstance(key, str) and isinstance(updated_ms, int)
        ):
            raise apsw.MismatchError("its sessions are not described as they were in 2026.9")
        why_not = _why_not(key, row[10:14], is_current=current_id == session_id)
        yield _Session._make((*own, bool(is_rebuilding), why_not, row[14:]))


def _select_sessions(shape: _Shape) -> str:
    """Returns the query for the tables and columns of this release of the host; NULL for those it lacks."""

    def column(table: str, alias: str, name: str) -> str:
        return f"{alias}.{name}" if name in shape.get(table, ()) else "NULL"

    windows, nodes = "session_windows", "session_nodes"
    state, marks = "session_transcript_index_state", "transcript_rewrite_watermarks"
    has_state = shape.get(state, frozenset()) >= {"session_id", "indexed_seq", "needs_rebuild"}
    active = shape.get("session_transcript_active_events", frozenset())
    is_projected = has_state and active >= {"session_id", "event_seq"}
    has_marks = shape.get(marks, frozenset()) >= {"session_id", "generation"}
    columns = (
        "w.session_id",
        "w.session_key",
        f"ifnull({column(windows, 'w', 'transcript_updated_at')}, w.updated_at)",
        "(SELECT max(seq) FROM transcript_events AS e WHERE e.session_id = w.session_id)",
        "m.generation" if has_marks else "NULL",
        "s.indexed_seq" if is_projected else "NULL",
        column(state, "s", "leaf_event_id") if is_projected else "NULL",
        column(state, "s", "active_event_count") if is_projected else "NULL",
        "s.needs_rebuild" if is_projected else "0",
        "n.current_session_id",
        column(nodes, "n", "archived_at"),
        column(windows, "w", "hook_external_content_source"),
        column(windows, "w", "acp_owned"),
        column(windows, "w", "plugin_owner_id"),
        column(nodes, "n", "spawned_by"),
        column(nodes, "n", "parent_session_key"),
    )
    sql = (
        f"SELECT {', '.join(columns)} FROM session_windows AS w"
        " LEFT JOIN session_nodes AS n ON n.session_key = w.session_key"
    )
    if is_projected:
        sql += f" LEFT JOIN {state} AS s ON s.session_id = w.session_id"
    if has_marks:
        sql += f" LEFT JOIN {marks} AS m ON m.session_id = w.session_id"
    return sql


def _why_not(key: str, facts: Sequence[object], *, is_current: bool) -> str | None:
    """Returns why a session is not to be remembered, if so. The host's own memory leaves out the same."""
    archived_at, external, of_protocol, plugin = facts
    if archived_at is not None:
        return "archived"
    if external is not None:
        return "external"
    if not is_current and (of_protocol or plugin):
        return "plugin"
    return _kind_by_key(key)


def _kind_by_key(key: str) -> str | None:
    parts = key.lower().split(":", 2)
    rest = parts[2] if len(parts) == 3 and parts[0] == "agent" else key.lower()
    return next((kind for pattern, kind in _NOT_CONVERSATIONS if pattern.match(rest)), None)


def _generated(sessions: Sequence[_Session]) -> dict[str, str]:
    """Returns the sessions that a timer or a dream began, as reasons by key."""
    parents = {one.key: one.parents for one in sessions}
    kinds = {
        key: _inherited(direct, lambda one: parents.get(one, ())) for key, direct in parents.items()
    }
    return {key: kind for key, kind in kinds.items() if kind}


def _inherited(
    parents: Iterable[str | None], parents_of: Callable[[str], Iterable[str | None]]
) -> str | None:
    """Returns `cron` or `dreaming` if one of that kind is among the parents, directly or through others."""
    seen: set[str] = set()
    ahead = [one for one in parents if one]
    while ahead:
        parent = ahead.pop()
        kind = _kind_by_key(parent)
        if kind in _INHERITED:
            return kind
        if parent not in seen:
            seen.add(parent)
            ahead += [one for one in parents_of(parent) if one]
    return None


def _forgotten(connection: apsw.Connection, shape: _Shape) -> frozenset[str]:
    """Returns the ids of sessions that a person had the host's memory forget."""
    if "session_id" not in shape.get("memory_session_tombstones", ()):
        return frozenset()
    rows = connection.execute("SELECT session_id FROM memory_session_tombstones")
    return frozenset(session_id for (session_id,) in rows)


def _shape(connection: apsw.Connection) -> _Shape:
    columns: dict[str, set[str]] = {}
    for table, column in connection.execute(
        "SELECT t.name, c.name FROM sqlite_schema AS t, pragma_table_info(t.name) AS c"
        " WHERE t.type = 'table' AND t.name IN ('transcript_events', 'session_windows',"
        " 'session_nodes', 'session_transcript_index_state', 'session_transcript_active_events',"
        " 'transcript_rewrite_watermarks', 'memory_session_tombstones')"
    ):
        columns.setdefault(table, set()).add(column)
    return {table: frozenset(names) for table, names in columns.items()}


def _problem(connection: apsw.Connection, shape: _Shape) -> str | None:
    """Returns what makes the database unreadable: missing columns or another encoding."""
    missing = [
        f"{table}.{name}"
        for table, names in _NEEDED.items()
        for name in sorted(names - shape.get(table, frozenset()))
    ]
    if missing:
        return f"It holds no {', '.join(missing)}."
    encoding = connection.execute("PRAGMA encoding").get
    return None if encoding == "UTF-8" else f"Its text is {encoding}, not UTF-8."


class _Stamps(NamedTuple):
    database: tuple[int, ...]
    log: tuple[int, ...]

    @property
    def changed_ns(self) -> int:
        return max((self.database or (0,))[-1], (self.log or (0,))[-1])


def _stamps(path: Path) -> _Stamps | None:
    """Returns stamps that change when the host writes; None if there is no database. Raises OSError."""
    database = _stamp(path)
    return _Stamps(database, _stamp(Path(f"{path}-wal"))) if database else None


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _failed(
    path: Path, reason: str, may_pass: bool, version: int | None = None
) -> TranscriptListing:
    return TranscriptListing(
        database=HostDatabase(path=str(path), version=version, failure=reason, may_pass=may_pass)
    )


def _cause(error: apsw.Error | UnicodeDecodeError) -> str:
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return "the host keeps it locked."
        case apsw.CantOpenError():
            return (
                "SQLite cannot open it. While the host is not running this user must be able to"
                " write to its directory."
            )
        case apsw.CorruptError() | apsw.NotADBError() | UnicodeDecodeError():
            return f"it is damaged ({error})."
    return f"{error}."


def _may_pass(error: apsw.Error | UnicodeDecodeError) -> bool:
    return isinstance(error, apsw.BusyError | apsw.LockedError | apsw.IOError | apsw.CantOpenError)


def _seems_same(found: FoundTranscript, known: FoundTranscript) -> bool:
    """Returns whether nothing changed; also True while the host works out what is part of a conversation."""
    is_level = (known.mtime_ns, known.ctime_ns) == (found.mtime_ns, found.ctime_ns)
    is_rebuilt = known.inode != found.inode
    if found.is_settled:
        return is_level and not is_rebuilt
    return is_level or is_rebuilt


def _unpacked(packed: Any, size: Any) -> bytes | None:
    is_sound = isinstance(packed, bytes) and isinstance(size, int) and 0 < size <= MAX_LINE_BYTES
    return decompressed(packed, size) if is_sound else None


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=HASH_BYTES).digest()


def _number(facts: tuple[object, ...]) -> int:
    """Returns a hash of the facts, as a number of 62 bits that SQLite can store."""
    return int.from_bytes(_hash(repr(facts).encode())[:8], "little") >> 2


def _is_name(session_id: str) -> bool:
    return (
        is_addressable(session_id)
        and 0 < len(session_id) <= 200
        and "/" not in session_id
        and session_id not in {".", ".."}
        and not session_id.endswith((SUFFIX, ".md"))
    )


_SUFFIXES: Final = ("", "-wal", "-shm")
_UNREADABLE: Final = (
    apsw.Error,
    OSError,
    UnicodeDecodeError,
    FileUnreadableError,
    RefusedFileError,
)
_FOREIGN: Final = "it belongs to another user"
_OTHER_SHAPE: Final = "It is of a release that this gateway does not know; see for a newer gateway."
