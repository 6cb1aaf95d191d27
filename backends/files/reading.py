"""Reading one file: whole for the index, or a range of lines for a client."""

from __future__ import annotations

import codecs
import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from backends.files.ignoring import IgnoreFiles
from backends.files.roots import Location, MemoryRoots, is_below
from backends.files.safe_open import MomentarilyUnreadableError, RefusedFileError, opened
from backends.files.scan import FoundFile, stamp
from backends.interface import (
    MAY_HANG,
    FileUnreadableError,
    PathNotAllowedError,
    ReadAnswer,
    ReadRequest,
    SkippedFile,
)
from config.runtime.tasks import BoundedWork

DECODING_VERSION: Final = 5
"""Incremented with every change of the decoding: the notes of stored indexes are then read again."""
UTF8: Final = "utf-8"
WINDOWS: Final = "windows-1252"
BROKEN: Final = "broken"
"""Text with damage, UTF-8 unless a mark says UTF-16: what cannot be read is shown as U+FFFD."""
UNKNOWN: Final = "unknown"
"""Text in another encoding, or no text: there is nothing in it to search."""

_LONG_MARKS: Final = ((b"\xff\xfe\0\0", "utf-32-le"), (b"\0\0\xfe\xff", "utf-32-be"))
"""Checked before `_MARKS`: the first begins like a mark of UTF-16."""
_MARKS: Final = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_LEAST_UTF16: Final = 8
_ZERO_SHARE: Final = 0.7
_HIGH_SHARE: Final = 1 / 3
_DAMAGED: Final = "[\x00-\x08\x0e-\x1f\x7f\N{REPLACEMENT CHARACTER}]"
_LEAST_DAMAGE: Final = 4
_DAMAGE_SHARE: Final = 1 / 4
"""The share of visible characters above which damage is hopeless: damaged notes have a few such places."""
_NOT_WINDOWS: Final = rb"[\x00-\x08\x0b\x0e-\x1f\x7f\x81\x8d\x8f\x90\x9d]|[\x80-\xff]{4}"
"""Control characters, unassigned bytes, and runs of high bytes that no Western word has."""

MAX_FILE_BYTES = 64 * 1024 * 1024
"""A larger file is skipped with a reason."""
HASH_BYTES = 16
READ_ATTEMPTS = 3
# Each run is tried once, from its start, and never backtracked into: linear in any text.
_CARRIAGE_RETURNS = r"(?<!\r)\r++\n"
BOM = b"\xef\xbb\xbf"
_MARK = "\ufeff"


def encoding_of(data: bytes) -> str:
    """Returns a codec of Python that reads all of it, or `BROKEN` or `UNKNOWN`.

    UTF-16 that a mark names may have some damage.
    """
    for mark, codec in _LONG_MARKS:
        if data.startswith(mark) and _reads(data, codec):
            return codec
    for mark, codec in _MARKS:
        if data.startswith(mark):
            return codec if _damage(data, codec)[1] <= _DAMAGE_SHARE else BROKEN
    if b"\0" in data:
        if guessed := _utf16(data):
            return guessed
        if not data.strip(b"\0"):
            return UNKNOWN
    if _reads(data, UTF8):
        return UTF8
    if _is_windows(data):
        return WINDOWS
    damaged, share = _damage(data, UTF8)
    return UNKNOWN if damaged >= _LEAST_DAMAGE and share > _DAMAGE_SHARE else BROKEN


def _damage(data: bytes, codec: str) -> tuple[int, float]:
    """Returns how many characters are damaged, and their share of the visible ones."""
    shown = data.decode(codec, "replace")
    damaged = len(re.findall(_DAMAGED, shown))
    visible = len(shown) - sum(map(shown.count, " \n\r\t"))
    return damaged, damaged / visible if damaged else 0.0


def _utf16(data: bytes) -> str | None:
    if len(data) < _LEAST_UTF16 or len(data) % 2:
        return None
    half = len(data) // 2
    first, second = data[::2].count(0), data[1::2].count(0)
    for codec, high, low in (("utf-16-le", second, first), ("utf-16-be", first, second)):
        if not low and high >= _ZERO_SHARE * half and _reads(data, codec):
            return codec
    return None


def _is_windows(data: bytes) -> bool:
    if re.search(_NOT_WINDOWS, data):
        return False
    high = len(re.findall(rb"[\x80-\xff]", data))
    visible = len(data) - sum(map(data.count, b" \n\r\t"))
    if high > _HIGH_SHARE * visible:
        return False
    # Text that is mostly valid UTF-8 is damaged UTF-8.
    shown = data.decode(UTF8, "replace")
    broken = shown.count("\N{REPLACEMENT CHARACTER}")
    valid = sum(character > "\x7f" for character in shown) - broken
    return valid < broken


