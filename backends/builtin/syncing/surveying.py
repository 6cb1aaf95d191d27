"""Comparing disk and index: one look at both, which reads no file, and which of the files that are gone from the disk
must stay in the index, for good or for now. What was equal at the last look is not compared again.

A deletion is distinguished from a disk that is not mounted: nobody deletes a memory by unmounting it. The index
remembers, for each viewpoint, the workspace for which it was made, the file systems of its places, and since when files
of a place are missing, so that the looks of several processes count together. Blocks; for any thread.
"""

from __future__ import annotations

import errno
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from backends.builtin.store.opening import look_into
from backends.builtin.store.port import (
    ARRIVAL_MS,
    IndexedFile,
    Store,
    Version,
    View,
    Writer,
    now_ms,
)
from backends.builtin.syncing.planning import ObsoleteFile, Retained, SyncPlan, plan_sync
from backends.builtin.syncing.sessions import (
    CLAUDE,
    DATABASE,
    FILES,
    SessionIndexer,
    SessionPlan,
    source_of,
)
from backends.files.ignoring import IgnoreFiles
from backends.files.roots import MemoryRoots
from backends.files.safe_open import is_absent
from backends.files.scan import MANY_FILES, SECOND_LOOK_S, FoundFile, ScanResult, is_mass, scan
from backends.interface import IndexUnavailableError
from backends.transcripts.source import TranscriptListing, id_of
from config.runtime.decoding import prepared
from config.runtime.files import denial_of
from config.settings import Settings, Source

_DEVICES: Final = "devices"
_MISSED: Final = "missed"
_WORKSPACE: Final = "workspace"
_ABSENT: Final = -1
_UNKNOWN: Final = -2

_TRANSCRIPTS: Final = {
    FILES: "the directory of transcripts",
    DATABASE: "the host's database",
    CLAUDE: "the directory of Claude Code's conversations",
}

T = TypeVar("T")

_REMEMBERING_PATIENCE_S: Final = 0.05
"""The time that a survey may wait for another writer; a search must not wait for it."""


class Place(msgspec.Struct, frozen=True, gc=False):
    """A directory, or a file, whose notes come and go together."""

    absolute: str
    name: str
    """The words for it in messages."""
    may_go: bool = False
    """True if nobody configured it: once it is missing for long enough, it counts as deleted."""
    inside: str | None = None
    """The place without which it cannot exist."""
    holds: str = "files"


class _FirstLook(msgspec.Struct, frozen=True, gc=False):
    """The time at which files of a place were first missing."""

    at: float
    """In the monotonic time of this process: changes of the wall clock do not count."""
    wall: float
    """Seconds since 1970, for other processes."""


def is_made_for(settings: Settings) -> bool:
    """Returns whether there is an index of the notes of this workspace. Blocks."""
    try:
        with look_into(settings) as view:
            made_for = view.remembered(_WORKSPACE, here=True)
            return made_for == MemoryRoots(settings.workspace).base
    except IndexUnavailableError:
        return False


