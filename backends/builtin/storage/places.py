"""Where the index file lies, and that there is one: making it, deleting it, setting it aside.

Owns every change to directory entries. A file that is not ours is never one of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from backends.builtin.storage import schema, wrecks
from backends.builtin.storage.checksums import open_checked, reserve_checksums
from backends.builtin.storage.connections import set_journal
from backends.builtin.storage.identity import Verdict, choose_path
from config.disk.locking import lock_within
from config.disk.making import give_to_owner, make_directories

MAX_SET_ASIDE_BYTES: Final = 256_000_000
"""A damaged index is kept for whoever wants to know why; a larger one is not worth its space."""
_MAKING_PATIENCE_S: Final = 20.0
"""For another process, perhaps another agent's, that makes its index in the same directory: some writes that
a disk may hold up. Who replaces a damaged index waits as long."""
_MAIN: Final = ""
_SIDE_FILES: Final = ("-wal", "-shm", "-journal")


def ensure_index(wanted: Path, *, wreck: str | None = None) -> tuple[Path, tuple[str, ...]]:
    """Finds or makes the index at `wanted`, or at a sibling name when that place is taken.

    A new one remembers the damaged file of the name `wreck`, whose place it takes. Returns its path,
    and what a person should know about the choice. Must not be called while this process has the file
    open: closing any descriptor of a file drops all locks that the process holds on it (POSIX). Raises
    OSError and apsw.Error.
    """
    make_directories(wanted.parent)
    path, verdict, notes = choose_path(wanted)
    if verdict is Verdict.OURS:
        return path, notes  # most starts: nobody is waited for
    with alone_in(wanted.parent):
        path, verdict, notes = choose_path(wanted)
        if verdict is Verdict.OURS_OLDER:
            notes = (*notes, f"{path.name} had the format of an earlier release and was rebuilt.")
        if verdict is not Verdict.OURS:
            _create(path, wreck)
    return path, notes


def set_aside(path: Path, cause: str) -> tuple[str | None, str]:
    """Renames a damaged index, keeps only the newest such file, and says so in a sentence.

    Returns its name and the sentence. One of more than MAX_SET_ASIDE_BYTES is deleted instead.
    The side files go first: left behind, they would be taken for those of the next index.
    """
    prefix = f"{path.name}.damaged-"
    for old in [entry for entry in path.parent.iterdir() if entry.name.startswith(prefix)]:
        old.unlink(missing_ok=True)
    kept = path.with_name(f"{prefix}{int(time.time())}")
    delete_side_files(path)
    if path.stat().st_size > MAX_SET_ASIDE_BYTES:
        path.unlink()
        return (
            None,
            f"{path.name} was damaged ({cause}); it was deleted and is rebuilt from Markdown.",
        )
    path.rename(kept)
    return (
        kept.name,
        f"{path.name} was damaged ({cause}); it is kept as {kept.name} and rebuilt from Markdown.",
    )


def has_log(path: Path) -> bool:
    """Whether transactions may lie beside the file, without which it is not whole."""
    return size_on_disk(path) > path.stat().st_size


def size_on_disk(path: Path) -> int:
    """Bytes, with the write-ahead log."""
    total = 0
    for suffix in (_MAIN, *_SIDE_FILES):
        try:
            total += Path(f"{path}{suffix}").stat().st_size
        except FileNotFoundError:
            continue
    return total


def _create(path: Path, wreck: str | None) -> None:
    """Puts a complete file in place in one step: whoever looks meanwhile sees none, or an index."""
    draft = delete_draft(path)
    made = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        give_to_owner(made, draft.parent)
    finally:
        os.close(made)
    with closing(open_checked(draft)) as connection:
        reserve_checksums(connection)
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        schema.create(connection)
        if wreck is not None:
            wrecks.remember(connection, wreck)
        set_journal(connection, path.parent)  # who opens it later would be in others' way
    delete_side_files(path)
    draft.replace(path)


@contextmanager
def alone_in(directory: Path) -> Iterator[None]:
    """One process at a time chooses and makes an index; without locks, as on some mounts, all may."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        lock_within(descriptor, _MAKING_PATIENCE_S, lenient=True)
        yield
    finally:
        os.close(descriptor)


def delete_draft(path: Path) -> Path:
    """Deletes what a process left that was killed while it made the index; returns the draft's path."""
    draft = path.with_name(f".{path.name}.new")
    _delete(draft, *_SIDE_FILES, _MAIN)
    return draft


def delete_side_files(path: Path) -> None:
    _delete(path, *_SIDE_FILES)


def _delete(path: Path, *suffixes: str) -> None:
    for suffix in suffixes:
        Path(f"{path}{suffix}").unlink(missing_ok=True)
