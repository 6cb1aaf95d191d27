"""Comparing disk and index: one look at both, which reads no file.

Files of a place that is not mounted are not deleted (`brake`); what was equal at the last look is not compared again.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from backends.backend_errors import IndexUnavailableError
from backends.builtin.store.opening import look_into
from backends.builtin.store.port import ARRIVAL_MS, Store, Version, View, Writer, now_ms
from backends.builtin.syncing.brake import Brake
from backends.builtin.syncing.planning import Held, SyncPlan, plan_sync
from backends.builtin.syncing.sessions import SessionIndexer, SessionPlan
from backends.files.ignoring import IgnoreFiles
from backends.files.roots import MemoryRoots
from backends.files.scan import ScanResult, scan
from config.settings import Settings, Source

_REMEMBERING_PATIENCE_S: Final = 0.05
"""How long a survey may wait for another writer; a search must not wait for it."""


class Survey(msgspec.Struct, frozen=True, gc=False):
    """One look at disk and index together."""

    scan: ScanResult
    plan: SyncPlan
    sessions: SessionPlan
    notes: SyncPlan
    """The plan, without the transcripts that are held back."""


class Surveyor:
    """Compares the disk of one agent with one store, and has `sessions` do the same for transcripts."""

    def __init__(
        self,
        store: Store,
        roots: MemoryRoots,
        pipeline: str,
        sessions: SessionIndexer | None = None,
        transcripts: Mapping[str, Path] | None = None,
    ) -> None:
        """`pipeline`: what notes that are indexed now are stored with. `transcripts`: where each
        source of `sessions` has its conversations.
        """
        self._store = store
        self.roots = roots
        self._pipeline = pipeline
        self.sessions = sessions
        self._level = LevelMemory()
        self._ignoring = IgnoreFiles()
        self._brake = Brake(roots, transcripts)
        self._here_until_ms = 0
        """Until then the note that this viewpoint is in use need not be renewed."""

    @property
    def generation(self) -> int:
        """Changes when the index is replaced by an empty one."""
        return self._store.generation

    def survey(
        self,
        *,
        force: bool = False,
        verify: bool = False,
        eager: bool = False,
        last: Survey | None = None,
    ) -> Survey:
        """Lists the disk, compares, reads no file. `force` and `verify`: see `SyncRequest`.

        `eager`: the thresholds of transcripts do not apply. `last`: its plan is used again if the notes have not
        changed since.
        """
        found = self.scan()
        self._arrive(found)
        sessions = self.sessions.survey(eager=eager, force=force) if self.sessions else None
        if last is not None and last.scan == found:
            plan = last.notes
        else:
            with self._store.view() as view:
                plan = self.compare(view, found, force=force, verify=verify)
        notes = plan
        if (
            sessions is not None
            and self.sessions is not None
            and self.sessions.enabled
            and not force
        ):
            sessions, plan = self._hold_transcripts(sessions, plan)
        self._remember_places(plan, None if force else _REMEMBERING_PATIENCE_S)
        return Survey(found, plan, sessions or SessionPlan(), notes)

    def _hold_transcripts(
        self, sessions: SessionPlan, plan: SyncPlan
    ) -> tuple[SessionPlan, SyncPlan]:
        removed, held = self._brake.hold_transcripts(sessions)
        return (
            msgspec.structs.replace(sessions, to_remove=removed),
            msgspec.structs.replace(plan, held=(*plan.held, *held)),
        )

    def _remember_places(self, plan: SyncPlan, patience_s: float | None) -> None:
        rows = self._brake.unremembered(plan.held)
        if not rows:
            return
        with (
            suppress(IndexUnavailableError),  # it is tried again
            self._store.writer(patience_s) as writer,
        ):
            self._brake.remember(writer, rows)

    def _arrive(self, found: ScanResult) -> None:
        """Notes from time to time that this viewpoint is in use. A new one may know the disk under another name."""
        now = now_ms()
        if 0 < self._here_until_ms - now <= ARRIVAL_MS:  # more: the clock was ahead
            return
        with self._store.view() as view:
            viewpoints = view.viewpoints()
        said = [one.used_at_ms for one in viewpoints if one.is_here]
        self._here_until_ms = max(said, default=0) + ARRIVAL_MS
        if 0 < self._here_until_ms - now <= ARRIVAL_MS:
            return
        patience_s = _REMEMBERING_PATIENCE_S if said else None
        with (
            suppress(IndexUnavailableError),  # it is tried again
            self._store.writer(patience_s) as writer,
        ):
            if viewpoints and not said:
                self._adopt(writer, found)
            writer.arrive()
            self._here_until_ms = now + ARRIVAL_MS

    def _adopt(self, writer: Writer, found: ScanResult) -> None:
        """A renamed host, or another one with the same mount, reads nothing again and knows what was deleted."""
        files = writer.files
        for seen, paths in self._brake.by_place(found, files.indexed()):
            if twin := files.twin("memory", seen):
                files.adopt(twin, "memory", paths)
        if self.sessions and (twin := files.twin("sessions", self.sessions.listing().files)):
            files.adopt(twin, "sessions", tuple(writer.transcripts.indexed()))

    def missing(self, view: View) -> tuple[Held, ...]:
        """The places that the index knows and that are not mounted, without a look at their files."""
        return self._brake.missing(view)

    def out_of_reach(self, path: str) -> str | None:
        """Why a note that is not there may exist all the same: its place is away."""
        return self._brake.out_of_reach(self.roots.absolute(path.strip()))

    def gone(self, files: Collection[tuple[Source, str]]) -> frozenset[str]:
        """The paths of those that do not exist; one that cannot be looked at is not among them,
        nor one whose whole place is away, nor one that only other hosts saw.
        """
        gone = [one for one in files if self.is_gone(*one)]
        if not gone:
            return frozenset()
        with self._store.view() as view:
            return frozenset(path for _, path in view.files.seen(gone))

    def is_gone(self, source: Source, path: str) -> bool:
        if source == "sessions" and self.sessions:
            return self.sessions.is_gone(path)
        absolute = self.roots.absolute(path)
        return _is_absent(absolute) and not self._brake.out_of_reach(absolute)

    def stands(self, source: Source, path: str) -> bool:
        """Whether the file exists now, as far as that can be seen; a file whose place is not mounted does not."""
        if source == "sessions":
            return self.sessions is not None and not self.sessions.is_gone(path)
        return os.path.lexists(self.roots.absolute(path))

    def scan(self, *, counting: bool = False) -> ScanResult:
        return scan(self.roots, ignoring=self._ignoring, counting=counting)

    def compare(
        self,
        view: View,
        found: ScanResult,
        *,
        force: bool = False,
        verify: bool = False,
    ) -> SyncPlan:
        """The plan as of this transaction."""
        pipeline = self._pipeline
        every = force or verify
        if not every and self._level.holds(view, found, pipeline):
            self._brake.miss_nothing()
            return SyncPlan.level(len(found.files))
        indexed = view.files.indexed()
        plan = plan_sync(found, indexed, pipeline=pipeline, force=force, verify=verify)
        plan = self._brake.hold(view, found, indexed, plan, force=force)
        if not every and not (plan.to_read or plan.to_remove or plan.held):
            self._level.keep(view, found, pipeline)
        return plan


def _is_absent(absolute: str) -> bool:
    try:
        os.lstat(absolute)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        pass
    return False


def missing_notes(settings: Settings) -> tuple[Held, ...]:
    """What an index of ours holds of places that are not mounted, for callers that only read.

    Blocks. Raises IndexUnavailableError and what a scan raises.
    """
    roots = MemoryRoots.of(settings)
    found = scan(roots, ignoring=IgnoreFiles())
    with look_into(settings) as view:
        indexed = view.files.indexed()
        plan = plan_sync(found, indexed, pipeline="")
        return Brake(roots).hold(view, found, indexed, plan).held


class _Level(msgspec.Struct, frozen=True):
    """One state of the disk, and a state of the index that was equal to it."""

    found: ScanResult
    pipeline: str
    version: Version


class LevelMemory:
    """The last state of the disk that the index was equal to. For any thread."""

    def __init__(self) -> None:
        self._level: _Level | None = None

    def holds(self, view: View, found: ScanResult, pipeline: str) -> bool:
        """Whether a comparison in this view would have nothing to do."""
        return self._level == _Level(found, pipeline, view.files_version())

    def keep(self, view: View, found: ScanResult, pipeline: str) -> None:
        """A comparison in this view had nothing to do."""
        self._level = _Level(found, pipeline, view.files_version())
