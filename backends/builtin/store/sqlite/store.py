"""The SQLite store: the open file with turns to read and write, its views, upkeep, and replacing a damaged one."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import apsw

from backends.builtin.store.port import (
    ARRIVALS_TO_FORGET,
    READERS,
    SCRUB_LIMIT_S,
    VIEWPOINT_LIFE_MS,
    Lease,
    Version,
    Viewpoint,
    Work,
    now_ms,
)
from backends.builtin.store.sqlite.connections import (
    PATIENCE_S,
    connect_reader,
    connect_writer,
    fold_log,
    index_unavailable,
    is_damage,
    milliseconds,
    network_note,
)
from backends.builtin.store.sqlite.erasing import erase, erase_words, is_due
from backends.builtin.store.sqlite.file_rows import (
    ENTER_VIEWPOINT,
    OF_VIEWPOINT,
    SqliteFiles,
    key_of,
)
from backends.builtin.store.sqlite.index_file import (
    ensure_index,
    mark_closed,
    mark_open,
    restore_checksums,
    search_files,
    set_aside,
    size_on_disk,
)
from backends.builtin.store.sqlite.keywords import SqliteKeywords
from backends.builtin.store.sqlite.moving import settle, supersede
from backends.builtin.store.sqlite.schema import SCHEMA_VERSION
from backends.interface import IndexUnavailableError, StoreDetails

if TYPE_CHECKING:
    from backends.builtin.store.sqlite.embeddings import SqliteEmbeddings, SqliteJobs
    from backends.builtin.store.sqlite.file_rows import SqliteTranscripts
    from backends.builtin.store.sqlite.vectors import SqliteVectorMemory, SqliteVectorSpace
    from config.settings import VectorStoreSettings
    from providers.provider_interface import Fingerprint

MAX_TIMES_DAMAGED: Final = 3
"""The most damaged files that one process replaces. More of them mean that the disk is broken."""
LARGE_BYTES: Final = 64 << 20
"""A file of this size is rewritten within a second or so; a larger one while nobody wants to write."""
MAX_LOG_BYTES: Final = 1024 * 1024
"""The most bytes of a write-ahead log that stay between syncs."""
ERASING_AT_END_S: Final = 0.5
"""The time that a process which ends spends on erasing; the next one does the rest."""
_STEPS_BETWEEN_LOOKS: Final = 1_000
"""Virtual machine instructions of SQLite: a fraction of a millisecond."""

_NUMBERS: Final = count(1)
_READERS: Final[WeakKeyDictionary[apsw.Connection, int]] = WeakKeyDictionary()
"""A number for each connection that was ever asked for its version."""
_SELECT_REMEMBERED: Final = "SELECT value FROM meta WHERE key = ?"
_MISSED: Final = "missed by others"
"""The key of a count: how often others arrived by whose clocks a viewpoint is not in use any more."""
_FORGET: Final = """
    DELETE FROM meta WHERE instr(key, ?1) > 0 AND substr(key, instr(key, ?1) + 1) = ?2
