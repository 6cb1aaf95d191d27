"""The patterns of git's ignore files, matched in time that grows with name and pattern, and no faster.

A pattern becomes steps, one for each name of a path (`backends.files.globs`). Within a name, where a star ends is not
tried again once what follows it was found. What git itself cannot match (`[`, `a//b`) matches nothing.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from backends.files.globs import ANY_DEPTH, Steps, fits, fits_name, joined

LONGEST: Final = 4_096
"""Characters of a pattern; paths are no longer."""

_TRAILING_BLANKS: Final = re.compile(r"(?<!\\)((?:\\\\)*) +\Z")
_ANY_NAME: Final = re.compile("")


class Pattern(msgspec.Struct, frozen=True, gc=False):
    steps: Steps
    is_negated: bool
    """It keeps what an earlier one leaves out."""
    only_directories: bool
    at_any_depth: bool
    """It is about the last name of a path alone, and has one step."""

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


def last_word(patterns: Sequence[Pattern], below: str, *, is_directory: bool) -> bool | None:
    """What the last pattern says that matches a path below their directory.

    True: leave it out; False: keep it; None: none matches. The directories above the path have to be asked about
    before.
    """
    names = below.split("/")
    for pattern in reversed(patterns):
        if pattern.matches(names, is_directory=is_directory):
            return not pattern.is_negated
    return None


def read_pattern(line: str) -> Pattern | None:
    """None for a blank line, a comment, and what matches nothing. Raises ValueError beyond `LONGEST` characters."""
    if line.startswith("#"):
        return None
    if len(line) > LONGEST:
        raise ValueError(f"a pattern has more than {LONGEST:,} characters")
    text = _TRAILING_BLANKS.sub(r"\1", line)
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
    """What matches it, as a regular expression."""
    literal: str | None = None
    """Itself, if it is one."""


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
    """One for each name; `a/**` is all that is in `a`, but not `a`."""
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


def _set(text: str, at: int) -> tuple[_Character, int]:
    """The set of characters that begins before `at`, and where it ends. Raises _NeverMatchesError where it does not."""
    is_negated = text[at : at + 1] in ("!", "^")
    at += is_negated
    members: list[str] = []
    before = ""  # which a range may begin with
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
