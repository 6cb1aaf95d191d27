"""Noticing changes: what has to be watched, watching it by inotify, waiting until a burst is over, or polling.

The parts in their order: the plan of directories, bursts of changes, watchdog's inotify thread, and the task that ties
them together and polls where directories cannot be watched.
"""

from __future__ import annotations

import errno
import itertools
import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar, cast

import anyio
import msgspec
from anyio import from_thread
from anyio.lowlevel import EventLoopToken, current_token

from backends.files.ignoring import is_usually_out
from backends.files.roots import MARKDOWN_SUFFIX, MAX_DEPTH, MemoryRoots
from backends.files.scan import shared_type
from config.paths import host_database
from config.runtime import IS_LINUX
from config.runtime.logs import Log
from config.runtime.tasks import BoundedWork, Wakeup, lacks_threads
from config.settings import Settings
from gateway.scheduler import SyncScheduler
from gateway.watching import STARTING, WatchState

if TYPE_CHECKING:
    from watchdog.observers.inotify_c import (
        CallbackId,
        InotifyEvent,
        InotifyFD,
        Mask,
        WatchDescriptor,
    )


_log = Log()
T = TypeVar("T")

# --- What has to be watched ---

TRANSCRIPT_SUFFIX: Final = ".jsonl"
TRANSCRIPT_DEBOUNCE_S: Final = 5.0
WATCH: Final = "watch"
SESSION_DELTA: Final = "session-delta"


class WatchedPlace(msgspec.Struct, frozen=True):
    """A file or a directory tree, which need not exist, and what a change in it means."""

    path: Path
    """Absolute."""
    suffix: str
    """The end of the names of files that count; directories always count."""
    debounce_s: float
    reason: str
    """The reason of the sync that a change asks for."""
    selective: bool = False
    """True if directories below it that usually have no notes are not watched: `.git` alone may have
    hundreds. A sweep sees what changes in one that an ignore file brings back."""


def watched_places(settings: Settings) -> tuple[WatchedPlace, ...]:
    """Returns the places to watch; none when watching is switched off or no source is on disk."""
    search = settings.search
    if not search.sync.watch:
        return ()
    places: list[WatchedPlace] = []
    if "memory" in search.sources:
        debounce_s = search.sync.watch_debounce_ms / 1000
        roots = MemoryRoots.of(settings).all
        paths = [(Path(root.absolute), root.selective) for root in roots]
        if settings.backend == "qmd":
            paths += [(one.path, False) for one in settings.qmd.paths]
        places += [
            WatchedPlace(path, MARKDOWN_SUFFIX, debounce_s, WATCH, selective)
            for path, selective in paths
        ]
    if "sessions" in search.sources:
        database = host_database(settings.state_dir, settings.agent_id)
        places += [
            WatchedPlace(
                settings.sessions_dir, TRANSCRIPT_SUFFIX, TRANSCRIPT_DEBOUNCE_S, SESSION_DELTA
            ),
            WatchedPlace(
                database.parent, f"{database.name}-wal", TRANSCRIPT_DEBOUNCE_S, SESSION_DELTA
            ),
        ]
    return tuple(places)


MAX_DIRECTORIES: Final = 8192
"""All processes of a user share their inotify watches, 8,192 on older kernels."""


class Interest(msgspec.Struct, frozen=True, gc=False):
    """The events in one directory that matter to one place."""

    place: WatchedPlace
    name: str | None
    """The name of the place, or of a directory on the way to it, among others; None inside of the place."""


class Directory(msgspec.Struct, frozen=True, gc=False):
    identity: tuple[int, int]
    """Device and inode: another directory may take over the path."""
    interests: tuple[Interest, ...]


WatchPlan: TypeAlias = dict[str, Directory]
"""The directories by absolute path without links."""


class WatchingFailedError(Exception):
    """Changes cannot be watched, or not all of them. The message says why, for people."""


def plan_watches(places: Iterable[WatchedPlace]) -> WatchPlan:
    """Raises WatchingFailedError. What cannot be listed cannot be watched either, and is left out."""
    walk = _Walk()
    for place in places:
        ancestor, name = _nearest_ancestor(place.path)
        walk.add(ancestor, Interest(place, name))
        if ancestor == os.path.realpath(place.path.parent):
            for directory in _tree(f"{ancestor.rstrip('/')}/{name}", selective=place.selective):
                walk.add(directory, Interest(place, None))
    return walk.plan


