"""Locks between processes, private directories, what the system denies, reading and replacing small files.

Everything here blocks.
"""

from __future__ import annotations

import errno
import fcntl
import glob
import hashlib
import math
import os
import pwd
import select
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from config.errors import ErrorKind, MemoryGatewayError


@contextmanager
def descriptor_of(
    path: str | Path, flags: int, mode: int = 0o600, *, dir_fd: int | None = None
) -> Iterator[int]:
    """Opens a file as `os.open` does, for as long as the body runs. Raises OSError."""
    descriptor = os.open(path, flags, mode, dir_fd=dir_fd)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def make_durable(path: Path) -> None:
    """Makes the content of a file, or the names in a directory, survive a power cut. Raises OSError."""
    with descriptor_of(path, os.O_RDONLY | os.O_CLOEXEC) as descriptor:
        os.fsync(descriptor)


def make_directories(directory: Path, *, mode: int = 0o700) -> None:
    """Makes a directory and its missing parents, each with `mode`. Raises OSError."""
    missing = [one for one in (directory, *directory.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=mode, exist_ok=True)
        if os.geteuid() == 0:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            with descriptor_of(one, flags) as made:
                give_to_owner(made, one.parent)
    directory.mkdir(mode=mode, exist_ok=True)  # FileExistsError where something else has the name


def remove_empty(directory: Path, *, below: Path) -> None:
    """Removes a directory and its parents as far as they are empty and below `below`; never the working directory."""
    with suppress(OSError):
        cwd = Path.cwd()
        while below in directory.parents and directory not in (cwd, *cwd.parents):
            directory.rmdir()
            directory = directory.parent


def give_to_owner(made: int, directory: Path) -> None:
    """Gives what root has just made to the owner of the directory it is in. Raises OSError.

    Otherwise a command run with `sudo` would lock the user's own gateway out.
    """
    if os.geteuid() != 0:
        return
    owner, status = directory.stat(), os.fstat(made)
    # That user may meanwhile have replaced it by a hard link to a file of root's.
    if stat.S_ISDIR(status.st_mode) or status.st_nlink == 1:
        os.fchown(made, owner.st_uid, owner.st_gid)


_OF_THE_SYSTEM: Final = 2
"""The parts of a path such as `/srv`: nobody is told to take it, or `/`, away from its owner."""


class Denial(msgspec.Struct, frozen=True):
    """A file or directory that this user may not use, with its owner and mode."""

    place: str
    owner: str
    mode: int
    is_own: bool
    """True if it belongs to this user."""
    is_on_the_way: bool
    """True if it is a directory on the way to the wanted path."""
    is_open: bool
    """True if it belongs to this user, and its mode permits what is wanted."""
    to_make: str | None
    """The directory that would have to be made in it, on the way to the wanted path."""

    def __str__(self) -> str:
        whose = "this user" if self.is_own else f"user {self.owner}"
        return f"{self.place} belongs to {whose} (mode {self.mode:04o})"

    @property
    def remedy(self) -> str:
        from shlex import quote  # noqa: PLC0415 - only when something is denied

        user = name_of_user(os.geteuid())
        if self.is_open:
            return (
                "owner and mode permit it, so take away what else forbids it, such as an immutable flag "
                f"(`lsattr -d {quote(self.place)}`) or a read-only mount"
            )
        if self.is_own:
            return f"chmod u+rwX {quote(self.place)}"
        if self.is_on_the_way:
            return f"have {self.owner} let {user} enter {self.place}"
        if self.to_make is not None:
            return f"have {self.owner} make {self.to_make} for {user}"
        if len(Path(self.place).parts) <= _OF_THE_SYSTEM:
            return f"have {self.owner} permit it"
        return f"have {self.owner} permit it, or run `sudo chown {user} {quote(self.place)}`"


def denial_of(path: Path, wanted: int = os.R_OK) -> Denial | None:
    """Returns what denies this user the path: the path itself, or the first directory on the way to it.

    A path that does not exist needs a parent that can be written to if it is `wanted` for writing. None: nothing
    denies it, or nothing is known.
    """
    places = (*reversed(path.parents), path)
    for one, following in zip(places, (*places[1:], None), strict=True):
        try:
            status = one.stat()
        except OSError:
            return None
        needed, makes = wanted, 0
        if following is not None:
            makes = wanted & os.W_OK and not os.path.lexists(following)
            needed = os.X_OK | (os.W_OK if makes and os.access(one, os.X_OK) else 0)
        elif stat.S_ISDIR(status.st_mode):
            needed |= os.X_OK
        if not os.access(one, needed, effective_ids=os.access in os.supports_effective_ids):
            mode, uid = stat.S_IMODE(status.st_mode), status.st_uid
            return Denial(
                str(one), name_of_user(uid), mode,
                is_own=uid == os.geteuid(), is_on_the_way=needed == os.X_OK,
                is_open=uid == os.geteuid() and mode >> 6 & needed == needed,
                to_make=str(following) if makes and following != path else None,
            )  # fmt: skip
    return None


class DeniedError(MemoryGatewayError):
    """The system denied this user access to a file or directory."""

    kind = ErrorKind.FILE_UNREADABLE


class WriteDeniedError(DeniedError):
    """A file or directory may be read but not written."""

    kind = ErrorKind.FILE_UNWRITABLE


def denied(error: BaseException) -> DeniedError | None:
    """Returns an error that names the denied path, its owner and the remedy; None for any other error."""
    if not isinstance(error, PermissionError) or not isinstance(error.filename, str | bytes):
        return None
    path = Path(os.fsdecode(error.filename)).absolute()
    unreadable = denial_of(path)
    denial = unreadable or denial_of(path, os.W_OK) or denial_of(path.parent, os.W_OK)
    if denial is None:
        return DeniedError(f"{path}: {error.strerror}.", remedy="Check its owner and mode.")
    kind, used = (DeniedError, "used") if unreadable else (WriteDeniedError, "written")
    return kind(
        f"{path} cannot be {used}: {denial}.", remedy=f"Give this user access: {denial.remedy}."
    )


def name_of_user(uid: int) -> str:
    """Returns the user's name, or the number of a user who has no name here."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


_FLAGS: Final = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
_POLL_S: Final = 0.02


def open_lock(path: Path) -> int:
    """Returns a descriptor of the lock file, which is created if need be. Raises OSError."""
    is_new = not path.exists()
    descriptor = os.open(path, _FLAGS, 0o600)
    if is_new:
        give_to_owner(descriptor, path.parent)
    return descriptor


def try_lock(descriptor: int, *, lenient: bool = False) -> bool:
    """Takes the lock if it is free, and returns whether we hold it; never waits. Raises OSError.

    Some network mounts have no locks: there it returns True to every `lenient` caller.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        if not lenient:
            raise
    return True


def lock_within(descriptor: int, timeout_s: float = math.inf, *, lenient: bool = False) -> None:
    """Waits for the lock. Blocks; raises TimeoutError after `timeout_s`, OSError as `try_lock`."""
    ends = time.monotonic() + timeout_s
    while not try_lock(descriptor, lenient=lenient):
        if time.monotonic() >= ends:
            raise TimeoutError(errno.ETIMEDOUT, "another process keeps it locked")
        time.sleep(_POLL_S)


def unlock(descriptor: int) -> None:
    """Releases the lock without closing the file."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def try_lock_file(path: Path, *, lenient: bool = False) -> int | None:
    """Returns a descriptor that holds the lock of the file at `path`; None while somebody else holds it.

    If the file was removed while it was being locked, a new one is created, because that is the one other
    processes will find. Never waits; raises OSError.
    """
    while True:
        descriptor = open_lock(path)
        try:
            if not try_lock(descriptor, lenient=lenient):
                os.close(descriptor)
                return None
            if stands_at(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def stands_at(path: Path, descriptor: int) -> bool:
    """Returns whether the open file is the one at the path. Raises OSError, except where nothing is there."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except (FileNotFoundError, NotADirectoryError):
        return False


PIPE_PATIENCE_S: Final = 3.0
"""The time that a pipe may take to deliver its content."""
_BLOCK_BYTES: Final = 256 * 1024
_READING_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class SilentFileError(TimeoutError):
    """A pipe or device that did not deliver its content in time."""


def read_file(path: Path, limit_bytes: int, *, patience_s: float = PIPE_PATIENCE_S) -> bytes:
    """Returns the whole file, or the first `limit_bytes` + 1 bytes of a larger one.

    Raises SilentFileError, and any other OSError as it comes.
    """
    data, size = bytearray(), limit_bytes + 1
    with descriptor_of(path, _READING_FLAGS) as descriptor:
        is_regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        ends = time.monotonic() + patience_s
        while len(data) < size:
            # Asked before each read: a pipe without a writer reads as if it were empty.
            if not is_regular and not _is_ready(descriptor, ends):
                raise SilentFileError(
                    errno.ETIMEDOUT,
                    f"it is not a regular file and did not end within {patience_s:g} s",
                    str(path),
                )
            try:
                block = os.read(descriptor, min(_BLOCK_BYTES, size - len(data)))
            except BlockingIOError:  # another process has read the data
                continue
            if not block:
                break
            data += block
    return bytes(data)


def read_if_there(path: Path, limit_bytes: int) -> bytes | None:
    """Returns what `read_file` does; None if there is no file."""
    try:
        return read_file(path, limit_bytes)
    except FileNotFoundError:
        return None


def _is_ready(descriptor: int, ends: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(0.0, ends - time.monotonic()) * 1000))


