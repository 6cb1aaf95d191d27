"""Reads the vectors of a damaged index file that was set aside, around the pages that cannot be read.

Owns what counts as sound there. Only a file whose pages have checksums is read, and since those neither
notice a page at another's place nor one of zeros, each row has to prove itself, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import apsw
import msgspec

from backends.builtin.storage.checksums import open_unchanging
from backends.builtin.storage.schema import APPLICATION_ID, SCHEMA_VERSION
from backends.builtin.vectors.serial import current_serial
from providers.fingerprint import Fingerprint

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
