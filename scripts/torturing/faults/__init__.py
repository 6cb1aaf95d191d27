"""All faults of the matrix, in the order of its rows."""

from __future__ import annotations

from typing import Final

from torturing.faults.base import Fault, Impossible
from torturing.faults.processes import ColdStarts, Kill, ParentDies, Stop, TwoOwners

__all__ = ["FAULTS", "Fault", "Impossible"]

FAULTS: Final[tuple[Fault, ...]] = (Kill(), Stop(), ParentDies(), TwoOwners(), ColdStarts())
