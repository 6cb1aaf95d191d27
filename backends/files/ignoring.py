"""The files below a folder that are not notes: hidden ones, vendors', and those that ignore files name.

The rules apply to extra paths and notes folders. Their verdicts are cached, since every search lists
the disk and patterns take long to match. The patterns are those of git; an ignore file that is a link does not
count, as with git. A pattern becomes steps, one for each name of a path (`backends.files.globs`); the time to match
it grows at most with the product of the lengths of name and pattern. Blocks; may be used by any thread.
"""

from __future__ import annotations

import codecs
import errno
import itertools
import os
import re
import stat
import string
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from backends.files.globs import ANY_DEPTH, Steps, fits, fits_name, joined
from backends.files.roots import Location
from backends.files.safe_open import fault_of, may_pass, walked
from config.runtime.remembered import Remembered, size_of

LONGEST: Final = 4_096
"""The most characters of a pattern; paths are no longer."""

_TRAILING_BLANKS: Final = r"(?<!\\)((?:\\\\)*) +\Z"
_ANY_NAME: Final = re.compile("")
_CLASSES: Final[Mapping[str, str]] = {
    "alnum": string.ascii_letters + string.digits,
    "alpha": string.ascii_letters,
    "blank": " \t",
    "cntrl": "".join(map(chr, (*range(0x20), 0x7F))),
    "digit": string.digits,
    "graph": "".join(map(chr, range(0x21, 0x7F))),
    "lower": string.ascii_lowercase,
    "print": "".join(map(chr, range(0x20, 0x7F))),
    "punct": string.punctuation,
    "space": string.whitespace,
    "upper": string.ascii_uppercase,
    "xdigit": string.hexdigits,
}
_CLASS: Final = re.compile(r"\[:([^\]]{0,20}):\]")
_NOTHING: Final = "(?!)"
HIDDEN: Final = "hidden"
NODE_MODULES: Final = "node_modules"
EXCLUDE: Final = "exclude"
GITIGNORE: Final = ".gitignore"
MEMORYIGNORE: Final = ".memoryignore"
"""The rules, by the names that `status` gives them."""
MAX_BYTES: Final = 256 * 1024
"""The most that is read of one ignore file."""
MAX_PATTERNS: Final = 2_000
"""The most patterns that are taken from one ignore file: each costs time with every file below."""
VERDICTS_BYTES: Final = 48 * 1024 * 1024
"""Room for some 100,000 verdicts in each half: every scan asks for all of them again."""
PATTERNS_BYTES: Final = 16 * 1024 * 1024
"""The most memory for the patterns of ignore files."""
_PATTERN_BYTES: Final = 2_048
"""The assumed size of one compiled pattern."""
_MOST_REMARKS: Final = 3
"""The most remarks about one ignore file."""
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_Stamp = tuple[int, int, int, int]
_Verdicts = Remembered[tuple[int, str, bool], str]
"""The deciding rule by number of the rules, path and whether it is a directory; "" if no rule leaves it out."""
_numbers: Final = itertools.count()


class Pattern(msgspec.Struct, frozen=True, gc=False):
    steps: Steps
    is_negated: bool
    """True if it keeps what an earlier pattern leaves out."""
    only_directories: bool
    at_any_depth: bool
    """True if it applies to the last name of a path alone; it then has one step."""

    @property
    def name(self) -> str | re.Pattern[str]:
        (step,) = self.steps
        assert step is not ANY_DEPTH
        return step

    def matches(self, names: Sequence[str], *, is_directory: bool) -> bool:
        if self.only_directories and not is_directory:
            return False
        if self.at_any_depth:
            return fits_name(names[-1], self.name)
        return fits(names, self.steps)


def last_verdict(patterns: Sequence[Pattern], below: str, *, is_directory: bool) -> bool | None:
    """Returns the verdict of the last pattern that matches a path below their directory.

    True: leave it out; False: keep it; None: none matches. The directories above the path must be checked first.
    """
    names = below.split("/")
    for pattern in reversed(patterns):
        if pattern.matches(names, is_directory=is_directory):
            return not pattern.is_negated
    return None


