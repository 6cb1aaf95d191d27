"""Scans that ran before their search came to them: beside its look at the disk, which they do not need.

Owns the few results that wait. A snapshot never changes, so one that is still in use when the search
comes gives the same answer then.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from backends.builtin.vectors.snapshot import Snapshot
    from providers.interface import Vector

_MOST: Final = 4
"""Kept of searches that were given up, too; each takes four bytes a vector."""


class _Scan(NamedTuple):
    query: Vector
    """Held, so that its id is not given to another one."""
    snapshot: Snapshot
    scores: NDArray[np.float32]


class ScansAhead:
    """Any thread may call."""

    def __init__(self) -> None:
        self._scans: OrderedDict[int, _Scan] = OrderedDict()
        self._changing = threading.Lock()

    def put(self, query: Vector, snapshot: Snapshot) -> None:
        """Scans now, in this thread."""
        scan = _Scan(query, snapshot, snapshot.scores(query))
        with self._changing:
            self._scans[id(query)] = scan
            while len(self._scans) > _MOST:
                self._scans.popitem(last=False)

    def take(self, query: Vector, snapshot: Snapshot) -> NDArray[np.float32]:
        """The scores of this very query in this snapshot, computed now if they are not there."""
        with self._changing:
            scan = self._scans.pop(id(query), None)
        return scan.scores if scan and scan.snapshot is snapshot else snapshot.scores(query)

    def clear(self) -> None:
        with self._changing:
            self._scans.clear()