def _reads(data: bytes, codec: str) -> bool:
    try:
        data.decode(codec)
    except UnicodeDecodeError:
        return False
    return True


class FileContent(msgspec.Struct, frozen=True, kw_only=True):
    """A consistent copy of one file.

    `text` is what is indexed: empty for an unknown encoding, else without byte-order mark, with CRLF as newline and
    NULs as one U+FFFD. None of this changes a line number; only a newline ends a line.
    """

    found: FoundFile
    """The file with the stamps of the descriptor that was read, not those of its listing."""
    text: str
    content_hash: bytes
    """BLAKE2b (16 bytes) of the raw bytes."""
    encoding: str = UTF8
    """The result of `encoding_of`; text that a mark names counts as UTF-8, since there is nothing to report."""


class FileGone(msgspec.Struct, frozen=True):
    """The file vanished after it was listed: its rows are deleted."""


class FileChanging(msgspec.Struct, frozen=True):
    """The file was being written during every attempt: its old rows stay and it is still to be read."""


class FileUnreadable(msgspec.Struct, frozen=True):
    """The file exists and the system refuses to read it: its old rows stay."""

    path: str
    reason: str
    may_pass: bool = False
    """True if the next attempt may succeed without intervention."""


ReadOutcome: TypeAlias = FileContent | FileGone | FileChanging | FileUnreadable | SkippedFile
"""`SkippedFile`: a link, a special file or too large a file; by rule not memory, so its rows are deleted."""


def read_for_index(roots: MemoryRoots, found: FoundFile) -> ReadOutcome:
    """Reads a file that `scan(roots)` found, whole and from one descriptor."""
    try:
        return _read(found, _location(roots, found))
    except FileNotFoundError:
        return FileGone()
    except RefusedFileError as error:
        return SkippedFile(path=found.path, reason=error.reason)
    except FileUnreadableError as error:
        may_pass = isinstance(error, MomentarilyUnreadableError)
        return FileUnreadable(found.path, str(error), may_pass)


def has_more(roots: MemoryRoots, found: FoundFile, digest: bytes) -> bool:
    """Returns whether somebody appended to the file since it had the content of this hash."""
    try:
        with opened(_location(roots, found)) as descriptor:
            data = os.pread(descriptor, found.size + 1, 0)
    except (FileNotFoundError, PathNotAllowedError, FileUnreadableError):
        return False
    return len(data) > found.size and content_hash(data[:-1]) == digest


def _location(roots: MemoryRoots, found: FoundFile) -> Location:
    return roots.all[found.root].location(roots.absolute(found.path), found.path)


def content_hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=HASH_BYTES).digest()


def decode(data: bytes, encoding: str | None = None) -> str:
    """Returns the text that is indexed. `encoding`: the result of `encoding_of`, if it is known."""
    encoding = encoding or encoding_of(data)
    if encoding in {BROKEN, UNKNOWN}:
        text = data.removeprefix(BOM).decode(errors="replace")
    else:
        text = data.decode(encoding, "replace").removeprefix(_MARK)
    if "\0" in text:
        text = re.sub("\0+", "\N{REPLACEMENT CHARACTER}", text)
    return re.sub(_CARRIAGE_RETURNS, "\n", text) if "\r\n" in text else text


def _read(found: FoundFile, location: Location) -> FileContent | FileChanging | SkippedFile:
    with opened(location) as descriptor:
        for _ in range(READ_ATTEMPTS):
            before = os.fstat(descriptor)
            if before.st_size > MAX_FILE_BYTES:
                reason = f"too large: {before.st_size:,} bytes, the limit is {MAX_FILE_BYTES:,}"
                return SkippedFile(path=location.path, reason=reason)
            data = _read_bytes(descriptor, before.st_size)
            if data is not None and _stamp(os.fstat(descriptor)) == _stamp(before):
                return _content(found, data, before)
    return FileChanging()


def _read_bytes(descriptor: int, size: int) -> bytes | None:
    """Returns all `size` bytes; None if there are more or fewer by now."""
    with open(descriptor, "rb", closefd=False) as file:
        file.seek(0)
        data = file.read(size + 1)
    return data if len(data) == size else None


def _content(found: FoundFile, data: bytes, status: os.stat_result) -> FileContent:
    encoding = encoding_of(data)
    is_marked = data.startswith(tuple(mark for mark, _ in (*_MARKS, *_LONG_MARKS)))
    is_as_marked = is_marked and encoding not in {BROKEN, UNKNOWN}
    return FileContent(
        found=replace(
            found,
            size=status.st_size,
            mtime_ns=stamp(status.st_mtime_ns),
            ctime_ns=stamp(status.st_ctime_ns),
            inode=stamp(status.st_ino),
        ),
        text="" if encoding == UNKNOWN else decode(data, encoding),
        content_hash=content_hash(data),
        encoding=(UTF8 if _reads(data, encoding) else BROKEN) if is_as_marked else encoding,
    )


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


