"""Reading a conversation out of the host's database: one turn a line, secrets masked.

Owns which paths mean such a conversation. The lines are those of a search's hits, so that what was found
can be read on. A JSONL file is not read so: its lines hold what the index does not. Blocks.
"""

from __future__ import annotations

from collections.abc import Iterator

from backends.errors import FileUnreadableError
from backends.files.get import MAX_SCANNED_BYTES, not_found, read_blocks
from backends.files.roots import MARKDOWN_SUFFIX
from backends.interface import ReadAnswer, ReadRequest
from backends.transcripts.listing import PREFIX, is_file
from backends.transcripts.source import BEGINNING, OpenTranscript, TranscriptSource

_STEP_BYTES = 256 * 1024


def is_conversation(path: str) -> bool:
    """Whether a path names a session of the host's database, which need not exist."""
    path = path.strip()
    name = path.removeprefix(PREFIX)
    named = path.startswith(PREFIX) and name and "/" not in name
    return bool(named) and not is_file(path) and not path.endswith(MARKDOWN_SUFFIX)


def read_conversation(transcripts: TranscriptSource, request: ReadRequest) -> ReadAnswer:
    """The lines asked for. Raises FileUnreadableError."""
    path = request.path.strip()
    try:
        with transcripts.open(path, None) as opened:
            return read_blocks(path, _rendered(transcripts, opened), request)
    except FileNotFoundError:
        return not_found(path, request)


def _rendered(transcripts: TranscriptSource, opened: OpenTranscript) -> Iterator[bytes]:
    path, place, is_last, newline = opened.found.path, BEGINNING, False, ""
    while not is_last:
        entries = opened.read(place, place.byte + _STEP_BYTES)
        for line in entries.lines:
            turn = transcripts.render(path, line) if line is not None else None
            if turn is not None:
                yield f"{newline}{turn}".encode()
                newline = "\n"
        place, is_last = entries.end, entries.is_last
        if place.byte > MAX_SCANNED_BYTES:
            raise FileUnreadableError(
                f"{path!r} has no such line in its first {MAX_SCANNED_BYTES // 2**20} MiB.",
                remedy="Ask for an earlier line.",
            )