class Brake:
    """Holds back removals from one index. Searches and a sync use it at the same time, so they iterate over copies."""

    def __init__(self, roots: MemoryRoots, transcripts: Mapping[str, Path] | None = None) -> None:
        """`transcripts`: the place of each source of conversations."""
        self._roots = roots
        base = roots.base
        workspace = Place(base, "the workspace" if roots.own else "the folder of notes")
        self._own = workspace
        places = {base: workspace}
        self._place_of_root: list[Place] = []
        for root in roots.all:
            if root.kind == "file":
                place = workspace
            elif root.kind == "directory":
                place = Place(root.absolute, "the directory", may_go=True, inside=base)
            else:
                place = Place(root.absolute, "the extra path", may_go=root.is_optional)
            self._place_of_root.append(places.setdefault(place.absolute, place))
        self._places = tuple(places.values())
        self._own_places = {
            one.absolute for one in self._places if base in {one.absolute, one.inside}
        }
        self._transcripts = {
            source: Place(
                str(place),
                _TRANSCRIPTS[source],
                may_go=True,
                holds="conversations" if source == DATABASE else "files",
            )
            for source, place in (transcripts or {}).items()
        }
        self._stored: dict[str, str] | None = None
        """The rows that the index remembers; None before the first look into it."""
        self._devices: dict[str, int] = {}
        self._moved_from: str | None = None
        """The workspace that the index was made for, if that is another one."""
        self._missed_since: dict[str, _FirstLook] = {}

    def hold(
        self,
        view: View,
        found: ScanResult,
        indexed: Mapping[str, IndexedFile],
        plan: SyncPlan,
        *,
        force: bool = False,
    ) -> SyncPlan:
        """Returns the plan without the removals that have to wait; `retained` has these, and what may not be read.

        With `force` no removal waits.
        """
        self._recall(view)
        denied = tuple(self._denied(indexed)) if found.failed_dirs else ()
        if force:
            self._give_in()
            return msgspec.structs.replace(plan, retained=denied)
        gone, removed = self._missed_by_place(plan.to_remove)
        retained = []
        for place, missed in gone.items():
            left = partial(self._left, place, found, indexed)
            files = _accountable(missed, left)
            verdict = self._judge(place, files, left) if files else None
            if verdict is None:
                removed += files
            else:
                retained.append(verdict)
        self._forget_except(*self._transcripts.values(), *gone)
        if not found.files:
            retained += self._seen_by_others_only(indexed)
        reported = {absolute for place in gone for absolute in (place.absolute, place.inside)}
        missing = (self._lost(place) for place in self._places if place.absolute not in reported)
        retained += [one for one in missing if one is not None]
        return msgspec.structs.replace(
            plan, to_remove=tuple(removed), retained=(*retained, *denied)
        )

    def _missed_by_place(
        self, files: Iterable[ObsoleteFile]
    ) -> tuple[dict[Place, list[ObsoleteFile]], list[ObsoleteFile]]:
        """Returns the files by place, and those of what is no longer a place of notes."""
        gone: dict[Place, list[ObsoleteFile]] = defaultdict(list)
        homeless = []
        for file in files:
            place = self._place_of(self._roots.absolute(file.path))
            if place is None:
                homeless.append(file)
            else:
                gone[place].append(file)
        return gone, homeless

    def by_place(
        self, found: ScanResult, indexed: Iterable[str]
    ) -> Iterator[tuple[Sequence[FoundFile], Sequence[str]]]:
        """Yields, for each place, the files on the disk and the paths of those in the index."""
        paths: dict[Place, list[str]] = defaultdict(list)
        for path in indexed:
            place = self._place_of(self._roots.absolute(path))
            if place is not None:
                paths[place].append(path)
        files: dict[Place, list[FoundFile]] = defaultdict(list)
        for file in found.files:
            files[self._place_of_root[file.root]].append(file)
        return ((files[place], paths[place]) for place in self._places)

    def _seen_by_others_only(self, indexed: Mapping[str, IndexedFile]) -> Iterator[Retained]:
        """Yields the notes of other hosts, if this one has none: a disk that was never mounted is no deletion."""
        others = sum(one.seen != "here" for one in indexed.values())
        if others:
            reason = (
                f"the workspace {self._own.absolute} has no notes: {others:,} of the index were seen by "
                "other hosts only"
            )
            yield Retained(self._own.absolute, others, reason)

    def miss_nothing(self) -> None:
        """Notes that no note is gone from the disk."""
        self._forget_except(*self._transcripts.values())

    def hold_transcripts(
        self, plan: SessionPlan
    ) -> tuple[tuple[ObsoleteFile, ...], tuple[Retained, ...]]:
        """Returns the removals that need not wait, and why the others do; each source is judged by itself."""
        removed = []
        doubtful = defaultdict(list)
        for one in plan.to_remove:
            if self._was_put_away(plan.listing, one.path):
                removed.append(one)
            else:
                doubtful[source_of(one.path)].append(one)
        left = Counter(
            source_of(one.path) for one in plan.listing.files if one.path not in plan.added
        )
        retained = []
        for source, place in self._transcripts.items():
            gone = doubtful[source]
            verdict = self._judge_transcripts(source, place, gone, left[source])
            if verdict is None:
                removed += gone
            else:
                retained.append(verdict)
        return tuple(removed), tuple(retained)

    def _was_put_away(self, listing: TranscriptListing, path: str) -> bool:
        """Returns whether a removal is certain: its source is switched off, or the host's database still lists it."""
        known = listing.database.ids if listing.database else frozenset()
        source = source_of(path)
        return source not in self._transcripts or (source != CLAUDE and id_of(path) in known)

    def _judge_transcripts(
        self, source: str, place: Place, gone: Sequence[ObsoleteFile], left: int
    ) -> Retained | None:
        if not gone:
            self._missed_since.pop(place.absolute, None)
            return None
        if source == DATABASE and not left and _device(place.absolute) != _ABSENT:
            reason = (
                f"{place.name} {place.absolute} has none of {len(gone):,} indexed conversations: "
                "another one is in its place, or they were deleted"
            )
            return self._second_look(place, gone, reason)
        return self._judge(place, gone, lambda: left)

    def unremembered(self, retained: Iterable[Retained]) -> dict[str, str]:
        """Returns the rows for `remember`: those that the index lacks or has with another value."""
        if self._stored is None:
            return {}
        waiting = {one.place for one in retained}
        waiting |= {one.inside for one in self._places if one.inside and one.absolute in waiting}
        devices = dict(self._devices)
        for place in self._places:
            device = _device(place.absolute)
            if device >= 0 and place.absolute not in waiting and place.inside not in waiting:
                devices[place.absolute] = device
        missed = {absolute: look.wall for absolute, look in self._missed_since.copy().items()}
        wanted = {_DEVICES: _encoded(devices), _MISSED: _encoded(missed)}
        if self._moved_from is None or self._own_places.isdisjoint(waiting):
            wanted[_WORKSPACE] = self._own.absolute
        return {key: value for key, value in wanted.items() if self._stored.get(key) != value}

    def remember(self, writer: Writer, rows: Mapping[str, str]) -> None:
        """Stores the rows in a transaction of the caller."""
        for key, value in rows.items():
            writer.remember(key, value, here=True)
        self._stored = {**(self._stored or {}), **rows}
        self._devices = _decoded(self._stored.get(_DEVICES), int)

    def out_of_reach(self, absolute: str) -> str | None:
        """Returns why nothing can be said about a file that was not found: its place is unavailable."""
        place = self._place_of(absolute)
        return self._away(place) if place and place.absolute != absolute else None

    def missing(self, view: View) -> tuple[Retained, ...]:
        """Returns the places that the index knows and that are unavailable, without a look at their files."""
        known = _decoded(view.remembered(_DEVICES, here=True), int)
        away = {
            reason: place  # a place that contains others is reported once
            for place in self._places
            if place.absolute in known and (reason := self._away(place, known))
        }
        missing = (_retained(place, (), reason) for reason, place in away.items())
        return (*missing, *self._denied({}))

    def _denied(self, indexed: Collection[str]) -> Iterator[Retained]:
        """Yields the places that this user may not read, each with the places in it."""
        closed = {
            place.absolute: denial
            for place in self._places
            if (denial := denial_of(Path(place.absolute)))
        }
        of_place = Counter(self._place_of(self._roots.absolute(path)) for path in indexed)
        for place in self._places:
            denial = closed.get(place.absolute)
            if denial is None or place.inside in closed:
                continue
            files = sum(
                of_place[one]
                for one in self._places
                if place.absolute in (one.absolute, one.inside)
            )
            reason = f"{place.name} {place.absolute} may not be read: {denial}"
            if files:
                reason += ": its files are answered as they were indexed"
            yield Retained(place.absolute, files, reason, denial.remedy)

    def _away(self, place: Place, devices: Mapping[str, int] | None = None) -> str | None:
        devices = self._devices if devices is None else devices
        if place.inside is not None and (reason := self._away(self._own, devices)):
            return reason
        device = _device(place.absolute)
        if device == _ABSENT and not place.may_go:
            return f"{place.name} {place.absolute} is missing"
        if place is self._own and device >= 0 and not Path(place.absolute).is_dir():
            return f"{place.name} {place.absolute} is not a directory"
        known = devices.get(place.absolute)
        if device >= 0 and known is not None and device != known:
            return f"{place.name} {place.absolute} is not the file system that was indexed"
        return None

    def _lost(self, place: Place) -> Retained | None:
        """Returns a place that is missing and of which the index has nothing, or nothing any more: it may be new."""
        if place.may_go or place.absolute not in self._devices:
            return None
        if _device(place.absolute) != _ABSENT:
            return None
        reason = f"{place.name} {place.absolute} is missing, and nothing of it is indexed"
        return _retained(place, (), reason)

    def _judge(
        self, place: Place, gone: Sequence[ObsoleteFile], left: Callable[[], int]
    ) -> Retained | None:
        away = self._away(place)
        is_file = any(self._roots.absolute(one.path) == place.absolute for one in gone)
        if is_file and Path(place.absolute).parent.is_dir():
            self._devices.pop(place.absolute, None)
            return None  # an extra path that was deleted
        if away and left() == 0:
            self._missed_since.pop(place.absolute, None)
            return _retained(place, gone, f"{away}: its files are answered as they were indexed")
        if away:
            return self._second_look(place, gone, away)
        if self._moved_from is not None and place.absolute in self._own_places:
            reason = (
                f"the index was made for the workspace {self._moved_from}, and {len(gone):,} of its files are not in "
                f"{self._own.absolute} (another --state-dir or --agent gives that an index of its own)"
            )
            return self._second_look(place, gone, reason)
        if _device(place.absolute) == _ABSENT:
            return self._second_look(place, gone, f"{place.name} {place.absolute} is missing")
        if len(gone) > MANY_FILES / 2:
            total = len(gone) + left()
            if is_mass(len(gone), total):
                reason = (
                    f"{len(gone):,} of {total:,} {place.holds} of {place.absolute} are gone at once"
                )
                return self._second_look(place, gone, reason)
        self._missed_since.pop(place.absolute, None)
        return None

    def _second_look(
        self, place: Place, gone: Sequence[ObsoleteFile], reason: str
    ) -> Retained | None:
        first = _FirstLook(time.monotonic(), time.time())
        since = self._missed_since.setdefault(place.absolute, first)
        if first.at - since.at >= SECOND_LOOK_S:
            return None
        wait = (
            f"{reason}: they count as deleted if a look {SECOND_LOOK_S:g} s later misses them, too, "
            "or by force (memory-gateway index --force, with the same --notes or --agent, if any)"
        )
        return _retained(place, gone, wait)

    def _left(self, place: Place, found: ScanResult, indexed: Mapping[str, IndexedFile]) -> int:
        """Returns the number of files of the place that are in the index and on the disk."""
        return sum(
            self._place_of_root[file.root] is place and file.path in indexed for file in found.files
        )

    def _place_of(self, absolute: str) -> Place | None:
        for root, place in zip(self._roots.all, self._place_of_root, strict=True):
            if root.permits(absolute):
                return place
        return None

    def _recall(self, view: View) -> None:
        keys = (_DEVICES, _MISSED, _WORKSPACE)
        texts = {key: view.remembered(key, here=True) for key in keys}
        is_first = self._stored is None
        self._stored = {key: text for key, text in texts.items() if text is not None}
        self._devices = _decoded(self._stored.get(_DEVICES), int) or self._devices
        made_for = self._stored.get(_WORKSPACE, self._own.absolute)
        self._moved_from = None if _is_same(made_for, self._own.absolute) else made_for
        if is_first:  # what this process forgot since then must not come back
            at, now = time.monotonic(), time.time()
            for absolute, wall in _decoded(self._stored.get(_MISSED), float).items():
                ago = max(0.0, now - wall)  # the clock may have been put back
                self._missed_since[absolute] = _FirstLook(at - ago, now - ago)

    def _give_in(self) -> None:
        """Accepts that files that are gone were deleted, because somebody said so."""
        self._moved_from = None
        self._missed_since = {}
        self._devices = {
            absolute: device
            for absolute, device in self._devices.copy().items()
            if _device(absolute) != _ABSENT
        }

    def _forget_except(self, *places: Place) -> None:
        missed = {place.absolute for place in places}
        for absolute in self._missed_since.keys() - missed:
            self._missed_since.pop(absolute, None)


