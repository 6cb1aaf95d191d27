"""Watches on directories by watchdog's inotify thread, and waiting until a burst of changes is over."""

from __future__ import annotations

import errno
import itertools
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, cast

import msgspec

from config.runtime.system import IS_LINUX
from gateway.watching.directories import Directory, WatchedPlace, WatchingFailedError, WatchPlan

if TYPE_CHECKING:
    from watchdog.observers.inotify_c import (
        CallbackId,
        InotifyEvent,
        InotifyFD,
        Mask,
        WatchDescriptor,
    )


LONGEST_WAIT: Final = 1.5
"""The longest wait, in debounce times: a save is found within 2.5 s of the default of 1.5 s even while
other files are being saved, and one that is saved all the time is indexed at most every 2.25 s."""


class Debounce:
    """One kind of change. Times are in seconds of one monotonic clock."""

    def __init__(self, quiet_s: float) -> None:
        self._quiet_s = quiet_s
        self._first: float | None = None
        self._last = 0.0

    def note(self, now: float) -> None:
        """Something changed."""
        self._first = now if self._first is None else self._first
        self._last = now

    @property
    def due(self) -> float | None:
        """When the burst counts as over; None when there is none."""
        if self._first is None:
            return None
        return min(self._last + self._quiet_s, self._first + LONGEST_WAIT * self._quiet_s)

    def take(self, now: float) -> bool:
        """Whether a burst is over by now; it is forgotten then."""
        if self.due is None or now < self.due:
            return False
        self._first = None
        return True


class Ended(msgspec.Struct, frozen=True, gc=False):
    """Bursts that are over."""

    reasons: tuple[str, ...]
    structural: bool
    """Directories came, went or moved, or may have: watches have to be set anew."""


class Bursts:
    """The changes nobody has acted on so far, by the reason of the sync they ask for."""

    def __init__(self, places: Iterable[WatchedPlace], wake: Callable[[], None]) -> None:
        """`wake` is called from any thread."""
        self._wake = wake
        self._lock = threading.Lock()
        self._debounces = {place.reason: Debounce(place.debounce_s) for place in places}
        self._structural = False

    def note(self, reason: str, *, structural: bool = False) -> None:
        """Something changed. May be called from any thread."""
        with self._lock:
            debounce = self._debounces[reason]
            begins = debounce.due is None
            debounce.note(time.monotonic())
            self._structural |= structural
        if begins:
            self._wake()

    def note_all(self) -> None:
        """Anything may have changed."""
        for reason in self._debounces:
            self.note(reason, structural=True)

    def next_due_s(self) -> float | None:
        """Seconds until the first burst may be over; None when there is none."""
        with self._lock:
            dues = [one.due for one in self._debounces.values() if one.due is not None]
        return max(0.0, min(dues) - time.monotonic()) if dues else None

    def take(self) -> Ended:
        """What is over by now; it is forgotten here."""
        with self._lock:
            now = time.monotonic()
            reasons = tuple(name for name, one in self._debounces.items() if one.take(now))
            structural = bool(reasons) and self._structural
            self._structural &= not reasons
        return Ended(reasons, structural)


SPARE_DESCRIPTORS: Final = 16
"""What must be free besides: an accelerator does not take the last ones."""
_PATIENCE_S: Final = 1.0
_VANISHED: Final = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}
_LIMITS: Final = {
    errno.ENOSPC: "no inotify watch is left (fs.inotify.max_user_watches)",
    errno.EMFILE: "no inotify instance is left (fs.inotify.max_user_instances)",
    errno.ENOMEM: "the kernel has no memory for inotify watches",
}
_IGNORED_NOWHERE: Final = -1
"""What watchdog returns for a directory that may not be watched (EACCES)."""


