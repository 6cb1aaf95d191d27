"""The resident vectors, in segments that never change once they are made.

Owns their layout. A search can go on with the segments it has while newer ones are put together, no
large array is ever copied as a whole, and what is dropped is given back segment by segment.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from backends.builtin.vectors.kernels import Coded

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SEGMENT_ROWS: Final = 16_384
"""25 MB at 1,536 dimensions: what the merging of small segments copies at most."""
_LEAST_LIVE: Final = 0.75
"""A segment with a smaller share of rows in use is copied without the others."""


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Some vectors with the row ids of their embeddings."""

    embeddings: NDArray[np.int64]
    coded: Coded

    def __len__(self) -> int:
        return len(self.embeddings)

    @property
    def nbytes(self) -> int:
        return self.embeddings.nbytes + self.coded.nbytes

    def only(self, mask: NDArray[np.bool_]) -> Segment:
        return Segment(
            self.embeddings[mask], Coded(self.coded.matrix[mask], self.coded.scales[mask])
        )


def united(parts: Sequence[Segment]) -> Segment:
    """One segment with the rows of all parts, of which there is at least one."""
    import numpy as np  # noqa: PLC0415 - only the resident engine needs it

    if len(parts) == 1:
        return parts[0]
    return Segment(
        np.concatenate([part.embeddings for part in parts]),
        Coded(
            np.concatenate([part.coded.matrix for part in parts]),
            np.concatenate([part.coded.scales for part in parts]),
        ),
    )


def arranged(segments: Iterable[Segment], used: NDArray[np.int64]) -> tuple[Segment, ...]:
    """The same vectors in few segments, without most of those that are not in `used` (sorted)."""
    groups: list[list[Segment]] = []
    for segment in segments:
        kept = _live(segment, used)
        if groups and sum(map(len, groups[-1])) + len(kept) <= SEGMENT_ROWS:
            groups[-1].append(kept)
        else:
            groups.append([kept])
    return tuple(segment for group in groups if len(segment := united(group)))


def _live(segment: Segment, used: NDArray[np.int64]) -> Segment:
    live = contained(segment.embeddings, used)
    return segment if live.sum() >= _LEAST_LIVE * len(segment) else segment.only(live)


def contained(values: NDArray[np.int64], ascending: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of the values are among the others, which are sorted."""
    import numpy as np  # noqa: PLC0415 - only the resident engine needs it

    if not len(ascending):
        return np.zeros(len(values), np.bool_)
    places = np.searchsorted(ascending, values).clip(max=len(ascending) - 1)
    found: NDArray[np.bool_] = ascending[places] == values
    return found


def find_rows(
    segments: Sequence[Segment], embeddings: NDArray[np.int64]
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """The place of each embedding, counted through all segments, and whether it has one."""
    import numpy as np  # noqa: PLC0415 - only the resident engine needs it

    if not segments:
        return np.zeros(len(embeddings), np.intp), np.zeros(len(embeddings), np.bool_)
    held = np.concatenate([segment.embeddings for segment in segments])
    order = np.argsort(held)
    places = np.searchsorted(held, embeddings, sorter=order).clip(max=len(held) - 1)
    rows = order[places]
    return rows, held[rows] == embeddings