def _accountable(gone: Sequence[ObsoleteFile], left: Callable[[], int]) -> list[ObsoleteFile]:
    """Leaves out files that no viewpoint saw, if this one has nothing of their place: it may not be mounted."""
    if any(one.is_orphan for one in gone) and left() == 0:
        return [one for one in gone if not one.is_orphan]
    return list(gone)


def _encoded(numbers: Mapping[str, float]) -> str:
    return msgspec.json.encode(numbers, order="sorted").decode()


def _decoded(text: str | None, kind: type[T]) -> dict[str, T]:
    try:
        return msgspec.json.decode(text or "{}", type=prepared(dict[str, kind]))  # type: ignore[valid-type]
    except msgspec.DecodeError:
        return {}


def _is_same(one: str, other: str) -> bool:
    """Returns whether both lead to one directory."""
    try:
        return one == other or Path(one).samefile(other)
    except OSError:
        return False


def _retained(place: Place, gone: Sequence[ObsoleteFile], reason: str) -> Retained:
    return Retained(place.absolute, len(gone), reason)


def _device(absolute: str) -> int:
    try:
        return Path(absolute).stat().st_dev
    except OSError as error:  # a link that leads to itself leads nowhere
        absent = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
        return _ABSENT if error.errno in absent else _UNKNOWN