class LineWindow(msgspec.Struct, frozen=True):
    """The lines that were cut out, joined by newlines."""

    data: bytes
    line_count: int
    """0 if the stream ends before the first requested line."""
    truncated: bool = False
    next_line: int | None = None
    """The first requested line that was left out; None when there is none."""
    cut_inside_line: bool = False
    """True if one line alone exceeds the limit: `data` is its beginning, perhaps with half a character."""


def select_lines(blocks: Iterator[bytes], first: int, count: int | None, limit: int) -> LineWindow:
    """Selects lines `first` (from 1) to `first + count - 1`; `count` None means to the end.

    At most `limit` bytes: a longer range ends with the last whole line that fits and names the next
    one. A single line beyond the limit is cut; the next one is then the line after it, because a
    range of lines cannot begin inside one.
    """
    rest = _from_line(blocks, first)
    if next(rest, None) is None:
        return LineWindow(data=b"", line_count=0)
    data, ended = _collect(rest, count, limit)
    if len(data) <= limit:
        return LineWindow(data=data, line_count=data.count(b"\n") + 1)
    end = data.rfind(b"\n", 0, limit + 1)
    if end >= 0:
        kept = data.count(b"\n", 0, end) + 1
        return LineWindow(data[:end], kept, truncated=True, next_line=first + kept)
    follows = b"\n" in data or (not ended and count != 1 and any(b"\n" in block for block in rest))
    return LineWindow(
        data[:limit],
        line_count=1,
        truncated=True,
        next_line=first + 1 if follows else None,
        cut_inside_line=True,
    )


def _from_line(blocks: Iterator[bytes], first: int) -> Iterator[bytes]:
    """Yields the text from line `first` on, after an empty block if that line exists."""
    to_skip = first - 1
    if to_skip == 0:
        yield b""
    for block in blocks:
        if to_skip == 0:
            yield block
            continue
        newlines = block.count(b"\n")
        if newlines < to_skip:
            to_skip -= newlines
            continue
        start = _nth_newline(block, to_skip) + 1
        to_skip = 0
        yield b""
        yield block[start:]


def _collect(blocks: Iterator[bytes], count: int | None, limit: int) -> tuple[bytes, bool]:
    """Collects `count` lines, or until `limit` is passed; also returns whether the range ended here."""
    data = bytearray()
    for block in blocks:
        newlines = 0 if count is None else block.count(b"\n")
        if count is not None and newlines >= count:
            data += block[: _nth_newline(block, count)]
            return bytes(data), True
        if count is not None:
            count -= newlines
        data += block
        if len(data) > limit:
            return bytes(data), False
    return bytes(data), True


def _nth_newline(block: bytes, n: int) -> int:
    position = -1
    for _ in range(n):
        position = block.index(b"\n", position + 1)
    return position


MAX_TEXT_BYTES = 1024 * 1024
"""The most bytes of a file in one answer; `next_line` names what is left out."""
MAX_SCANNED_BYTES = 256 * 1024 * 1024
"""The most bytes of a file that are searched for a line."""
_BLOCK_BYTES = 256 * 1024
_SHOWN_CHARS = 200
READ_PATIENCE_S: Final = 10.0
"""The longest wait for a note, and as long again for other reads that wait for a disk already."""
_AT_ONCE: Final = 8


class NoteReads:
    """Reads of notes in threads, each with a deadline: a mount may hang."""

    def __init__(self) -> None:
        self._pool = BoundedWork("reading of notes", _AT_ONCE)

    async def run(
        self, read: Callable[[ReadRequest], ReadAnswer], request: ReadRequest
    ) -> ReadAnswer:
        """Raises MomentarilyUnreadableError when the disk does not answer, and what `read` raises."""
        try:
            return await self._pool.run(
                partial(read, request), READ_PATIENCE_S, queue_s=READ_PATIENCE_S
            )
        except TimeoutError:
            raise MomentarilyUnreadableError(
                f"{_shown(request.path)!r} was not read within {READ_PATIENCE_S:g} s.",
                remedy=MAY_HANG,
            ) from None