def read_pattern(line: str) -> Pattern | None:
    """Parses a line; None for a blank line, a comment, or a pattern that matches nothing.

    Raises ValueError beyond `LONGEST` characters.
    """
    if line.startswith("#"):
        return None
    if len(line) > LONGEST:
        raise ValueError(f"a pattern has more than {LONGEST:,} characters")
    text = re.sub(_TRAILING_BLANKS, r"\1", line)
    is_negated = text.startswith("!")
    text = text[is_negated:]
    only_directories = text.endswith("/")
    text = text[: len(text) - only_directories]
    if not text:
        return None
    try:
        names = [*_names(text.removeprefix("/"))]
    except _NeverMatchesError:
        return None
    at_any_depth = "/" not in text
    steps = (_step(names[0]),) if at_any_depth else joined(_steps(names))
    return Pattern(steps, is_negated, only_directories, at_any_depth)


class _NeverMatchesError(Exception):
    pass


class _Character(NamedTuple):
    expression: str
    """The regular expression that matches it."""
    literal: str | None = None
    """The character itself, if it is a literal one."""


_STAR: Final = _Character("*")
_ANY: Final = _Character(".")
_Name = list[_Character]


def _names(text: str) -> Iterator[_Name]:
    name: _Name = []
    at = 0
    while at < len(text):
        character = text[at]
        at += 1
        if character == "\\":
            if at == len(text):
                raise _NeverMatchesError
            character = text[at]
            at += 1
        elif character == "[":
            one, at = _set(text, at)
            name.append(one)
            continue
        elif character in "*?":
            name.append(_STAR if character == "*" else _ANY)
            continue
        if character != "/":
            name.append(_Character(re.escape(character), character))
            continue
        yield _whole(name)
        name = []
    yield _whole(name)


def _whole(name: _Name) -> _Name:
    if not name:  # between two slashes, which no path has
        raise _NeverMatchesError
    return name


def _steps(names: Sequence[_Name]) -> Iterator[str | re.Pattern[str] | None]:
    """Yields the steps of the names; `a/**` matches everything in `a`, but not `a`."""
    for at, name in enumerate(names):
        if len(name) == 1 or any(one is not _STAR for one in name):
            yield _step(name)
        else:
            yield ANY_DEPTH
            if at == len(names) - 1:
                yield _ANY_NAME


def _step(name: _Name) -> str | re.Pattern[str]:
    if all(one.literal is not None for one in name):
        return "".join(one.literal or "" for one in name)
    parts = [""]
    for one in name:
        if one is _STAR:
            parts.append("")
        else:
            parts[-1] += one.expression
    if len(parts) == 1:
        return re.compile(rf"{parts[0]}\Z", re.DOTALL)
    first, *middle, last = parts
    found = "".join(f"(?>.*?{part})" for part in middle if part)
    return re.compile(rf"{first}{found}.*{last}\Z", re.DOTALL)


def _set(text: str, at: int) -> tuple[_Character, int]:
    """Returns the set of characters that begins before `at`, and its end. Raises _NeverMatchesError if it has none."""
    is_negated = text[at : at + 1] in ("!", "^")
    at += is_negated
    members: list[str] = []
    before = ""  # the character that a range may begin with
    is_first = True
    while is_first or text[at : at + 1] != "]":
        is_first = False
        if text[at : at + 1] == "-" and before and text[at + 1 : at + 2] not in ("", "]"):
            last, at = _member(text, at + 1)
            if before <= last:
                members.append(f"{re.escape(before)}-{re.escape(last)}")
            before = ""
        elif (named := _CLASS.match(text, at)) is not None:
            if named[1] not in _CLASSES:
                raise _NeverMatchesError
            members.append(re.escape(_CLASSES[named[1]]))
            before, at = "", named.end()
        else:
            before, at = _member(text, at)
            members.append(re.escape(before))
    inside = "".join(members)
    if not inside:
        return _Character("." if is_negated else _NOTHING), at + 1
    return _Character(f"[{'^' if is_negated else ''}{inside}]"), at + 1


def _member(text: str, at: int) -> tuple[str, int]:
    at += text[at : at + 1] == "\\"
    if at >= len(text):
        raise _NeverMatchesError
    return text[at], at + 1


class _Spec(msgspec.Struct, frozen=True, gc=False):
    """The patterns of one ignore file, for the paths below its directory."""

    directory: str
    patterns: tuple[Pattern, ...]

    def says(self, absolute: str, *, is_directory: bool) -> bool | None:
        """Returns True to leave it out, False to keep it (by a `!` pattern), None if no pattern matches."""
        below = absolute[len(self.directory.rstrip("/")) + 1 :]
        return last_verdict(self.patterns, below, is_directory=is_directory)