class Survey(msgspec.Struct, frozen=True, gc=False):
    """One look at disk and index together."""

    scan: ScanResult
    plan: SyncPlan
    sessions: SessionPlan
    notes: SyncPlan
    """The plan without transcripts that are retained."""


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
        """`pipeline`: stored with each note that is indexed now. `transcripts`: the place of each
        source of `sessions`.
        """
        self._store = store
        self.roots = roots
        self._pipeline = pipeline
        self.sessions = sessions
        self._level: tuple[ScanResult, Version, SyncPlan] | None = None
        """The last state of the disk that the index was equal to, the version of its files then, and the plan."""
        self._ignoring = IgnoreFiles()
        self._brake = Brake(roots, transcripts)
        self._here_until_ms = 0
        """The time until which the note that this viewpoint is in use need not be renewed."""

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
        if sessions and self.sessions and self.sessions.enabled and not force:
            removed, retained = self._brake.hold_transcripts(sessions)
            sessions = msgspec.structs.replace(sessions, to_remove=removed)
            plan = msgspec.structs.replace(plan, retained=(*plan.retained, *retained))
        self._remember_places(plan, None if force else _REMEMBERING_PATIENCE_S)
        return Survey(found, plan, sessions or SessionPlan(), notes)

    def _remember_places(self, plan: SyncPlan, patience_s: float | None) -> None:
        rows = self._brake.unremembered(plan.retained)
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
                self._take_over(writer, found)
            writer.arrive()
            self._here_until_ms = now + ARRIVAL_MS

    def _take_over(self, writer: Writer, found: ScanResult) -> None:
        """Takes over the stamps of a viewpoint that saw the same files, such as this host under its former name.

        So it reads nothing again, and knows what was deleted.
        """
        files = writer.files
        for seen, paths in self._brake.by_place(found, files.indexed()):
            if twin := files.twin("memory", seen):
                files.copy_stamps(twin, "memory", paths)
        if self.sessions and (twin := files.twin("sessions", self.sessions.listing().files)):
            files.copy_stamps(twin, "sessions", tuple(writer.transcripts.indexed()))

    def missing(self, view: View) -> tuple[Retained, ...]:
        """Returns the places that the index knows and that are unavailable, without a look at their files."""
        return self._brake.missing(view)

    def out_of_reach(self, path: str) -> str | None:
        """Returns why a note that was not found may still exist: its place is unavailable."""
        return self._brake.out_of_reach(self.roots.absolute(path.strip()))

    def gone(self, files: Collection[tuple[Source, str]]) -> frozenset[str]:
        """Returns the paths of the files that do not exist. Those that cannot be looked at, whose whole place is
        unavailable, or that only other hosts saw are not among them.
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
        return is_absent(absolute) and not self._brake.out_of_reach(absolute)

    def exists(self, source: Source, path: str) -> bool:
        """Returns whether the file exists now, as far as can be seen; a file whose place is not mounted does not."""
        if source == "sessions":
            return self.sessions is not None and not self.sessions.is_gone(path)
        return os.path.lexists(self.roots.absolute(path))

    def scan(self, *, counting: bool = False) -> ScanResult:
        return scan(self.roots, ignoring=self._ignoring, counting=counting)

    def compare(
        self, view: View, found: ScanResult, *, force: bool = False, verify: bool = False
    ) -> SyncPlan:
        """Returns the plan as of this transaction."""
        version, every = view.files_version(), force or verify
        if not every and self._level is not None and self._level[:2] == (found, version):
            self._brake.miss_nothing()
            return self._level[2]
        indexed = view.files.indexed()
        plan = plan_sync(found, indexed, pipeline=self._pipeline, force=force, verify=verify)
        plan = self._brake.hold(view, found, indexed, plan, force=force)
        if not every and not (plan.to_read or plan.to_remove or plan.retained):
            self._level = found, version, plan
        return plan


def missing_notes(settings: Settings) -> tuple[Retained, ...]:
    """Returns what an index has of places that are not mounted, for callers that only read.

    Blocks. Raises IndexUnavailableError and what a scan raises.
    """
    roots = MemoryRoots.of(settings)
    found = scan(roots)
    with look_into(settings) as view:
        indexed = view.files.indexed()
        plan = plan_sync(found, indexed, pipeline="")
        return Brake(roots).hold(view, found, indexed, plan).retained
