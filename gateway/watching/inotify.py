"""Watches on directories, one each, by watchdog's inotify thread.

Owns the watches and what an event means. Its layer of recursive observers is left out: that one says
nothing about directories it could not watch, and about events that were lost.
"""

from __future__ import annotations

import errno
import itertools
import logging
import os
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, cast

from gateway.watching.bursts import Bursts
from gateway.watching.directories import Directory, WatchingFailedError, WatchPlan

if TYPE_CHECKING:
    from watchdog.observers.inotify_c import (
        CallbackId,
        InotifyEvent,
        InotifyFD,
        Mask,
        WatchDescriptor,
    )

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
    """Blocks; one thread uses it at a time. Events end up in `bursts`."""

    def __init__(self, bursts: Bursts) -> None:
        """Raises WatchingFailedError."""
        self._bursts = bursts
        self._watches: dict[str, _Watch] = {}
        self._ids = itertools.count()
        self._inotify = _open_inotify()

    def __len__(self) -> int:
        return len(self._watches)

    def follow(self, plan: WatchPlan) -> bool:
        """Watches exactly what the plan says; True when something was added.

        Raises WatchingFailedError.
        """
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
        for place, own_name in self.directory.interests:
            if concerns_itself:
                self._bursts.note(place.reason, structural=True)
            elif own_name is not None:
                if name == own_name:
                    self._bursts.note(place.reason, structural=event.is_directory)
            elif event.is_directory or name.endswith(place.suffix):
                self._bursts.note(place.reason, structural=event.is_directory)

    def on_watch_deleted(self, wd: WatchDescriptor) -> None:  # noqa: ARG002 - watchdog's signature
        self.is_dead = True
        for place, _ in self.directory.interests:
            self._bursts.note(place.reason, structural=True)

    def on_queue_overflow(self) -> None:
        self._bursts.note_all()


def _open_inotify() -> InotifyFD:
    try:
        with ExitStack() as spare:
            for _ in range(SPARE_DESCRIPTORS):
                spare.callback(os.close, os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        raise WatchingFailedError("too many files are open (ulimit -n)") from error
    if sys.platform != "linux":
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