class _Walk:
    """The findings of one look at the disk."""

    def __init__(self) -> None:
        self.plan: WatchPlan = {}
        self._devices: set[int] = set()

    def add(self, path: str, interest: Interest) -> None:
        try:
            status = os.lstat(path)
        except OSError:
            return
        if status.st_dev not in self._devices and (file_system := shared_type(path)):
            raise WatchingFailedError(
                f"{path} lies on {file_system}, where not every change is announced"
            )
        self._devices.add(status.st_dev)
        known = self.plan.get(path)
        before = known.interests if known else ()
        self.plan[path] = Directory((status.st_dev, status.st_ino), (*before, interest))
        if len(self.plan) > MAX_DIRECTORIES:
            raise WatchingFailedError(
                f"more than {MAX_DIRECTORIES} directories would have to be watched"
            )


def _nearest_ancestor(path: Path) -> tuple[str, str]:
    """Returns the nearest directory above that exists, without links, and the name below it to wait for."""
    name = path.name
    for parent in path.parents:
        if parent.is_dir():
            return os.path.realpath(parent), name
        name = parent.name
    return "/", name


def _tree(top: str, depth: int = 0, *, selective: bool = False) -> Iterator[str]:
    """Yields the directory and all below it; none when it is something else."""
    try:
        if not stat.S_ISDIR(os.lstat(top).st_mode):
            return
        yield top
        with os.scandir(top) as entries:
            below = [
                entry.path
                for entry in entries
                if entry.is_dir(follow_symlinks=False)
                and not (selective and is_usually_out(entry.name))
            ]
    except OSError:
        return
    if depth < MAX_DEPTH:
        for path in below:
            yield from _tree(path, depth + 1, selective=selective)


# --- Bursts of changes ---

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
        """Records that something changed."""
        self._first = now if self._first is None else self._first
        self._last = now

    @property
    def due(self) -> float | None:
        """The time at which the burst counts as over; None when there is none."""
        if self._first is None:
            return None
        return min(self._last + self._quiet_s, self._first + LONGEST_WAIT * self._quiet_s)

    def take(self, now: float) -> bool:
        """Returns whether a burst is over by now; it is forgotten then."""
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
        """Records that something changed. May be called from any thread."""
        with self._lock:
            debounce = self._debounces[reason]
            begins = debounce.due is None
            debounce.note(time.monotonic())
            self._structural |= structural
        if begins:
            self._wake()

    def note_all(self) -> None:
        """Records that anything may have changed."""
        for reason in self._debounces:
            self.note(reason, structural=True)

    def next_due_s(self) -> float | None:
        """Seconds until the first burst may be over; None when there is none."""
        with self._lock:
            dues = [one.due for one in self._debounces.values() if one.due is not None]
        return max(0.0, min(dues) - time.monotonic()) if dues else None

    def take(self) -> Ended:
        """Returns the bursts that are over by now, and forgets them."""
        with self._lock:
            now = time.monotonic()
            reasons = tuple(name for name, one in self._debounces.items() if one.take(now))
            structural = bool(reasons) and self._structural
            self._structural &= not reasons
        return Ended(reasons, structural)


# --- Watches of inotify ---

SPARE_DESCRIPTORS: Final = 16
"""The descriptors that must be free besides: an accelerator does not take the last ones."""
_PATIENCE_S: Final = 1.0
_VANISHED: Final = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}
_LIMITS: Final = {
    errno.ENOSPC: "no inotify watch is left (fs.inotify.max_user_watches)",
    errno.EMFILE: "no inotify instance is left (fs.inotify.max_user_instances)",
    errno.ENOMEM: "the kernel has no memory for inotify watches",
}
_NOT_WATCHED: Final = -1
"""The value that watchdog returns for a directory that may not be watched (EACCES)."""


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
        """Closes the watches, once nobody sets any more."""
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
        if wd == _NOT_WATCHED:
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
            is_kind = event.is_directory or name.endswith(place.suffix)
            counts = is_kind if own_name is None else name == own_name
            if concerns_itself or counts:
                # It counts even if it is no directory: a link may lead on from there.
                is_on_the_way = own_name not in (None, place.path.name)
                structural = concerns_itself or event.is_directory or is_on_the_way
                self._bursts.note(place.reason, structural=structural)

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


# --- The task ---

