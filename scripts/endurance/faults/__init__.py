"""All faults of the matrix, in the order of its rows."""

from __future__ import annotations

from typing import Final

from endurance.faults.base import Fault, Impossible
from endurance.faults.databases import (
    BackendKilled,
    DatabaseClock,
    FullLog,
    FullServer,
    LongPaths,
    NoConnections,
    OddSettings,
    ReadOnlyServer,
    RestoredDatabase,
    ServerKilled,
    ServerStopped,
    SlowStatements,
    TwoLeaders,
)
from endurance.faults.files import (
    DamagedIndex,
    FailingWrite,
    FullDisk,
    HostilePatterns,
    HungIndex,
    HungNotes,
    ReadOnly,
    SilentPipes,
    StaleSidecars,
    VanishedWorkspace,
)
from endurance.faults.limits import Clock, NoDescriptors, NoInotify, NoThreads
from endurance.faults.notes import DeletedText, SavingEditor
from endurance.faults.processes import (
    ColdStarts,
    DeafLog,
    HalfLines,
    Kill,
    MuteClient,
    ParentDies,
    SilentOwner,
    Stop,
    TwoOwners,
)
from endurance.faults.services import Bombs, PluginInstalled, Provider, Qmd
from endurance.faults.users import Denied, Impostor

__all__ = ["FAULTS", "Fault", "Impossible"]

FAULTS: Final[tuple[Fault, ...]] = (
    Kill(), Stop(), ParentDies(), TwoOwners(), ColdStarts(), FullDisk(), FailingWrite(), ReadOnly(),
    NoDescriptors(), NoInotify(), Clock(), DamagedIndex(), StaleSidecars(), Provider(), Qmd(),
    MuteClient(), VanishedWorkspace(), SilentOwner(), HalfLines(), HungNotes(), HungIndex(),
    NoThreads(), SilentPipes(), Impostor(), Denied(), DeafLog(), Bombs(), HostilePatterns(), BackendKilled(),
    ServerKilled(), ServerStopped(), NoConnections(), ReadOnlyServer(), SlowStatements(), FullServer(),
    TwoLeaders(), DatabaseClock(), SavingEditor(), DeletedText(), RestoredDatabase(), OddSettings(),
    LongPaths(), FullLog(), PluginInstalled(),
)  # fmt: skip
