"""Moves an index from its place in earlier releases to the present one.

A process that is killed meanwhile leaves one whole index, with all of its embeddings, and the next start continues
from there. A file that is not certainly an index of ours is never touched, and one that another process has open is
used where it is.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

import apsw

from backends.builtin.store.sqlite.connections import is_damage, open_checked
from backends.builtin.store.sqlite.index_file import (
    FileVerdict,
    alone_in,
    choose_path,
    delete_draft,
    delete_side_files,
    judge,
    mark_closed,
    set_aside,
)
from backends.builtin.store.sqlite.schema import APPLICATION_ID
from config.paths import lock_beside
from config.runtime.files import make_durable, try_lock_file
from config.runtime.logs import Log

_log = Log()

PATIENCE_S: Final = 5.0
"""The time to wait for commands, which have an index open for a second or two. A gateway that owns the index is not
waited for: a process that starts beside one becomes its guest."""
_POLL_S: Final = 0.02
_Settled = tuple[Path, tuple[str, ...]]


def lock_path(wanted: Path, former: Path | None = None) -> Path:
    """Returns the file that the owner of the index locks: the same in every release, wherever the index is.

    An older gateway that is started beside a newer one then becomes its guest, and the other way round,
    so neither moves or makes an index while the other runs. Reads links from the disk.
    """
    is_linked = former is not None and former.is_symlink() and not os.path.lexists(wanted)
    if former is not None and is_linked and is_movable(former):
        return lock_beside(former)
    return lock_beside(wanted)


def is_movable(former: Path | None) -> bool:
    """Returns whether this is an index of ours, made by this or an earlier release."""
    try:
        return former is not None and judge(former) in {FileVerdict.OURS, FileVerdict.OURS_OLDER}
    except OSError:  # a file that cannot be read may not be ours
        return False


def present_path(wanted: Path, former: Path | None) -> Path:
    """Returns the place of the index: the former one until it is moved. Raises OSError."""
    if former is None or not is_movable(former):
        return wanted
    return former if choose_path(wanted)[1] is FileVerdict.ABSENT else wanted


def settle(wanted: Path, former: Path | None, *, is_owner: bool) -> _Settled:
    """Moves an index of ours from `former` to `wanted`, if there is none yet. Returns its place, and notes for people.

    A process that does not own the index owns it for that moment. If the index cannot be moved now, its former place
    is returned. Blocks for at most about `PATIENCE_S`. Must not be called while this process has one of the two open.
    Raises OSError.
    """
    if former is None or present_path(wanted, former) != former:
        return wanted, ()
    try:
        with _owning(wanted, former, is_owner=is_owner), alone_in(former.parent):
            target, verdict, _ = choose_path(Path(os.path.realpath(wanted)))
            if verdict is FileVerdict.ABSENT and is_movable(former):
                return _move(former, target, wanted)
            return wanted, ()  # another process was faster
    except (apsw.Error, OSError) as error:
        if present_path(wanted, former) != former:
            return wanted, ()  # the owner, who has the lock, has just moved it
        _log.warning("index not moved", path=str(former), cause=str(error))
        return former, (_left(former, error, "is used where it is"),)


def supersede(index: Path, former: Path | None) -> tuple[str, ...]:
    """Deletes an index at the former place, which an earlier release made beside the one in use.

    Only the owner may call. An index that is open somewhere is left for the next start. Returns notes for `status`.
    """
    if former is None or not is_movable(former) or index.samefile(former):
        return ()
    try:
        with alone_with(former, patience_s=0.0):
            former.unlink()
    except (apsw.Error, OSError) as error:
        if is_damage(error):
            return (set_aside(former, str(error)),)
        _log.warning("former index left where it is", path=str(former), cause=str(error))
        return (_left(former, error, f"is left beside {index.name}"),)
    return (f"{former}, made by an earlier release beside {index.name}, was deleted.",)


def _move(former: Path, target: Path, wanted: Path) -> _Settled:
    started = time.monotonic()
    try:
        with alone_with(former, patience_s=PATIENCE_S):
            delete_side_files(target)  # of no file: SQLite would take them for those of this one
            delete_draft(former)
            former.rename(target)
            with suppress(OSError):  # some mounts cannot; a power cut then finds it at either place
                make_durable(target.parent)
    except apsw.Error as error:
        if not is_damage(error):
            raise
        return wanted, (set_aside(former, str(error)),)
    _log.info(
        "index moved",
        source=str(former),
        target=str(target),
        seconds=round(time.monotonic() - started, 3),
    )
    return wanted, (f"The index was moved here from {former}; nothing is embedded again.",)


def _left(former: Path, error: Exception, fate: str) -> str:
    return (
        f"{former} cannot be moved now ({error}) and {fate}; the next start tries again. "
        "OpenClaw 2026.9 may refuse to start until then."
    )


@contextmanager
def _owning(wanted: Path, former: Path, *, is_owner: bool) -> Iterator[None]:
    """Owns the index during the block. Raises BusyError when a gateway owns it, OSError when it cannot be locked."""
    if is_owner:
        yield
        return
    descriptor = try_lock_file(lock_path(wanted, former), lenient=True)
    if descriptor is None:
        raise apsw.BusyError("a gateway owns it")
    try:
        yield
    finally:
        os.close(descriptor)


@contextmanager
def alone_with(index: Path, *, patience_s: float) -> Iterator[None]:
    """Keeps all others from reading and writing the file, which is whole without any file beside it.

    Raises BusyError when others have it open for longer than `patience_s`, and every other apsw.Error.
    """
    ends = time.monotonic() + patience_s
    is_announced = False
    with closing(open_checked(Path(os.path.realpath(index)))) as connection:
        while not _seize(connection):
            if time.monotonic() >= ends:
                raise apsw.BusyError("another process has it open")
            if not is_announced:
                _log.info(
                    "waiting for whoever has the index open", path=str(index), limit_s=patience_s
                )
                is_announced = True
            time.sleep(_POLL_S)
        if connection.pragma("application_id") != APPLICATION_ID:
            raise FileNotFoundError("it is an index of ours no more")
        mark_closed(index)
        yield


def _seize(connection: apsw.Connection) -> bool:
    """Locks the file; returns False while another connection is open. Only the last one can end a write-ahead log.

    A process may begin a new log before the lock is held; the journal mode shows that. One that waits for the lock
    later finds a file without a name, to which SQLite refuses to write.
    """
    try:
        connection.execute("PRAGMA journal_mode = DELETE").fetchall()
        connection.execute("BEGIN EXCLUSIVE")
    except (apsw.BusyError, apsw.LockedError):
        return False
    if connection.pragma("journal_mode") == "delete":
        return True
    connection.execute("ROLLBACK")
    return False
