"""Taking the vectors of a damaged index over into the one that took its place.

Owns the turns in which that is done: short ones, so that nobody waits long for the database, and all of
them within a bounded time. Whatever cannot be taken over is embedded anew.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import apsw
import structlog
from anyio.to_thread import run_sync

from backends.builtin.storage import wrecks
from backends.builtin.storage.database import Database
from backends.builtin.vectors import store
from backends.builtin.vectors.wreck import Salvaged, Wreck

if TYPE_CHECKING:
    from providers.fingerprint import Fingerprint
    from providers.interface import Vector

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
        name = wrecks.unread(connection)
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
            if wrecks.unread(connection) != self._name:
                return False  # another process was faster
            taken = [
                _put_missing(connection, fingerprint, vectors)
                for fingerprint, vectors in by_fingerprint.items()
            ]
            if is_last:
                wrecks.set_read(connection)
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
