"""What any vendor's answer has to become: as many items as texts, each a unit vector or an error."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from providers.interface import ItemError, Vector


def check_items(items: Sequence[Vector | ItemError], expected: int) -> None:
    assert len(items) == expected
    sizes = set()
    for item in items:
        if isinstance(item, ItemError):
            assert item.message
        else:
            assert item.dtype == np.float32
            assert math.isclose(float(np.linalg.norm(item.astype(np.float64))), 1, abs_tol=1e-5)
            sizes.add(item.size)
    assert len(sizes) <= 1
