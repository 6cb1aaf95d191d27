"""Reading part of a file for whoever asked: what `memory_get` does below the tools.

Owns the selection of lines, the cap on the text that is returned, and the outcome of a path: text,
nothing there, or not allowed. Streams: neither a large file nor an endless line fills the memory.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from backends.errors import FileUnreadableError, PathNotAllowedError
from backends.files.lines import LineWindow, select_lines
from backends.files.reading import BOM
from backends.files.roots import Location, MemoryRoots, is_below
from backends.files.safe_open import MomentarilyUnreadableError, opened
from backends.interface import ReadAnswer, ReadRequest
from config.runtime.bounded import BoundedWork

MAX_TEXT_BYTES = 1024 * 1024
"""Of the file, in one answer; what is left out is named by `next_line`."""
MAX_SCANNED_BYTES = 256 * 1024 * 1024
"""How far into a file a line may be looked for."""
_BLOCK_BYTES = 256 * 1024
_SHOWN_CHARS = 200
READ_PATIENCE_S: Final = 10.0
"""How long a note is waited for, and as long for others that wait for a disk already."""
_AT_ONCE: Final = 8


class NoteReads:
    """Reads in threads, each of which is given up in time: a mount may hang."""

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
                remedy="See whether a network mount hangs, then try it again.",
            ) from None


def read_lines(roots: MemoryRoots, request: ReadRequest) -> ReadAnswer:
    """Read the requested lines of a permitted file of this agent.

    Without `first_line` and `line_count` (None or 0): the whole file as it is. Otherwise lines
    split at newlines, counted from 1; values below 1 mean 1; beyond the end the text is empty.
    Invalid UTF-8 is shown as U+FFFD and a byte-order mark is left out. `path` of the answer is
    relative to the workspace.

    Raises `PathNotAllowedError` for every path that is not memory or leads over a link, without
    telling which, and `FileUnreadableError` for a permitted file that cannot be read.
    """
    return read_located(_locations(roots, request.path), request)


def read_located(locations: Sequence[Location], request: ReadRequest) -> ReadAnswer:
    """Read the first of the places that holds a file; see `read_lines` for the rest."""
    absent: Location | None = None
    for location in locations:
        try:
            with opened(location) as descriptor:
                return read_blocks(location.path, _blocks(location.path, descriptor), request)
        except FileNotFoundError:
            absent = absent or location
        except PathNotAllowedError:
            continue
    if absent is None:
        raise PathNotAllowedError(_shown(request.path))
    return not_found(absent.path, request)


def not_found(path: str, request: ReadRequest) -> ReadAnswer:
    """The answer for a permitted path where nothing is."""
    return ReadAnswer(
        path=path,
        text="",
        status="not_found",
        first_line=max(1, request.first_line or 1),
        line_count=0,
    )


def _locations(roots: MemoryRoots, path: str) -> tuple[Location, ...]:
    """Where `path` may be, also when it names the workspace by its real path instead of a link."""
    found = roots.locate(path)
    if found:
        return found
    absolute, real = roots.absolute(path.strip()), os.path.realpath(roots.base)
    return roots.locate(os.path.relpath(absolute, real)) if is_below(absolute, real) else ()


def read_blocks(path: str, blocks: Iterator[bytes], request: ReadRequest) -> ReadAnswer:
    """Cut the requested lines out of a text, of which no more is taken than that needs."""
    first = max(1, request.first_line or 1)
    count = max(1, request.line_count) if request.line_count else None
    window = select_lines(blocks, first, count, MAX_TEXT_BYTES)
    return ReadAnswer(
        path=path,
        text=_text(window),
        status="ok",
        first_line=first,
        line_count=window.line_count,
        truncated=window.truncated,
        next_line=window.next_line,
    )


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


def _text(window: LineWindow) -> str:
    """Decode; where a line was cut, a character that was cut with it is left out."""
    return codecs.utf_8_decode(window.data, "replace", not window.cut_inside_line)[0]


def _shown(path: str) -> str:
    return path if len(path) <= _SHOWN_CHARS else path[:_SHOWN_CHARS] + "..."