_DRAFT: Final = ".{name}.making-{writer}"


def sha256_of(path: Path) -> str:
    """Returns the hash of a file's content, in hexadecimal. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def replace_file(
    path: Path, data: bytes, *, mode: int = 0o600, check: Callable[[], None] = lambda: None
) -> tuple[str, ...]:
    """Replaces the file durably: after a power cut it has either its old or its new content.

    `mode` does not depend on the umask. `check` is called when the new content is on the disk, immediately before the
    file is replaced: if it raises, the file stays as it is. Returns the extended attributes that could not be kept.
    Raises OSError, and then leaves nothing new behind.
    """
    writer = f"{os.getpid()}-{threading.get_native_id()}"
    making = path.with_name(_DRAFT.format(name=path.name, writer=writer))
    try:
        with making.open("wb") as file:
            os.fchmod(file.fileno(), mode)
            give_to_owner(file.fileno(), path.parent)
            file.write(data)
            file.flush()
            lost = set_attributes(file.fileno(), attributes_of(path))
            os.fsync(file.fileno())
        check()
        making.replace(path)
    except BaseException:
        making.unlink(missing_ok=True)
        raise
    return lost


def attributes_of(path: Path) -> dict[str, bytes | None]:
    """Returns the extended attributes of a file, None for one that may not be read. Empty without them (macOS)."""
    if not hasattr(os, "listxattr"):
        return {}
    found: dict[str, bytes | None] = {}
    with suppress(OSError):  # no file yet, or a file system without attributes
        for name in os.listxattr(path, follow_symlinks=False):
            found[name] = _attribute(path, name)
    return found


def set_attributes(file: Path | int, attributes: Mapping[str, bytes | None]) -> tuple[str, ...]:
    """Sets extended attributes, and returns the names of those that could not be set."""
    lost = []
    for name, value in attributes.items():
        try:
            if value is None:
                lost.append(name)
            elif _attribute(file, name) != value:
                os.setxattr(file, name, value, follow_symlinks=isinstance(file, int))
        except OSError:
            lost.append(name)
    return tuple(lost)


def _attribute(file: Path | int, name: str) -> bytes | None:
    try:
        return os.getxattr(file, name, follow_symlinks=isinstance(file, int))
    except OSError:
        return None


COPY: Final = "{name}.before-memory-gateway{number}"
_COPIES: Final = 1000


def keep_copy(path: Path, data: bytes, *, mode: int) -> Path:
    """Writes a copy of a file's content beside it under an unused name, and returns its path.

    Raises OSError, and then leaves no copy behind.
    """
    for number in range(1, _COPIES):
        suffix = f".{number}" if number > 1 else ""
        copy = path.with_name(COPY.format(name=path.name, number=suffix))
        try:
            descriptor = os.open(copy, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
        except FileExistsError:
            continue
        try:
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, mode)
                give_to_owner(descriptor, path.parent)
                file.write(data)
                file.flush()
                os.fsync(descriptor)
        except BaseException:
            copy.unlink(missing_ok=True)
            raise
        return copy
    raise FileExistsError(errno.EEXIST, f"there are {_COPIES} copies beside it", str(path))


def is_copy(path: Path, data: bytes, *, mode: int) -> bool:
    """Returns whether the path is a regular file of that mode with exactly this content."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        is_alike = stat.S_ISREG(about.st_mode) and stat.S_IMODE(about.st_mode) == mode
        return is_alike and about.st_size == len(data) and file.read(len(data) + 1) == data


def copies_of(path: Path) -> list[Path]:
    """Returns the copies that `keep_copy` left beside a file, the latest first. Raises OSError."""
    pattern = COPY.format(name=glob.escape(path.name), number="*")
    return sorted(path.parent.glob(pattern), key=lambda one: (len(one.name), one.name))[::-1]


def remove_drafts(path: Path) -> None:
    """Removes the drafts of writers that were killed while they replaced this file.

    The caller must keep all other writers away. Raises OSError.
    """
    for draft in path.parent.glob(_DRAFT.format(name=glob.escape(path.name), writer="*")):
        draft.unlink(missing_ok=True)


def is_addressable(name: str) -> bool:
    """Returns whether a name can be passed as text: valid Unicode (no undecodable bytes) without NUL."""
    if "\0" in name:
        return False
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
