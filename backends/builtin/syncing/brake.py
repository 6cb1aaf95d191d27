"""What is gone from the disk and must not go from the index, or not yet.

Owns the rule that tells a deletion from a disk that is away: nobody deletes a memory by unmounting it.
Which file systems the places of the memory lie on is remembered in the index, when somebody began to
miss files only in this process: after a restart the minute begins anew. Blocks; for any thread.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from backends.builtin.notes.planning import Held, ObsoleteFile, SyncPlan
from backends.builtin.store.port import View, Writer
from backends.files.roots import MemoryRoots
from backends.files.scan import ScanResult

SECOND_LOOK_S: Final = 60.0
"""So long files have to be missed before they count as deleted."""
MANY_FILES: Final = 10
"""Where a place had so many files, more than half of them gone at once is no ordinary deletion."""
_KEY: Final = "devices"
_ABSENT: Final = -1
_UNKNOWN: Final = -2


class Place(NamedTuple):
    """A directory, or a file, whose notes come and go together."""

    absolute: str
    name: str
    """What a person calls it."""
    may_go: bool = False
    """Nobody configured it: once it is missed for long enough, it was deleted."""
    inside: str | None = None
    """A place that it cannot exist without."""


class Brake:
    """For one index."""

    def __init__(
        self,
        roots: MemoryRoots,
        transcripts: Path | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._roots = roots
        self._clock = clock
        base = roots.base
        workspace = Place(base, "the workspace")
        self._own = workspace
        places = {base: workspace}
        self._place_of_root: list[Place] = []
        for root in roots.all:
            if root.kind == "file":
                place = workspace
            elif root.kind == "directory":
                place = Place(root.absolute, "the directory", may_go=True, inside=base)
            else:
                place = Place(root.absolute, "the extra path")
            self._place_of_root.append(places.setdefault(place.absolute, place))
        self._places = tuple(places.values())
        self._transcripts = (
            Place(str(transcripts), "the directory of transcripts", may_go=True)
            if transcripts is not None
            else None
        )
        self._devices: dict[str, int] | None = None
        self._missed_since: dict[str, float] = {}

    def hold(
        self,
        view: View,
        found: ScanResult,
        indexed: Collection[str],
        plan: SyncPlan,
    ) -> SyncPlan:
        """The plan without the removals that have to wait; `held` says which and why."""
        self._know_devices(view)
        if not plan.to_remove:
            self._forget_except(self._transcripts)
            return plan
        gone: dict[Place, list[ObsoleteFile]] = defaultdict(list)
        held, removed = [], []
        for file in plan.to_remove:
            place = self._place_of(self._roots.absolute(file.path))
            if place is None:  # it is no place of notes any more
                removed.append(file)
            else:
                gone[place].append(file)
        for place, files in gone.items():
            verdict = self._judge(place, files, partial(self._left, place, found, indexed))
            if verdict is None:
                removed += files
            else:
                held.append(verdict)
        self._forget_except(self._transcripts, *gone)
        return msgspec.structs.replace(plan, to_remove=tuple(removed), held=tuple(held))

    def hold_transcripts(self, gone: Sequence[ObsoleteFile], left: int) -> Held | None:
        """Why these transcripts must not go yet, if so; so many others are where they were."""
        if self._transcripts is None:
            return None
        if not gone:
            self._missed_since.pop(self._transcripts.absolute, None)
            return None
        return self._judge(self._transcripts, gone, lambda: left)

    def unremembered(self, held: Iterable[Held]) -> bytes | None:
        """What `remember` should be called with: the file systems, when they are others than before."""
        waiting = {one.place for one in held}
        known = self._devices or {}
        devices = dict(known)
        for place in self._places:
            device = _device(place.absolute)
            if device >= 0 and place.absolute not in waiting and place.inside not in waiting:
                devices[place.absolute] = device
        return msgspec.json.encode(devices) if devices != known else None

    def remember(self, writer: Writer, devices: bytes) -> None:
        """In a transaction of the caller."""
        writer.remember(_KEY, devices.decode())
        self._devices = msgspec.json.decode(devices, type=dict[str, int])

    def out_of_reach(self, absolute: str) -> str | None:
        """Why nothing can be said about a file that is not there: its place is away."""
        place = self._place_of(absolute)
        return self._away(place) if place and place.absolute != absolute else None

    def _away(self, place: Place) -> str | None:
        if place.inside is not None and (reason := self._away(self._own)):
            return reason
        device = _device(place.absolute)
        if device == _ABSENT and not place.may_go:
            return f"{place.name} {place.absolute} is missing"
        known = (self._devices or {}).get(place.absolute)
        if device >= 0 and known is not None and device != known:
            return f"{place.name} {place.absolute} is not the file system that was indexed"
        return None

    def _judge(
        self, place: Place, gone: Sequence[ObsoleteFile], left: Callable[[], int]
    ) -> Held | None:
        away = self._away(place)
        is_file = any(self._roots.absolute(one.path) == place.absolute for one in gone)
        if is_file and Path(place.absolute).parent.is_dir():
            return None  # an extra path that was deleted
        if away and left() == 0:
            self._missed_since.pop(place.absolute, None)
            return _held(place, gone, f"{away}: its files are answered as they were indexed")
        if away:
            return self._second_look(place, gone, away)
        if _device(place.absolute) == _ABSENT:
            return self._second_look(place, gone, f"{place.name} {place.absolute} is missing")
        if len(gone) > MANY_FILES / 2:
            total = len(gone) + left()
            if total >= MANY_FILES and len(gone) > total / 2:
                reason = f"{len(gone):,} of {total:,} files of {place.absolute} are gone at once"
                return self._second_look(place, gone, reason)
        self._missed_since.pop(place.absolute, None)
        return None

    def _second_look(self, place: Place, gone: Sequence[ObsoleteFile], reason: str) -> Held | None:
        since = self._missed_since.setdefault(place.absolute, self._clock())
        if self._clock() - since >= SECOND_LOOK_S:
            return None
        wait = f"{reason}: they count as deleted if so after {SECOND_LOOK_S:g} s"
        return _held(place, gone, wait)

    def _left(self, place: Place, found: ScanResult, indexed: Collection[str]) -> int:
        """Files of the place that are in the index and on the disk."""
        return sum(
            self._place_of_root[file.root] is place and file.path in indexed for file in found.files
        )

    def _place_of(self, absolute: str) -> Place | None:
        for root, place in zip(self._roots.all, self._place_of_root, strict=True):
            if root.permits(absolute):
                return place
        return None

    def _know_devices(self, view: View) -> None:
        if self._devices is None:
            text = view.remembered(_KEY)
            try:
                self._devices = msgspec.json.decode(text or "{}", type=dict[str, int])
            except msgspec.DecodeError:
                self._devices = {}

    def _forget_except(self, *places: Place | None) -> None:
        missed = {place.absolute for place in places if place}
        for absolute in self._missed_since.keys() - missed:
            self._missed_since.pop(absolute, None)


def _held(place: Place, gone: Sequence[ObsoleteFile], reason: str) -> Held:
    return Held(place.absolute, len(gone), reason)


def _device(absolute: str) -> int:
    try:
        return Path(absolute).stat().st_dev
    except (FileNotFoundError, NotADirectoryError):
        return _ABSENT
    except OSError:
        return _UNKNOWN
