"""One state of the resident vectors, and the search for candidates in it.

Owns the scan. A snapshot never changes, so any number of threads may search it while its successor is
made. What it finds are candidates: their order is nearly right, and rows may be gone meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import apsw

from backends.builtin.vectors.kernels import Kernel
from backends.builtin.vectors.members import FileMarks, Members
from backends.builtin.vectors.segments import Segment
from backends.builtin.vectors.serial import current_serial

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from providers.interface import Vector

_GROUPS_A_HIT: Final = 16


class Space(NamedTuple):
    """What a snapshot belongs to: vectors of another space have nothing to do with its own."""

    fingerprint_id: int
    digest: bytes
    dimensions: int
    epoch: str
    """Of the index file."""


def space_of(connection: apsw.Connection, fingerprint_id: int) -> Space | None:
    row = connection.execute(
        "SELECT digest, dimensions FROM fingerprints WHERE id = ?", (fingerprint_id,)
    ).fetchone()
    if row is None:
        return None
    digest, dimensions = row
    return Space(fingerprint_id, digest, dimensions, current_serial(connection).epoch)


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    space: Space
    kernel: Kernel
    marks: FileMarks
    """Of the files as they were read."""
    newest_embedding: int
    """The highest id that was ever given by then."""
    newest_excerpt: int
    """Likewise."""
    members: Members
    rows: NDArray[np.intp]
    """For each member the place of its vector, counted through all segments."""
    segments: tuple[Segment, ...]

    @classmethod
    def empty(cls, space: Space, kernel: Kernel) -> Snapshot:
        import numpy as np  # noqa: PLC0415 - only the resident engine needs it

        nothing = np.empty(0, np.int64)
        members = Members(nothing, nothing, nothing)
        return cls(space, kernel, {}, 0, 0, members, np.empty(0, np.intp), ())

    @property
    def nbytes(self) -> int:
        held = sum(segment.nbytes for segment in self.segments)
        return held + self.members.nbytes + self.rows.nbytes

    @property
    def vectors(self) -> int:
        return sum(len(segment) for segment in self.segments)

    def candidates(
        self, scores: NDArray[np.float32], count: int, file_ids: Sequence[int] | None = None
    ) -> list[int]:
        """The ids of about the `count` nearest excerpts of the permitted files, in no order."""
        import numpy as np  # noqa: PLC0415 - only the resident engine needs it

        scores, excerpts = scores[self.rows], self.members.excerpts
        if file_ids is not None:
            permitted = np.flatnonzero(_among(self.members.files, file_ids))
            scores, excerpts = scores[permitted], excerpts[permitted]
        chosen: list[int] = excerpts[_best(scores, count)].tolist()
        return chosen

    def scores(self, query: Vector) -> NDArray[np.float32]:
        """Of every vector, what `candidates` compares; the long part of a search."""
        import numpy as np  # noqa: PLC0415 - only the resident engine needs it

        scores = np.empty(self.vectors, np.float32)
        code = self.kernel.encode(query[None])
        start = 0
        for segment in self.segments:
            end = start + len(segment)
            self.kernel.score(segment.coded, code, scores[start:end])
            start = end
        return scores


def _among(files: NDArray[np.int64], file_ids: Sequence[int]) -> NDArray[np.bool_]:
    """Which of `files` are permitted. A table, since row ids of files are small numbers."""
    import numpy as np  # noqa: PLC0415 - only the resident engine needs it

    permitted = np.zeros(files.max(initial=0) + 1, np.bool_)
    known = np.array(file_ids, np.int64)
    permitted[known[known < len(permitted)]] = True
    among: NDArray[np.bool_] = permitted[files]
    return among


def _best(scores: NDArray[np.float32], count: int) -> NDArray[np.intp]:
    """The positions of the `count` highest scores, ascending but for ties; of equal ones the first."""
    import numpy as np  # noqa: PLC0415 - only the resident engine needs it

    likely = _likely(scores, count)
    if count >= len(likely):
        return likely
    scores = scores[likely]
    least = np.partition(scores, -count)[-count]
    above = np.flatnonzero(scores > least)
    level = np.flatnonzero(scores == least)[: count - len(above)]
    return likely[np.concatenate((above, level))]


def _likely(scores: NDArray[np.float32], count: int) -> NDArray[np.intp]:
    """The positions of the `count` highest scores and few others.

    Of many groups of neighbours, `count` reach the count-th highest of the groups' maxima, so nothing
    below that can be among the best. One look at each score, where a partition takes several.
    """
    import numpy as np  # noqa: PLC0415 - only the resident engine needs it

    width = len(scores) // (_GROUPS_A_HIT * count)
    if width <= 1:
        return np.arange(len(scores))
    peaks = scores[: len(scores) // width * width].reshape(-1, width).max(axis=1)
    return np.flatnonzero(scores >= np.partition(peaks, -count)[-count])