def read_lines(roots: MemoryRoots, request: ReadRequest) -> ReadAnswer:
    """Reads the requested lines of a permitted file of this agent.

    Without `first_line` and `line_count` (None or 0): the whole file as it is. Otherwise lines
    split at newlines, counted from 1; values below 1 mean 1; beyond the end the text is empty.
    Invalid UTF-8 is shown as U+FFFD and a byte-order mark is left out. `path` of the answer is
    relative to the workspace.

    Raises `PathNotAllowedError` for every path that is not memory or leads over a link, without
    saying which, and `FileUnreadableError` for a permitted file that cannot be read.
    """
    return read_located(_locations(roots, request.path), request, of_notes=not roots.own)


def read_located(
    locations: Sequence[Location], request: ReadRequest, *, of_notes: bool = False
) -> ReadAnswer:
    """Reads the first of the places that contains a file; see `read_lines` for the rest."""
    absent: Location | None = None
    for location in locations:
        try:
            with opened(location) as descriptor:
                blocks = _converted(descriptor) or _blocks(location.path, descriptor)
                return read_blocks(location.path, blocks, request)
        except FileNotFoundError:
            absent = absent or location
        except PathNotAllowedError:
            continue
    if absent is None:
        raise PathNotAllowedError(_shown(request.path), of_notes=of_notes)
    return not_found(absent.path, request)


def not_found(path: str, request: ReadRequest) -> ReadAnswer:
    """Returns the answer for a permitted path where nothing is."""
    return ReadAnswer(
        path=path,
        text="",
        status="not_found",
        first_line=max(1, request.first_line or 1),
        line_count=0,
    )


def _locations(roots: MemoryRoots, path: str) -> tuple[Location, ...]:
    """Returns where `path` may be, also if it names the workspace by its real path instead of a link."""
    found = roots.locate(path)
    if not found:
        absolute, real = roots.absolute(path.strip()), os.path.realpath(roots.base)
        found = roots.locate(os.path.relpath(absolute, real)) if is_below(absolute, real) else ()
    ignoring = IgnoreFiles()
    return tuple(location for location in found if not is_left_out(location, ignoring))


def is_left_out(location: Location, ignoring: IgnoreFiles | None = None) -> bool:
    """Returns whether the rules of its root leave the file out, as far as they can be read. Blocks."""
    try:
        return (ignoring or IgnoreFiles()).leaves_out(location)
    except OSError:
        return False  # opening it reports what is wrong


def read_blocks(path: str, blocks: Iterator[bytes], request: ReadRequest) -> ReadAnswer:
    """Cuts the requested lines out of a text, of which no more is read than necessary."""
    first = max(1, request.first_line or 1)
    count = max(1, request.line_count) if request.line_count else None
    window = select_lines(blocks, first, count, MAX_TEXT_BYTES)
    # A character that was cut together with its line is left out.
    text, _ = codecs.utf_8_decode(window.data, "replace", not window.cut_inside_line)
    return ReadAnswer(
        path=path,
        text=text,
        status="ok",
        first_line=first,
        line_count=window.line_count,
        truncated=window.truncated,
        next_line=window.next_line,
    )


def _converted(descriptor: int) -> Iterator[bytes] | None:
    """Returns a file in another encoding as UTF-8; None for UTF-8, damaged, unknown or too large files."""
    size = os.fstat(descriptor).st_size
    if size > MAX_FILE_BYTES or _is_plain_utf8(descriptor):
        return None
    data = b"".join(iter(lambda: os.read(descriptor, _BLOCK_BYTES), b""))
    os.lseek(descriptor, 0, os.SEEK_SET)
    encoding = encoding_of(data)
    if encoding in (UTF8, BROKEN, UNKNOWN):
        return None
    text = data.decode(encoding, "replace").removeprefix(_MARK)
    return iter([text.encode("utf-8", "replace")])


def _is_plain_utf8(descriptor: int) -> bool:
    """Returns whether it is UTF-8 without NUL bytes. Leaves the descriptor at the beginning."""
    decoder = codecs.getincrementaldecoder(UTF8)()
    try:
        while block := os.read(descriptor, _BLOCK_BYTES):
            if b"\0" in block:
                return False
            decoder.decode(block)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    finally:
        os.lseek(descriptor, 0, os.SEEK_SET)
    return True


def _blocks(path: str, descriptor: int) -> Iterator[bytes]:
    block = os.read(descriptor, _BLOCK_BYTES).removeprefix(BOM)
    scanned = 0
    while block:
        yield block
        scanned += len(block)
        if scanned > MAX_SCANNED_BYTES:
            raise FileUnreadableError(
                f"{path!r} has no such line in its first {MAX_SCANNED_BYTES // 2**20} MiB.",
                remedy="Ask for an earlier line, or split the file.",
            )
        block = os.read(descriptor, _BLOCK_BYTES)


def _shown(path: str) -> str:
    return path if len(path) <= _SHOWN_CHARS else path[:_SHOWN_CHARS] + "..."