POLL: Final = "poll"
SHORTEST_POLL_S: Final = 2.0
LONGEST_POLL_S: Final = 60.0
POLL_SHARE: Final = 0.004
"""The share of one core that polling may cost: a look of 70 ms is followed by a pause of 17 s."""
RETRY_S: Final = 600.0
"""The interval at which watching is tried again where it failed, and all directories are listed anew."""
START_AFTER_S: Final = 1.0
"""The pause after the first sync: until then the process only answers."""
_DISK_PATIENCE_S: Final = 60.0
_CLOSING_S: Final = 1.0


def poll_pause_s(cost_s: float) -> float:
    """Returns the pause after a look at the disk that took `cost_s`."""
    return min(max(SHORTEST_POLL_S, cost_s / POLL_SHARE), LONGEST_POLL_S)


class Watcher:
    """Asks a scheduler for syncs when watched files change."""

    def __init__(
        self,
        places: Sequence[WatchedPlace],
        scheduler: SyncScheduler,
        *,
        start_after_s: float = START_AFTER_S,
    ) -> None:
        self._start_after_s = start_after_s
        self._places = places
        self._scheduler = scheduler
        self._setting = BoundedWork("watches on directories")
        self._closing = BoundedWork("end of watches")
        self._wakeup = Wakeup()
        self.state = STARTING

    async def run(self) -> None:
        """Works until cancelled. Begins some time after the first sync, so as not to delay the first answers."""
        await self._scheduler.attempted.wait()
        await anyio.sleep(self._start_after_s)
        while True:
            try:
                await self._watch()
            except WatchingFailedError as error:
                self._report(WatchState(mode="polling", reason=str(error)))
            except RuntimeError as error:
                if not lacks_threads(error):
                    raise
                reason = "no further thread may be started (`ulimit -u`, TasksMax=)"
                self._report(WatchState(mode="polling", reason=reason))
            until = time.monotonic() + RETRY_S
            while time.monotonic() < until:
                await self._poll()

    async def _watch(self) -> None:
        """Watches for as long as that works. Raises WatchingFailedError."""
        wake = partial(_wake, self._wakeup, current_token(), threading.get_ident())
        bursts = Bursts(self._places, wake)
        watches = await self._on_disk(
            partial(DirectoryWatches, bursts), discard=DirectoryWatches.close
        )
        try:
            await self._follow(watches)
            self._scheduler.request(WATCH)  # for changes before the watches were set
            while True:
                await self._act_on(bursts, watches)
        finally:
            with anyio.CancelScope(shield=True), suppress(TimeoutError):
                await self._closing.run(watches.close, _CLOSING_S, queue_s=_CLOSING_S)

    async def _act_on(self, bursts: Bursts, watches: DirectoryWatches) -> None:
        """Waits for a burst to end and asks for its sync; from time to time sets all watches anew."""
        due_s = bursts.next_due_s()
        with anyio.move_on_after(RETRY_S if due_s is None else due_s) as waiting:
            await self._wakeup.wait()
        ended = bursts.take()
        if ended.structural or (waiting.cancelled_caught and due_s is None):
            await self._follow(watches)
        for reason in ended.reasons:
            self._scheduler.request(reason)

    async def _follow(self, watches: DirectoryWatches) -> None:
        """Sets watches until a look at the disk finds no directory that has none."""
        plan = partial(plan_watches, self._places)
        while await self._on_disk(partial(watches.follow, await self._on_disk(plan))):
            pass
        self._report(WatchState(mode="watching", directories=len(watches)))

    async def _on_disk(
        self, work: Callable[[], T], *, discard: Callable[[T], object] | None = None
    ) -> T:
        try:
            return await self._setting.run(work, _DISK_PATIENCE_S, discard=discard)
        except TimeoutError:
            raise WatchingFailedError("the disk does not answer; a mount may hang") from None

    async def _poll(self) -> None:
        await anyio.sleep(poll_pause_s(self._scheduler.look_s))
        # After a failure the scheduler retries by itself, with ever longer pauses.
        if self._scheduler.last_error is None:
            self._scheduler.request(POLL)

    def _report(self, state: WatchState) -> None:
        before, self.state = self.state, state
        if (before.mode, before.reason) == (state.mode, state.reason):
            return
        if state.mode == "polling":
            _log.warning("polling for changes", reason=state.reason)
        else:
            _log.info("watching for changes", directories=state.directories)


def _wake(wakeup: Wakeup, token: EventLoopToken, loop_thread: int) -> None:
    """Wakes from watchdog's thread, which may outlive the event loop, or from the thread that closes the watches."""
    if threading.get_ident() == loop_thread:
        wakeup.fire()
        return
    with suppress(RuntimeError):
        from_thread.run_sync(wakeup.fire, token=token)