class DirectoryWatches:
    """Blocks; any thread may close it. Events end up in `bursts`."""

    def __init__(self, bursts: Bursts) -> None:
        """Raises WatchingFailedError."""
        self._bursts = bursts
        self._watches: dict[str, _Watch] = {}
        self._ids = itertools.count()
        self._using = threading.Lock()
        self._inotify = _open_inotify()

    def __len__(self) -> int:
        return len(self._watches)

    def follow(self, plan: WatchPlan) -> bool:
        """Watches exactly what the plan says; True when something was added.

        Raises WatchingFailedError.
        """
        with self._using:
            return self._follow(plan)

    def _follow(self, plan: WatchPlan) -> bool:
        for path, watch in list(self._watches.items()):
            if plan.get(path) != watch.directory or watch.is_dead:
                del self._watches[path]
                if not watch.is_dead:
                    self._inotify.remove_callbacks([watch.key])
        added = [path for path in plan if path not in self._watches]
        for path in added:
            self._add(path, plan[path])
        return bool(added)

    def close(self) -> None:
        """Once nobody sets watches any more."""
        with self._using:
            self._inotify.stop()
            self._inotify.join(_PATIENCE_S)

    def _add(self, path: str, directory: Directory) -> None:
        watch = _Watch(directory, self._bursts)
        number = cast("CallbackId", next(self._ids))
        try:
            wd = self._inotify.add_callback(os.fsencode(path), _mask(), watch, number)
        except OSError as error:
            if error.errno in _VANISHED:
                return
            raise _failure(error) from error
        watch.key = (wd, number)
        if wd == _IGNORED_NOWHERE:
            self._inotify.remove_callbacks([watch.key])
        else:
            self._watches[path] = watch


class _Watch:
    """One directory; watchdog's thread calls it with everything that happens there."""

    key: tuple[WatchDescriptor, CallbackId]

    def __init__(self, directory: Directory, bursts: Bursts) -> None:
        self.directory = directory
        self.is_dead = False
        self._bursts = bursts

    def on_event(self, event: InotifyEvent) -> None:
        concerns_itself = event.is_delete_self or event.is_move_self
        name = os.fsdecode(event.name)
        for interest in self.directory.interests:
            place, own_name = interest.place, interest.name
            if concerns_itself:
                self._bursts.note(place.reason, structural=True)
            elif own_name is not None:
                if name == own_name:
                    self._bursts.note(place.reason, structural=event.is_directory)
            elif event.is_directory or name.endswith(place.suffix):
                self._bursts.note(place.reason, structural=event.is_directory)

    def on_watch_deleted(self, wd: WatchDescriptor) -> None:  # noqa: ARG002 - watchdog's signature
        self.is_dead = True
        for interest in self.directory.interests:
            self._bursts.note(interest.place.reason, structural=True)

    def on_queue_overflow(self) -> None:
        self._bursts.note_all()


def _open_inotify() -> InotifyFD:
    try:
        with ExitStack() as spare:
            for _ in range(SPARE_DESCRIPTORS):
                spare.callback(os.close, os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        raise WatchingFailedError("too many files are open (ulimit -n)") from error
    if not IS_LINUX:
        raise WatchingFailedError("this system has no inotify")
    from watchdog.observers.inotify_c import InotifyFD  # noqa: PLC0415 - costs 50 ms

    logging.getLogger("watchdog").addHandler(logging.NullHandler())  # losses are handled here
    try:
        inotify = InotifyFD()
    except OSError as error:
        raise _failure(error) from error
    inotify.start()
    return inotify


def _failure(error: OSError) -> WatchingFailedError:
    limit = _LIMITS.get(error.errno or 0)
    return WatchingFailedError(limit or f"inotify failed: {error.strerror or error}")


def _mask() -> Mask:
    from watchdog.observers.inotify_c import InotifyConstants as Inotify  # noqa: PLC0415 - 50 ms
    from watchdog.observers.inotify_c import Mask  # noqa: PLC0415 - 50 ms

    return Mask(
        Inotify.IN_CREATE | Inotify.IN_DELETE | Inotify.IN_MOVE | Inotify.IN_MODIFY
        | Inotify.IN_CLOSE_WRITE | Inotify.IN_ATTRIB | Inotify.IN_DELETE_SELF
        | Inotify.IN_MOVE_SELF | Inotify.IN_ONLYDIR | Inotify.IN_DONT_FOLLOW
        | Inotify.IN_EXCL_UNLINK
    )  # fmt: skip
