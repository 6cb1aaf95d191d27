"""Row ids as a table of a statement: `IN (SELECT value FROM carray(?))`."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import apsw


def int64s(values: Sequence[int]) -> object:
    """Row ids for `carray`, which cannot be empty: no row has the id 0."""
    return apsw.carray(memoryview(array("q", values or (0,))))