class Rules:
    """The rules for the entries of one directory."""

    def __init__(
        self,
        verdicts: _Verdicts,
        exclude: _Spec | None = None,
        memory: tuple[_Spec, ...] = (),
        git: tuple[_Spec, ...] = (),
        refused: tuple[str, ...] = (),
    ) -> None:
        """`memory`, `git`: the specs of ignore files, those of deeper directories first.

        `refused`: the parts of this directory's ignore files that do not count, and why.
        """
        self.exclude, self.memory, self.git = exclude, memory, git
        self.refused = refused
        self._has_patterns = bool(exclude or memory or git)
        self._verdicts = verdicts
        self._number = next(_numbers)

    def leaves_out(self, name: str, absolute: str, *, is_directory: bool) -> str | None:
        """Returns the rule that leaves the entry out, if there is one."""
        if not self._has_patterns:
            return _usual(name)
        key = (self._number, absolute, is_directory)
        verdict = self._verdicts.get(key)
        if verdict is None:
            verdict = self._judge(name, absolute, is_directory=is_directory) or ""
            self._verdicts.put(key, verdict)
        return verdict or None

    def _judge(self, name: str, absolute: str, *, is_directory: bool) -> str | None:
        if self.exclude and self.exclude.says(absolute, is_directory=is_directory):
            return EXCLUDE
        said = _first_verdict(self.memory, absolute, is_directory=is_directory)
        if said is not None:
            return MEMORYIGNORE if said else None
        if _first_verdict(self.git, absolute, is_directory=is_directory):
            return GITIGNORE
        return _usual(name)


class _Known(msgspec.Struct, frozen=True, gc=False):
    """The rules of a directory that has ignore files."""

    outer: Rules
    stamps: tuple[_Stamp | None, ...]
    rules: Rules
    patterns: int
    """The number of its own patterns."""


class IgnoreFiles:
    """The rules of all directories that have ignore files, as they were read last."""

    def __init__(self) -> None:
        self._verdicts: _Verdicts = Remembered(VERDICTS_BYTES, lambda key, _: size_of(key, key[1]))
        self._known: Remembered[str, _Known] = Remembered(
            PATTERNS_BYTES,
            lambda absolute, known: size_of(absolute) + (1 + known.patterns) * _PATTERN_BYTES,
        )
        self._roots: dict[tuple[str, tuple[str, ...]], Rules] = {}

    @property
    def bytes_used(self) -> int:
        return self._verdicts.bytes_used + self._known.bytes_used

    def of_root(self, absolute: str, exclude: tuple[str, ...]) -> Rules:
        """Returns the rules that apply before any ignore file is read."""
        key = (absolute, exclude)
        if key not in self._roots:
            read = _patterns(exclude)
            refused = tuple(f"{EXCLUDE}: {one}" for one in read.refused)
            spec = _Spec(absolute, read.patterns) if exclude else None
            self._roots[key] = Rules(self._verdicts, spec, refused=refused)
        return self._roots[key]

    def within(self, outer: Rules, descriptor: int, absolute: str, names: Collection[str]) -> Rules:
        """Returns the rules of an open directory that has entries of these names.

        Raises OSError if an ignore file cannot be read this time, so that nothing that it keeps out gets in.
        """
        if MEMORYIGNORE not in names and GITIGNORE not in names:
            return outer
        stamps = tuple(_stamp(name, descriptor) for name in (MEMORYIGNORE, GITIGNORE))
        known = self._known.get(absolute)
        if known is not None and known.outer is outer and known.stamps == stamps:
            return known.rules
        memory, git = (
            _read(name, descriptor) if stamp else _NO_PATTERNS
            for name, stamp in zip((MEMORYIGNORE, GITIGNORE), stamps, strict=True)
        )
        rules = Rules(
            self._verdicts,
            outer.exclude,
            (*_specs(absolute, memory), *outer.memory),
            (*_specs(absolute, git), *outer.git),
            (*_named(MEMORYIGNORE, memory), *_named(GITIGNORE, git)),
        )
        count = len(memory.patterns) + len(git.patterns)
        self._known.put(absolute, _Known(outer, stamps, rules, count))
        return rules

    def leaves_out(self, location: Location) -> bool:
        """Returns whether the rules of its root leave the file out. Raises OSError."""
        root = location.root
        if root is None or not root.selective:
            return False
        depth = len(root.names)
        below = location.names[depth:]
        rules = self.of_root(root.absolute, root.exclude)
        absolute = root.absolute.rstrip("/")
        with walked(location.anchor, location.names[:depth] if below else ()) as descriptor:
            current = os.dup(descriptor)
        try:
            for number, name in enumerate(below, start=1):
                present = [one for one in (MEMORYIGNORE, GITIGNORE) if _stamp(one, current)]
                rules = self.within(rules, current, absolute or "/", present)
                absolute = f"{absolute}/{name}"
                is_directory = number < len(below)
                if rules.leaves_out(name, absolute, is_directory=is_directory):
                    return True
                if is_directory:
                    inner = os.open(name, _DIRECTORY, dir_fd=current)
                    os.close(current)
                    current = inner
        finally:
            os.close(current)
        return False


