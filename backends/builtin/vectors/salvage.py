"""Taking the vectors of a damaged index over into the one that took its place."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import apsw
import msgspec
import structlog
from anyio.to_thread import run_sync

from backends.builtin.storage import schema
from backends.builtin.storage.connections import open_unchanging
from backends.builtin.storage.database import Database
from backends.builtin.storage.schema import APPLICATION_ID, SCHEMA_VERSION
from backends.builtin.vectors import store
from backends.builtin.vectors.store import current_serial
from providers.interface import Fingerprint

if TYPE_CHECKING:
    from providers.interface import Vector


_HASH_BYTES: Final = 16
"""Of a text, as `notes.preparing` takes it."""
_SQUARE_TOLERANCE: Final = 1e-6
"""Numbers of a vector of length 1 are rounded by 2^-24 of themselves, so its square differs from 1 by
2^-23 at most. One that is put together of two vectors is rarely so close."""

# A row that is too long is not even read.
_SELECT: Final = """
    SELECT id, fingerprint_id, text_hash, vector FROM embeddings
    WHERE id > :low AND id <= :high AND length(vector) <= :bytes
"""


class Salvaged(NamedTuple):
    """The vector of a text, as it was stored."""

    fingerprint: Fingerprint
    text_hash: bytes
    vector: Vector


class _Space(NamedTuple):
    fingerprint: Fingerprint
    bytes: int
    """Of each of its vectors."""


class Wreck:
    """An open file. Every method blocks; those of one object are called one at a time."""

    def __init__(self, path: Path) -> None:
        """Raises apsw.Error and OSError when nothing can be read of it."""
        self._connection = open_unchanging(path)
        try:
            self._look(path)
            self._spaces = dict(self._read_spaces())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._connection.close()

    def count(self) -> int | None:
        """How many vectors it had; None when that cannot be read."""
        try:
            number: int = self._connection.execute("SELECT count(*) FROM embeddings").get
        except apsw.Error:
            return None
        return number

    def vectors(self) -> Iterator[Salvaged | None]:
        """All that are sound, by their ids; twice where a page stands twice. None stands for a look at
        something that is not.

        Behind an error the rest is halved again and again, so that in the end only ids whose pages cannot
        be read are left out. Raises apsw.Error when the highest id is not known.
        """
        longest = max((space.bytes for space in self._spaces.values()), default=0)
        ranges = [(0, self._highest_id())]
        while ranges:
            low, high = ranges.pop()
            limits = {"low": low, "high": high, "bytes": longest}
            try:
                for row in self._connection.execute(_SELECT, limits):
                    low = max(low, row[0])
                    yield self._judged(*row[1:])
            except apsw.Error:
                yield None
                middle = (low + high) // 2
                if middle > low:
                    ranges += [(middle, high), (low, middle)]

    def _look(self, path: Path) -> None:
        marks = [self._connection.pragma(name) for name in ("application_id", "user_version")]
        if marks != [APPLICATION_ID, SCHEMA_VERSION]:
            raise apsw.NotADBError("it is no index of this release")
        if self._connection.pragma("checksum_verification") != "1":
            raise apsw.CorruptError("its pages have no checksums")
        if path.stat().st_size % self._connection.pragma("page_size"):
            raise apsw.CorruptError("its last page is not whole")  # SQLite would read zeros

    def _read_spaces(self) -> Iterator[tuple[int, _Space]]:
        """Fingerprints by their rows; their digests vouch for them."""
        rows: list[Any] = self._connection.execute(
            "SELECT id, digest, description, dimensions FROM fingerprints"
        ).fetchall()
        for number, digest, description, dimensions in rows:
            fingerprint = msgspec.json.decode(description, type=Fingerprint)
            if fingerprint.digest() == digest:
                yield number, _Space(fingerprint, 4 * dimensions)

    def _highest_id(self) -> int:
        """At most; it stands in two places, of which one may be readable."""
        try:
            if last := current_serial(self._connection).last:
                return last
        except apsw.Error:
            pass
        highest: int | None = self._connection.execute("SELECT max(id) FROM embeddings").get
        return highest or 0

    def _judged(self, number: object, text_hash: object, blob: object) -> Salvaged | None:
        import numpy as np  # noqa: PLC0415 - not part of the start

        space = self._spaces.get(number) if isinstance(number, int) else None
        if space is None or not (isinstance(text_hash, bytes) and isinstance(blob, bytes)):
            return None
        if len(text_hash) != _HASH_BYTES or len(blob) != space.bytes:
            return None
        vector = np.frombuffer(blob, "<f4")
        with np.errstate(all="ignore"):
            wide = vector.astype(np.float64)
            is_sound = abs(float(wide @ wide) - 1.0) <= _SQUARE_TOLERANCE  # false for NaN
        if not is_sound:
            return None
        return Salvaged(space.fingerprint, text_hash, vector)


_log = structlog.get_logger(__name__)

LIMIT_S: Final = 120.0
"""New notes have no vectors meanwhile. 256 MB, the most that is set aside, take a few seconds."""
ROWS_A_TURN: Final = 128
"""At most 2 MB of vectors, which are written in some milliseconds."""
_TURN_S: Final = 0.05


async def take_over(database: Database, *, limit_s: float = LIMIT_S) -> bool:
    """Whether there was a damaged index to take vectors from.

    Cancelled, or after IndexUnavailableError, the next call begins anew.
    """
    salvage = await run_sync(_begin, database, limit_s)
    if salvage is None:
        return False
    try:
        while await run_sync(salvage.turn):
            pass
    finally:
        salvage.close()
    return True


def _begin(database: Database, limit_s: float) -> Salvage | None:
    with database.reading() as connection:
        name = schema.unread(connection)
    return Salvage(database, name, limit_s) if name else None


class Salvage:
    """One file, turn by turn. Every method blocks."""

    def __init__(self, database: Database, name: str, limit_s: float) -> None:
        """Raises nothing: of what cannot be opened nothing is taken."""
        self._vectors: Iterator[Salvaged | None] = iter(())
        self._database = database
        self._name = name
        self._generation = database.generation
        self._started = time.monotonic()
        self._ends = self._started + limit_s
        self._taken = 0
        self._wreck: Wreck | None = None
        self._total: int | None = None
        self._failure = ""
        try:
            self._wreck = Wreck(database.path.with_name(name))
            self._total = self._wreck.count()
            self._vectors = self._wreck.vectors()
        except Exception as error:  # noqa: BLE001 - whatever it is, texts can be embedded anew
            self._failure = str(error)

    def close(self) -> None:
        if self._wreck is not None:
            self._wreck.close()

    def turn(self) -> bool:
        """Takes over some vectors; whether there may be more. Raises IndexUnavailableError."""
        ends = min(self._ends, time.monotonic() + _TURN_S)
        rows: list[Salvaged] = []
        is_last = True
        try:
            for found in self._vectors:
                if found is not None:
                    rows.append(found)
                now = time.monotonic()
                if len(rows) >= ROWS_A_TURN or now >= ends:
                    is_last = now >= self._ends
                    break
        except Exception as error:  # noqa: BLE001 - as above
            self._failure = str(error)
        return self._store(rows, is_last=is_last)

    def _store(self, rows: list[Salvaged], *, is_last: bool) -> bool:
        by_fingerprint: dict[Fingerprint, dict[bytes, Vector]] = defaultdict(dict)
        for row in rows:
            by_fingerprint[row.fingerprint][row.text_hash] = row.vector
        with self._database.writing() as connection:
            if self._generation != self._database.generation:
                return False  # replaced once more
            if schema.unread(connection) != self._name:
                return False  # another process was faster
            taken = [
                _put_missing(connection, fingerprint, vectors)
                for fingerprint, vectors in by_fingerprint.items()
            ]
            if is_last:
                schema.set_read(connection)
        self._taken += sum(taken)
        if is_last:
            self._tell()
        return not is_last

    def _tell(self) -> None:
        _log.info(
            "embeddings taken over",
            taken=self._taken,
            of=self._total,
            source=self._name,
            failure=self._failure or None,
            seconds=round(time.monotonic() - self._started, 1),
        )
        if self._taken:
            total = "" if self._total is None else f" of {self._total:,}"
            sentence = f"{self._taken:,}{total} embeddings were taken over from {self._name}."
            self._database.note(sentence)
        elif self._total != 0:
            reason = f" ({self._failure})" if self._failure else ""
            self._database.note(f"No embedding could be taken over from {self._name}{reason}.")


def _put_missing(
    connection: apsw.Connection, fingerprint: Fingerprint, vectors: dict[bytes, Vector]
) -> int:
    """Stores the vectors of those texts that have none yet; returns how many that were.

    Where newer vectors have other dimensions, these are of no use any more.
    """
    number, dimensions = connection.execute(
        "SELECT id, dimensions FROM fingerprints WHERE digest = ?", (fingerprint.digest(),)
    ).get or (None, None)
    if dimensions not in {None, len(next(iter(vectors.values())))}:
        return 0
    known = "SELECT 1 FROM embeddings WHERE fingerprint_id = ? AND text_hash = ?"
    missing = [
        (text_hash, vector)
        for text_hash, vector in vectors.items()
        if not connection.execute(known, (number, text_hash)).get
    ]
    if missing:
        store.put_vectors(connection, fingerprint, missing)
    return len(missing)
