"""All faults of the matrix, in the order of its rows."""

from __future__ import annotations

from typing import Final

from endurance.faults.base import Fault, Impossible
from endurance.faults.databases import (
    BackendKilled,
    DatabaseClock,
    FullServer,
    NoConnections,
    ReadOnlyServer,
    ServerKilled,
    ServerStopped,
    SlowStatements,
    TwoLeaders,
)
from endurance.faults.files import (
    DamagedIndex,
    FailingWrite,
    FullDisk,
    HungIndex,
    HungNotes,
    ReadOnly,
    SilentPipes,
    StaleSidecars,
    VanishedWorkspace,
)
from endurance.faults.limits import Clock, NoDescriptors, NoInotify, NoThreads
from endurance.faults.processes import (
    ColdStarts,
    HalfLines,
    Kill,
    MuteClient,
    ParentDies,
    SilentOwner,
    Stop,
    TwoOwners,
)
from endurance.faults.services import Provider, Qmd

__all__ = ["FAULTS", "Fault", "Impossible"]

FAULTS: Final[tuple[Fault, ...]] = (
    Kill(), Stop(), ParentDies(), TwoOwners(), ColdStarts(), FullDisk(), FailingWrite(), ReadOnly(),
    NoDescriptors(), NoInotify(), Clock(), DamagedIndex(), StaleSidecars(), Provider(), Qmd(),
    MuteClient(), VanishedWorkspace(), SilentOwner(), HalfLines(), HungNotes(), HungIndex(),
    NoThreads(), SilentPipes(), BackendKilled(), ServerKilled(), ServerStopped(), NoConnections(), ReadOnlyServer(),
    SlowStatements(), FullServer(), TwoLeaders(), DatabaseClock(),
)  # fmt: skip