def is_usually_out(name: str) -> bool:
    """Returns whether an entry of this name is left out unless an ignore file says otherwise."""
    return _usual(name) is not None


def _usual(name: str) -> str | None:
    if name.startswith("."):
        return HIDDEN
    return NODE_MODULES if name == NODE_MODULES else None


def _first_verdict(specs: Iterable[_Spec], absolute: str, *, is_directory: bool) -> bool | None:
    """Returns the verdict of the deepest ignore file that has one."""
    verdicts = (spec.says(absolute, is_directory=is_directory) for spec in specs)
    return next((verdict for verdict in verdicts if verdict is not None), None)


class _Patterns(msgspec.Struct, frozen=True, gc=False):
    """The patterns of one ignore file."""

    patterns: tuple[Pattern, ...] = ()
    refused: tuple[str, ...] = ()
    """The parts of it that do not count, and why."""


_NO_PATTERNS: Final = _Patterns()


def _specs(directory: str, read: _Patterns) -> tuple[_Spec, ...]:
    return (_Spec(directory, read.patterns),) if read.patterns else ()


def _named(file: str, read: _Patterns) -> tuple[str, ...]:
    return tuple(f"{file}: {one}" for one in read.refused)


def _patterns(lines: Iterable[str], refused: Sequence[str] = ()) -> _Patterns:
    found: list[Pattern] = []
    remarks = [*refused]
    for number, line in enumerate(lines, start=1):
        try:
            pattern = read_pattern(line)
        except ValueError as error:
            remarks.append(f"line {number} does not count: {error}")
            continue
        if pattern is not None and len(found) == MAX_PATTERNS:
            remarks.append(f"only its first {MAX_PATTERNS:,} patterns count")
            break
        if pattern is not None:
            found.append(pattern)
    return _Patterns(tuple(found), tuple(remarks[:_MOST_REMARKS]))


def _stamp(name: str, parent: int) -> _Stamp | None:
    try:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except OSError as error:
        if _is_momentary(error):
            raise
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _is_momentary(error: OSError) -> bool:
    """Returns whether the next attempt may succeed; reading a directory always fails."""
    return fault_of(error) == "failed" and may_pass(error) and error.errno != errno.EISDIR


def _read(name: str, parent: int) -> _Patterns:
    """Reads an ignore file; one that is unreadable or not a file has no patterns. Raises OSError if that may pass."""
    try:
        descriptor = os.open(name, _READ, dir_fd=parent)
    except OSError as error:
        if _is_momentary(error):
            raise
        why = "it is a link" if error.errno == errno.ELOOP else error.strerror or str(error)
        return _Patterns(refused=(f"none of it counts: {why}",))
    try:
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            return _Patterns(refused=("none of it counts: it is a pipe",))
        data = os.read(descriptor, MAX_BYTES + 1)
    except OSError as error:
        if _is_momentary(error):
            raise
        return _Patterns(refused=(f"none of it counts: {error.strerror or error}",))
    finally:
        os.close(descriptor)
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return _Patterns(refused=("none of it counts: it is in UTF-16, save it as UTF-8",))
    refused = []
    if len(data) > MAX_BYTES:
        refused.append(f"only its first {MAX_BYTES >> 10} KiB count")
        data = data[: data.rfind(b"\n", 0, MAX_BYTES) + 1]  # half of a pattern would be another one
    lines = data.decode("utf-8-sig", "replace").split("\n")
    return _patterns((line.removesuffix("\r") for line in lines), refused)
