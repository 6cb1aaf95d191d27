"""Finding every Markdown file of an agent's memory, and what prevents it; file systems that others share."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Final

import msgspec

from backends.files.ignoring import IgnoreFiles, Rules
from backends.files.roots import (
    MARKDOWN_SUFFIX,
    MAX_DEPTH,
    MemoryRoots,
    Root,
    is_below,
)
from backends.files.safe_open import (
    BEHIND_LINK,
    IS_LINK,
    NOT_REGULAR,
    fault_of,
    listing,
    may_pass,
    walked,
)
from backends.interface import SkippedFile
from config.runtime import PROC
from config.runtime.files import denial_of, is_addressable
from config.settings import Source

MAX_FILES = 100_000
"""The most files of one agent, taken in scan order. Every search looks at the stamps of all of them, about
7 microseconds each."""
MAX_PATH_BYTES = 2_048
"""The longest index path: PostgreSQL allows keys of 2,704 bytes, and both stores have the same files."""
MAX_SKIPPED_PER_ROOT = 50
"""The most skipped entries that are named; the rest is only counted."""

SECOND_LOOK_S: Final = 60.0
"""The time for which files must be missing before they count as deleted, if that is in doubt."""
MANY_FILES: Final = 10
"""From this number of files on, more than half of them gone at once is not an ordinary deletion."""

_STAMP_RANGE: Final = 1 << 64

NOT_MARKDOWN = "not Markdown (.md), or not what its pattern names"
UNDECODABLE = "its name is not valid UTF-8"
SAME_FILE: Final = "the same file as another one"

_OTHER_SUFFIXES = (".md", ".markdown")
_SHOWN_NAMES = 3
_SHOWN_RULES: Final = 10
"""The most refused rules of ignore files that are shown."""
_OF_THE_HOST = frozenset(
    f"{name}.md"
    for name in ("AGENTS", "BOOT", "BOOTSTRAP", "HEARTBEAT", "IDENTITY", "SOUL", "TOOLS")
)
"""The files that the chat gateway keeps at the root of each workspace: instructions, not memory."""
_by_name = attrgetter("name")


class FoundFile(msgspec.Struct, frozen=True, gc=False):
    """One file as it was when it was listed. Unchanged stamps mean an unchanged file."""

    path: str
    """Index path: relative to the workspace, `/` between names, perhaps beginning with `../`."""
    root: int
    """The index in `MemoryRoots.all` of the root that it was found in; needed to open it."""
    size: int
    """Bytes."""
    mtime_ns: int
    ctime_ns: int
    inode: int
    """This and the times are values of `stamp`."""
    source: Source = "memory"


class FailedDirectory(msgspec.Struct, frozen=True):
    """A directory that could not be listed. Nothing is known about files at or below this index path."""

    path: str
    reason: str
    may_pass: bool = False
    """True if the next scan may succeed without intervention."""


class LeftOut(msgspec.Struct, frozen=True, rename="camel"):
    """The number of files that one rule keeps out of the memory."""

    rule: str
    """`hidden`, `node_modules`, `.gitignore`, `.memoryignore` or `exclude`."""
    files: int
    """Markdown files that would be indexed without it."""


class ScanResult(msgspec.Struct, frozen=True, kw_only=True):
    """Everything one scan saw, in a stable order: by root, by name, files before directories."""

    roots: MemoryRoots
    files: tuple[FoundFile, ...]
    skipped: tuple[SkippedFile, ...]
    skipped_count: int
    """The number of all of them, also of those for which `skipped` has no room."""
    skipped_reasons: Mapping[str, int] = {}
    """The same by reason; these reasons name no other file."""
    failed_dirs: tuple[FailedDirectory, ...]
    missing: tuple[Path, ...]
    """The workspace and extra paths that do not exist (yet)."""
    left_out: int = 0
    """Markdown files beyond the number that is indexed; they are among the skipped ones."""
    refused_rules: tuple[str, ...] = ()
    """The parts of ignore files that do not count: a sentence each."""
    ignored: tuple[LeftOut, ...] = ()
    """The files that rules leave out, by rule; only of a scan with `counting`."""
    near_misses: tuple[str, ...] = ()
    """Files that a person may take for memory but are not: a sentence each; only of a scan with `counting`."""

    @property
    def issues(self) -> tuple[str, ...]:
        """The problems with the places of the memory that a person should know."""
        missing = (f"{path} does not exist (yet)." for path in self.missing)
        more = len(self.refused_rules) - _SHOWN_RULES
        return (
            *missing,
            *([_too_many(self)] if self.left_out else []),
            *self.refused_rules[:_SHOWN_RULES],
            *([f"The same of {more:,} more rules of ignore files."] if more > 0 else []),
        )

    def keeps(self, path: str) -> bool:
        """Returns whether an indexed file that was not found must stay: its directory was unreadable."""
        absolute = self.roots.absolute(path)
        return any(is_below(absolute, self.roots.absolute(one.path)) for one in self.failed_dirs)


def stamp(value: int) -> int:
    """Returns a time stamp or inode as a signed number of 64 bits, which the index can store.

    Inodes are unsigned (overlayfs and network file systems use the highest bit) and times end in 2262;
    larger values wrap around to negative numbers, so that different stamps stay different.
    """
    if -_STAMP_RANGE // 2 <= value < _STAMP_RANGE // 2:  # nearly always, and much faster
        return value
    return (value + _STAMP_RANGE // 2) % _STAMP_RANGE - _STAMP_RANGE // 2


def is_mass(gone: int, total: int) -> bool:
    """Returns whether so many files are gone at once that their disk may be away."""
    return total >= MANY_FILES and gone > total / 2


def scan(
    roots: MemoryRoots,
    *,
    max_files: int = MAX_FILES,
    ignoring: IgnoreFiles | None = None,
    counting: bool = False,
) -> ScanResult:
    """Lists all memory files. Never raises for the state of the disk: that is in the result.

    `ignoring` remembers ignore files from one scan to the next. With `counting` the result says what
    the rules leave out, for which the directories that they name are walked, too.
    """
    return _Scan(roots, max_files, ignoring or IgnoreFiles(), counting=counting).run()


class _Scan:
    """The state of one scan, a separate object for each, so that scans may run at the same time."""

    def __init__(
        self, roots: MemoryRoots, max_files: int, ignoring: IgnoreFiles, *, counting: bool
    ) -> None:
        self._ignoring = ignoring
        self._counting = counting
        self._ignored: Counter[str] = Counter()
        self._other_suffix: list[str] = []
        self._roots = roots
        self._max_files = max_files
        self._left_out = 0
        self._number = 0
        self._root: Root
        self._files: list[FoundFile] = []
        self._first_names: dict[tuple[int, int], str] = {}
        self._skipped: list[SkippedFile] = []
        self._skipped_reasons: Counter[str] = Counter()
        self._skipped_in_root = 0
        self._failed: dict[str, FailedDirectory] = {}
        self._missing: dict[Path, None] = {}
        self._refused_rules: list[str] = []

    def run(self) -> ScanResult:
        if not _is_there(self._roots.base):
            self._missing[self._roots.workspace] = None
        for number, root in enumerate(self._roots.all):
            self._number, self._root, self._skipped_in_root = number, root, 0
            self._visit(root)
        return ScanResult(
            roots=self._roots,
            files=tuple(self._files),
            skipped=tuple(self._skipped),
            skipped_count=self._skipped_reasons.total(),
            skipped_reasons=dict(self._skipped_reasons),
            failed_dirs=tuple(self._failed.values()),
            missing=tuple(self._missing),
            left_out=self._left_out,
            refused_rules=tuple(self._refused_rules),
            ignored=tuple(LeftOut(*one) for one in sorted(self._ignored.items())),
            near_misses=tuple(self._near_misses()) if self._counting else (),
        )

    def _near_misses(self) -> Iterator[str]:
        if self._other_suffix:
            count, first = len(self._other_suffix), _printable(self._other_suffix[0])
            yield (
                f"Only files that end in {MARKDOWN_SUFFIX} are indexed, so these are not: {first}"
                f"{f' and {count - 1:,} more' if count > 1 else ''}."
            )
        if self._roots.own and (beside := _beside(self._roots)):
            paths = (self._roots.absolute(one.path) for one in self._files)
            none = not any(is_below(path, self._roots.base) for path in paths)
            yield _notes_beside(beside, none=none)

    def _visit(self, root: Root) -> None:
        path = self._roots.index_path(root.absolute)
        *directories, name = root.names
        try:
            with walked(root.anchor, directories) as parent:
                status = os.stat(name, dir_fd=parent, follow_symlinks=False)
                self._enter(parent, name, path, status)
        except OSError as error:
            is_named = root.kind == "any" and not root.is_optional  # an extra path, not an own name
            if fault_of(error) == "absent" and is_named:
                self._missing[Path(root.absolute)] = None
            self._fault(path, error)

    def _enter(self, parent: int, name: str, path: str, status: os.stat_result) -> None:
        root = self._root
        if stat.S_ISLNK(status.st_mode):
            self._skip(path, IS_LINK)
        elif stat.S_ISDIR(status.st_mode) and root.kind != "file":
            rules = None
            if root.selective:
                rules = self._ignoring.of_root(root.absolute, root.exclude)
                self._refuse(path, rules)
            self._descend(parent, name, root.absolute, 0, rules)
        elif not stat.S_ISREG(status.st_mode):
            self._skip(path, NOT_REGULAR)
        elif root.permits(root.absolute):
            self._add(path, status)
        else:
            self._skip(path, NOT_MARKDOWN)

    def _descend(
        self, parent: int, name: str, absolute: str, depth: int, rules: Rules | None
    ) -> None:
        path = self._roots.index_path(absolute)
        if not is_addressable(path):
            self._skip(path, UNDECODABLE)
        elif depth > MAX_DEPTH:
            self._skip(path, f"more than {MAX_DEPTH} directories deep")
        else:
            try:
                with listing(name, parent) as descriptor:
                    self._list(descriptor, path, absolute.rstrip("/"), depth, rules)
            except OSError as error:
                self._fault(path, error)

    def _list(
        self, descriptor: int, path: str, absolute: str, depth: int, rules: Rules | None
    ) -> None:
        with os.scandir(descriptor) as entries:
            listed = sorted(entries, key=_by_name)
        if rules is not None:
            rules = self._rules_within(rules, descriptor, path, absolute, listed)
        prefix = "" if path == "." else f"{path}/"
        directories = []
        for entry in listed:
            name = entry.name
            try:
                if rules is not None and self._is_left_out(descriptor, entry, absolute, rules):
                    continue
                if entry.is_symlink():
                    self._skip(prefix + name, IS_LINK)
                elif entry.is_dir(follow_symlinks=False):
                    directories.append(name)
                elif name.endswith(MARKDOWN_SUFFIX):
                    self._consider(entry, prefix + name, absolute)
                elif self._counting and name.lower().endswith(_OTHER_SUFFIXES):
                    self._other_suffix.append(prefix + name)
            except OSError as error:
                self._fault(path, error)
        for name in directories:
            self._descend(descriptor, name, f"{absolute}/{name}", depth + 1, rules)

    def _rules_within(
        self,
        outer: Rules,
        descriptor: int,
        path: str,
        absolute: str,
        listed: Sequence[os.DirEntry[str]],
    ) -> Rules:
        names = {entry.name for entry in listed if entry.name.startswith(".")}
        rules = self._ignoring.within(outer, descriptor, absolute or "/", names)
        if rules is not outer:
            self._refuse(path, rules)
        return rules

    def _refuse(self, path: str, rules: Rules) -> None:
        """Notes the rules of this directory that do not count."""
        for one in rules.refused:
            self._refused_rules.append(f"{_printable(path)}/{one}.")

    def _is_left_out(
        self, parent: int, entry: os.DirEntry[str], absolute: str, rules: Rules
    ) -> bool:
        name, below = entry.name, f"{absolute}/{entry.name}"
        is_directory = entry.is_dir(follow_symlinks=False)
        if not is_directory and not name.endswith(MARKDOWN_SUFFIX) and not entry.is_symlink():
            return False  # not a note anyway
        rule = rules.leaves_out(name, below, is_directory=is_directory)
        if rule is not None and self._counting:
            self._count(parent, name, below, rule, is_directory=is_directory)
        return rule is not None

    def _count(
        self,
        parent: int,
        name: str,
        absolute: str,
        rule: str,
        *,
        is_directory: bool,
        depth: int = 0,
    ) -> None:
        """Counts the files that a rule keeps out; a directory that cannot be listed counts as empty."""
        if not is_directory:
            self._ignored[rule] += name.endswith(MARKDOWN_SUFFIX) and self._root.permits(absolute)
            return
        if depth > MAX_DEPTH or self._ignored.total() > self._max_files:
            return
        with suppress(OSError), listing(name, parent) as descriptor:
            with os.scandir(descriptor) as entries:
                below = [(one.name, one.is_dir(follow_symlinks=False)) for one in entries]
            for inner, is_inner_directory in below:
                self._count(
                    descriptor,
                    inner,
                    f"{absolute}/{inner}",
                    rule,
                    is_directory=is_inner_directory,
                    depth=depth + 1,
                )

    def _consider(self, entry: os.DirEntry[str], path: str, parent: str) -> None:
        if self._root.glob and not self._root.permits(f"{parent}/{entry.name}"):
            return
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISREG(status.st_mode):
            self._add(path, status)
        else:
            self._skip(path, NOT_REGULAR)

    def _add(self, path: str, status: os.stat_result) -> None:
        if not path.isascii() and not is_addressable(path):
            self._skip(path, UNDECODABLE)
            return
        if len(path) > MAX_PATH_BYTES // 4 and len(path.encode()) > MAX_PATH_BYTES:
            self._skip(path, f"its path has more than {MAX_PATH_BYTES:,} bytes")
            return
        if len(self._files) >= self._max_files:
            self._left_out += 1
            self._skip(path, f"more than {self._max_files:,} files")
            return
        first = self._first_names.setdefault((status.st_dev, status.st_ino), path)
        if first is path:
            self._files.append(
                FoundFile(
                    path,
                    self._number,
                    status.st_size,
                    stamp(status.st_mtime_ns),
                    stamp(status.st_ctime_ns),
                    stamp(status.st_ino),
                )
            )
        elif first.casefold() != path.casefold():
            self._skip(path, f"the same file as {first}", kind=SAME_FILE)

    def _fault(self, path: str, error: OSError) -> None:
        match fault_of(error):
            case "failed":
                name, reason = _printable(path), error.strerror or str(error)
                if isinstance(error, PermissionError):
                    reason = f"{reason}: {denial_of(Path(self._roots.absolute(path))) or name}"
                self._failed.setdefault(name, FailedDirectory(name, reason, may_pass(error)))
            case "refused":
                self._skip(path, BEHIND_LINK)
            case "absent":
                pass  # it vanished since it was listed, or is optional

    def _skip(self, path: str, reason: str, *, kind: str | None = None) -> None:
        self._skipped_reasons[kind or reason] += 1
        self._skipped_in_root += 1
        if self._skipped_in_root <= MAX_SKIPPED_PER_ROOT:
            self._skipped.append(SkippedFile(path=_printable(path), reason=reason))


def _beside(roots: MemoryRoots) -> list[str]:
    """Returns the Markdown files at the root of a workspace that are not in its memory, by name."""
    try:
        with walked(roots.base, ()) as anchor, listing(".", anchor) as descriptor:
            names = sorted(os.listdir(descriptor))  # noqa: PTH208 - a descriptor
    except OSError:
        return []
    return [
        name
        for name in names
        if name.endswith(MARKDOWN_SUFFIX)
        and is_addressable(name)
        and not roots.locate(name)
        and name not in _OF_THE_HOST
    ]


def _notes_beside(names: list[str], *, none: bool) -> str:
    """Returns a hint. A workspace without any memory is probably meant as a folder of notes."""
    count = len(names)
    are = "1 .md file is" if count == 1 else f"{count:,} .md files are"
    if none:
        return (
            f"{are} here ({_some(names)}), none of them MEMORY.md, USER.md or under memory/: "
            "to search them use --notes with this folder."
        )
    return (
        f"{are} beside MEMORY.md and not indexed ({_some(names)}): move them under memory/, or name "
        "their folder in extraPaths."
    )


def _some(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN_NAMES]) + (", ..." if len(names) > _SHOWN_NAMES else "")


def _too_many(result: ScanResult) -> str:
    return (
        f"Only the first {len(result.files):,} Markdown files are indexed; {result.left_out:,} more are "
        "left out. Narrow extraPaths, for example by a pattern."
    )


def _is_there(directory: str) -> bool:
    """Returns whether it is a directory; one that merely cannot be reached counts as existing."""
    try:
        with walked(directory, ()):
            return True
    except OSError as error:
        return fault_of(error) != "absent"


def _printable(path: str) -> str:
    """Returns a name as valid text, with undecodable bytes escaped."""
    return os.fsencode(path).decode(errors="backslashreplace")


_SHARED: Final = frozenset(
    "nfs nfs4 cifs smb3 smbfs 9p virtiofs vboxsf prl_fs afs ceph glusterfs lustre gpfs beegfs orangefs "
    "gfs2 ocfs2 fuse".split()
)
_MOUNTS: Final = Path(PROC, "self/mountinfo")
_ESCAPE: Final = r"\\([0-7]{3})"


def shared_type(directory: str | Path, mounts: Path = _MOUNTS) -> str | None:
    """Returns the type of the directory's file system if others may share it (`nfs4`), else None.

    None also if the type is unknown, as on systems without /proc.
    """
    try:
        text = mounts.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    file_system = _type_of(os.path.realpath(directory), text)
    is_shared = file_system in _SHARED or file_system.startswith("fuse.")
    return file_system if is_shared else None


def _type_of(directory: str, mountinfo: str) -> str:
    """Returns the type of the longest mount point that contains `directory` (proc(5), mountinfo)."""
    best, file_system = "", ""
    for line in filter(None, mountinfo.split("\n")):
        mount, _, rest = line.partition(" - ")
        point = re.sub(_ESCAPE, _character, mount.split(" ")[4]).rstrip("/")
        holds = directory == point or directory.startswith(point + "/")
        if holds and len(point) >= len(best):
            best, file_system = point, rest.split(" ", 1)[0]
    return file_system


def _character(escape: re.Match[str]) -> str:
    """Decodes a space, newline or backslash in a mount point, which are written as octal numbers."""
    return chr(int(escape[1], 8))
