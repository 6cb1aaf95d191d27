"""All faults of the matrix, in the order of its rows."""

from __future__ import annotations

from typing import Final

from torturing.faults.base import Fault, Impossible
from torturing.faults.clients import MuteClient
from torturing.faults.clocks import Clock
from torturing.faults.damage import DamagedIndex, StaleSidecars
from torturing.faults.disks import FailingWrite, FullDisk, ReadOnly
from torturing.faults.hosts import Provider
from torturing.faults.hung import HungIndex, HungNotes
from torturing.faults.limits import NoDescriptors, NoInotify
from torturing.faults.processes import ColdStarts, Kill, ParentDies, Stop, TwoOwners
from torturing.faults.qmd import Qmd

__all__ = ["FAULTS", "Fault", "Impossible"]

FAULTS: Final[tuple[Fault, ...]] = (
    Kill(), Stop(), ParentDies(), TwoOwners(), ColdStarts(), FullDisk(), FailingWrite(), ReadOnly(),
    NoDescriptors(), NoInotify(), Clock(), DamagedIndex(), StaleSidecars(), Provider(), Qmd(),
    MuteClient(), HungNotes(), HungIndex(),
)  # fmt: skip