"""
_SELECT_VIEWPOINTS: Final = "SELECT name, used_at_ms FROM viewpoints ORDER BY used_at_ms DESC, name"


class SqliteView:
    """`View` over a connection inside a read transaction."""

    def __init__(
        self,
        connection: apsw.Connection,
        engines: SqliteVectorMemory | None = None,
        viewpoint: str = "",
    ) -> None:
        self._connection = connection
        self._engines = engines
        self._viewpoint = viewpoint
        self.keywords = SqliteKeywords(connection)
        self.files = SqliteFiles(connection, viewpoint)

    @cached_property
    def transcripts(self) -> SqliteTranscripts:
        from backends.builtin.store.sqlite.file_rows import SqliteTranscripts  # noqa: PLC0415 - not for notes alone

        return SqliteTranscripts(self._connection, self._viewpoint)

    @cached_property
    def embeddings(self) -> SqliteEmbeddings:
        from backends.builtin.store.sqlite.embeddings import SqliteEmbeddings  # noqa: PLC0415 - not for keywords alone

        return SqliteEmbeddings(self._connection)

    @cached_property
    def jobs(self) -> SqliteJobs:
        from backends.builtin.store.sqlite.embeddings import SqliteJobs  # noqa: PLC0415 - as above

        return SqliteJobs(self._connection)

    def vectors(self, fingerprint: Fingerprint) -> SqliteVectorSpace | None:
        engines = self._engines
        return None if engines is None else engines.space(self._connection, fingerprint)

    def version(self) -> Version:
        """Returns the version for this connection: each has its own numbers (sqlite.org/pragma.html, data_version)."""
        reader = _READERS.setdefault(self._connection, next(_NUMBERS))
        ((number,),) = self._connection.execute("PRAGMA data_version")
        return Version(reader, int(number))

    def files_version(self) -> Version:
        """Returns a number that starts at random in a new file, so that it differs between files, too."""
        number: int = self._connection.execute("SELECT number FROM stamps_version").get
        return Version(0, number)

    def remembered(self, key: str, *, here: bool = False) -> str | None:
        key = key_of(key, self._viewpoint) if here else key
        value: str | None = self._connection.execute(_SELECT_REMEMBERED, (key,)).get
        return value

    def now_ms(self) -> int:
        return now_ms()

    def viewpoints(self) -> list[Viewpoint]:
        rows = self._connection.execute(_SELECT_VIEWPOINTS)
        return [Viewpoint(name, used, name == self._viewpoint) for name, used in rows]

    def probe(self) -> None:
        self._connection.execute("SELECT id FROM chunks LIMIT 1").fetchall()

    def details(self) -> StoreDetails:
        return StoreDetails(driver="sqlite", schema_version=SCHEMA_VERSION, role="owner")

    def journal(self) -> str:
        mode: str = self._connection.pragma("journal_mode")
        return mode


class SqliteWriter(SqliteView):
    """`Writer` over the writing connection inside its transaction."""

    def remember(self, key: str, text: str, *, here: bool = False) -> None:
        key = key_of(key, self._viewpoint) if here else key
        self._connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, text))

    def arrive(self, *, life_ms: int = VIEWPOINT_LIFE_MS) -> None:
        now = now_ms()
        self._connection.execute(ENTER_VIEWPOINT, (self._viewpoint,))
        self._connection.execute(
            "UPDATE viewpoints SET used_at_ms = ? WHERE name = ?", (now, self._viewpoint)
        )
        self.remember(_MISSED, "0", here=True)
        late = self._connection.execute(
            "SELECT name FROM viewpoints WHERE used_at_ms < ? AND name <> ?",
            (now - life_ms, self._viewpoint),
        ).fetchall()
        for (name,) in late:
            self._miss(str(name))

    def _miss(self, name: str) -> None:
        """Counts a miss and forgets a viewpoint with many: one in use arrives meanwhile, even if a clock is ahead."""
        key = key_of(_MISSED, name)
        missed = int(self.remembered(key) or 0) + 1
        if missed < ARRIVALS_TO_FORGET:
            self.remember(key, str(missed))
            return
        self._connection.execute("DELETE FROM viewpoints WHERE name = ?", (name,))
        self._connection.execute(_FORGET, (OF_VIEWPOINT, name))


class SqliteStore:
    """`Store`: an open index file. Every method blocks and may be called from any thread."""

    def __init__(
        self,
        wanted: Path,
        *,
        former: Path | None = None,
        is_owner: bool = False,
        may_make: Callable[[], bool] = lambda: True,
        viewpoint: str = "",
    ) -> None:
        """Opens or makes the index at `wanted`, or at a sibling name when that place is taken.

        An index of ours at its `former` place is moved first. `is_owner`: this process holds the lock of the index.
        `may_make`: asked before a file that was taken away is made anew. Raises IndexUnavailableError.
        """
        self.viewpoint = viewpoint
        self.path = self._wanted = Path(os.path.realpath(wanted))  # SQLite follows links, too
        self._former = former
        self._is_owner = is_owner
        self._may_make = may_make
        self.notes: tuple[str, ...] = ()
        """Notes for a person about the file and what was done with it."""
        self._engines: SqliteVectorMemory | None = None
        self.generation = 0
        """Goes up when an empty file takes the place of this one."""
        self._writing = threading.Lock()
        self._waiting = 0
        self._sharing = threading.Lock()
        self._idle: list[apsw.Connection] = []
        self._opened: tuple[int, int] | None = None
        self._damage: str | None = None
        self._times_damaged = 0
        self._is_closing = False
        """True if work that may be interrupted is to end."""
        self._closed = False
        with self._translating_errors(OSError):
            self._open()
            if is_owner:
                self.note(*supersede(self.path, former))

    def _open(self) -> None:
        """Opens or makes the file; a damaged one is set aside, and a new one made."""
        self._find_or_make()
        try:
            self._connect()
        except apsw.Error as error:
            if not is_damage(error):
                raise
            self._set_aside(str(error))
            self._find_or_make()
            self._connect()

    def open_vectors(self, settings: VectorStoreSettings) -> SqliteVectorMemory | None:
        from backends.builtin.store.sqlite.vectors import SqliteVectorMemory  # noqa: PLC0415 - not for keywords alone

        self._engines = SqliteVectorMemory(settings) if settings.enabled else None
        return self._engines

    @contextmanager
    def view(self, *, until: float = math.inf) -> Iterator[SqliteView]:  # noqa: ARG002 - no server is waited for
        """Yields one state of the index. Raises IndexUnavailableError for every error of SQLite."""
        with self.reading() as connection:
            yield SqliteView(connection, self._engines, self.viewpoint)

    @contextmanager
    def writer(
        self,
        patience_s: float | None = None,
        *,
        lease: Lease | None = None,  # noqa: ARG002 - the owner's lock is the lease of everything
    ) -> Iterator[SqliteWriter]:
        """Yields a writer; see `writing`."""
        with self.writing(patience_s) as connection:
            writer = SqliteWriter(connection, self._engines, self.viewpoint)
            yield writer
            writer.files.write_words()

    @property
    def is_shared(self) -> bool:
        return False

    def lease(self, work: Work, ttl_s: float) -> Lease:  # noqa: ARG002 - it does not run out
        return Lease(work, 0)

    def renew(self, lease: Lease, ttl_s: float) -> bool:  # noqa: ARG002 - as above
        return True

    def give_back(self, lease: Lease) -> None:
        pass

    def claim(self, lease: Lease, text_hashes: Sequence[bytes]) -> None:
        pass

    def release(self, text_hashes: Sequence[bytes]) -> None:
        pass

    def tidy(self) -> None:
        give_back_unused(self)
        self._shorten_log()

    def _shorten_log(self) -> None:
        """Empties a long write-ahead log, which never shrinks by itself, unless somebody reads or writes just now."""
        try:
            is_long = Path(f"{self.path}-wal").stat().st_size > MAX_LOG_BYTES
        except OSError:
            return
        if is_long:
            with self._translating_errors(), suppress(apsw.BusyError), self._turn(0):
                self._writer.set_busy_timeout(0)
                self._writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def rewrite(self, *, gives_way: bool) -> bool:
        """Rewrites the whole file without unused space; `close` interrupts it.

        With `gives_way` so does whoever waits to write to a large file, which takes minutes for some gigabytes;
        returns False then. Raises apsw.Error.
        """
        with self.alone() as connection:
            gives_way = gives_way and self.size_bytes() > LARGE_BYTES
            connection.set_progress_handler(
                lambda: self._is_closing or (gives_way and self._waiting > 0),
                _STEPS_BETWEEN_LOOKS,
            )
            try:
                connection.execute("VACUUM")
            except apsw.InterruptError:
                if self._is_closing:
                    raise
                return False
            finally:
                connection.set_progress_handler(None)
        return True

    def search_files(self, texts: Sequence[bytes]) -> Mapping[Path, bool]:
        with self._translating_errors(OSError):
            return search_files(self.path, texts)

    def erase_deleted(self, *, at_once: bool = False) -> bool:
        with self._translating_errors(OSError):
            return erase(self, gives_way=not at_once)

    def scrub(self, limit_s: float = SCRUB_LIMIT_S) -> bool:
        """Reads the whole file; returns whether there was time for all of it. Blocks.

        It does so on a connection of its own: one that was used before does not read again the pages in its cache, and
        FTS5 would compare cached segments with words that were merged since (as of SQLite 3.54), which looks like
        damage. Raises IndexDamagedError, IndexUnavailableError.
        """
        ends = time.monotonic() + limit_s
        with self.reading(remembering=False) as connection:
            connection.set_progress_handler(lambda: time.monotonic() > ends, _STEPS_BETWEEN_LOOKS)
            try:
                verdict: str = connection.execute("PRAGMA quick_check(1)").get
            except apsw.InterruptError:
                return False
            finally:
                connection.set_progress_handler(None)
            if verdict != "ok":
                raise apsw.CorruptError(verdict)
        return True

    @property
    def place(self) -> str:
        return str(self.path)

    @contextmanager
    def writing(self, patience_s: float | None = None) -> Iterator[apsw.Connection]:
        """Yields the writing connection inside one transaction; an exception rolls it back.

        Waits at most `patience_s` for its turn; by default, as long as other threads take and `PATIENCE_S` for other
        processes. Raises IndexUnavailableError for every error of SQLite.
        """
        with self._translating_errors(), self._turn(patience_s):
            writer = self._writer
            writer.set_busy_timeout(milliseconds(PATIENCE_S if patience_s is None else patience_s))
            try:
                writer.execute("BEGIN IMMEDIATE")
                yield writer
                writer.execute("COMMIT")
            except BaseException as error:
                self._remember_damage(error, self.generation)
                if writer.in_transaction:
                    writer.execute("ROLLBACK")
                raise

    @contextmanager
    def alone(self, patience_s: float = PATIENCE_S) -> Iterator[apsw.Connection]:
        """Yields the writing connection outside of any transaction, while nobody else in this process writes.

        `patience_s`: how long SQLite waits for other processes and for readers. Raises apsw.BusyError when they are
        in the way, and as `writing`.
        """
        with self._turn(None):
            self._writer.set_busy_timeout(milliseconds(patience_s))
            yield self._writer

    @contextmanager
    def reading(self, *, remembering: bool = True) -> Iterator[apsw.Connection]:
        """Yields a connection that sees one state of the index from its first query to the end.

        `remembering`: it may use pages in the cache of an earlier reader; otherwise it reads every page from the
        file. Raises IndexUnavailableError for every error of SQLite.
        """
        with self._translating_errors():
            if not self._is_sound():
                with self._turn(None):
                    pass  # a turn begins with a sound file
            with self._sharing:
                generation = self.generation
                connection = self._idle.pop() if remembering and self._idle else None
            try:
                connection = connection or connect_reader(self.path)
                connection.execute("BEGIN")
                yield connection
                connection.execute("COMMIT")
            except BaseException as error:
                self._remember_damage(error, generation)
                if connection is not None:
                    connection.close()
                    mark_closed(self.path)
                raise
            self._give_back(connection, generation)

    def note(self, *notes: str) -> None:
        """Adds to `notes` those that are not among them yet."""
        self.notes = tuple(dict.fromkeys((*self.notes, *notes)))

    def size_bytes(self) -> int:
        """Returns the bytes on disk, with the write-ahead log."""
        return size_on_disk(self.path)

    def close(self) -> None:
        """Waits for a running transaction; the last connection folds the log into the file."""
        self._is_closing = True
        with suppress(apsw.Error, OSError, IndexUnavailableError):
            if is_due(self):
                erase_words(self, ERASING_AT_END_S)
        with self._writing:
            self._closed = True
            # SQLite's driver lets no other thread run while it closes. If the disk hangs, `stat` waits
            # for it first, while other threads run.
            with suppress(OSError):
                self.path.stat()
            fold_log(self._writer)
            self._close_connections()

    @contextmanager
    def _turn(self, patience_s: float | None) -> Iterator[None]:
        """Holds the right to write, on a file that is sound as far as is known."""
        if not self._writing.acquire(blocking=False):
            self._wait(patience_s)
        try:
            if self._closed:
                raise apsw.ConnectionClosedError("it was closed")
            if not self._is_sound():
                with self._translating_errors(OSError):
                    self._replace()
            yield
        finally:
            self._writing.release()

    def _wait(self, patience_s: float | None) -> None:
        """Waits for the right to write, and is counted meanwhile."""
        with self._sharing:
            self._waiting += 1
        try:
            if not self._writing.acquire(timeout=-1 if patience_s is None else patience_s):
                raise apsw.BusyError("another task is writing to it")
        finally:
            with self._sharing:
                self._waiting -= 1

    def _give_back(self, connection: apsw.Connection, generation: int) -> None:
        with self._sharing:
            is_current = generation == self.generation and not self._closed
            if is_current and len(self._idle) < READERS:
                self._idle.append(connection)
                return
        connection.close()
        mark_closed(self.path)

    @contextmanager
    def _translating_errors(self, *also: type[OSError]) -> Iterator[None]:
        kinds: tuple[type[apsw.Error | OSError], ...] = (apsw.Error, *also)
        try:
            yield
        except kinds as error:
            raise index_unavailable(self.path, error) from error

    def _remember_damage(self, error: BaseException, generation: int) -> None:
        """Notes damage of the present file; that of an earlier one says nothing about it."""
        if is_damage(error) and generation == self.generation:
            self._damage = str(error)

    def _is_sound(self) -> bool:
        """Returns whether nothing is known to be wrong with the file."""
        return self._damage is None and self._is_in_place()

    def _is_in_place(self) -> bool:
        """Returns whether the path still leads to the open file, as far as that can be seen."""
        try:
            return self._opened == _identity(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return self._opened is not None

    def _replace(self) -> None:
        is_away = not self._is_in_place()
        if is_away and (self._is_closing or not self._may_make()):
            raise IndexUnavailableError(
                f"The index {self.path} was deleted, and this process, which ends, does not make it anew.",
                remedy="Start it again.",
            )
        self._close_connections()
        if self._damage is None or is_away:
            self._damage = None
            self.note(
                f"{self.path.name} is another file than before; what it lacks is indexed from Markdown."
                if self.path.exists()
                else f"{self.path.name} was taken away and is rebuilt from Markdown."
            )
        elif self._times_damaged < MAX_TIMES_DAMAGED:
            self._set_aside(self._damage)
        else:
            raise apsw.CorruptError(f"damaged again and again, see the disk ({self._damage})")
        self._opened = None
        self._open()

    def _set_aside(self, cause: str) -> None:
        self.note(set_aside(self.path, cause))
        self._damage = None
        self._times_damaged += 1

    def _find_or_make(self) -> None:
        place, before = settle(self._wanted, self._former, is_owner=self._is_owner)
        self.path, notes = ensure_index(Path(os.path.realpath(place)))
        self.note(*before, *notes)

    def _connect(self) -> None:
        restore_checksums(self.path)
        self._writer = connect_writer(self.path)
        if self._writer.pragma("journal_mode") == "wal":
            mark_open(self.path)
        if (note := network_note(self.path)) is not None:
            self.note(note)
        self._opened = _identity(self.path)

    def _close_connections(self) -> None:
        """Closes all connections; those in use are closed when they are given back."""
        with self._sharing:
            self.generation += 1
            while self._idle:
                self._idle.pop().close()
        self._writer.close()
        mark_closed(self.path)


def _identity(path: Path) -> tuple[int, int]:
    """Returns device and inode. Raises OSError."""
    status = path.stat()
    return status.st_dev, status.st_ino


MIN_UNUSED_PAGES: Final = 512
"""4 MiB."""
UNUSED_SHARE: Final = 8
"""One page in so many may stay unused."""
PAGES_A_STEP: Final = 256
"""A write transaction of some milliseconds, so that others get their turns."""
MAX_STEPS: Final = 128
"""256 MiB; the rest is given back the next time."""


def give_back_unused(store: SqliteStore) -> int:
    """Shortens the file while much of it is unused; returns the pages given back.

    Blocks. Raises IndexUnavailableError.
    """
    given = 0
    with store.reading() as connection:
        unused, pages = connection.pragma("freelist_count"), connection.pragma("page_count")
    while (
        unused > max(MIN_UNUSED_PAGES, pages // UNUSED_SHARE) and given < MAX_STEPS * PAGES_A_STEP
    ):
        with store.writing() as connection:
            connection.execute(f"PRAGMA incremental_vacuum({PAGES_A_STEP})").fetchall()
            left = connection.pragma("freelist_count")
        given += unused - left
        if left >= unused:
            break  # an index that was made without this ability
        pages -= unused - left
        unused = left
    return given


@contextmanager
def look_into_file(index: Path, viewpoint: str = "") -> Iterator[SqliteView]:
    """Yields a view of an index file for reading alone: nothing is made, moved or replaced. Blocks.

    This process may have the file open: SQLite keeps its locks, which closing another descriptor would drop. Raises
    IndexUnavailableError.
    """
    path = Path(os.path.realpath(index))
    try:
        with closing(connect_reader(path)) as connection:
            yield SqliteView(connection, viewpoint=viewpoint)
    except apsw.Error as error:
        raise index_unavailable(path, error) from error
