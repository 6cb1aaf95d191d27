"""All transcripts of one agent, from files and from the host's database, and reading one as a conversation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from backends.files.reading import MAX_SCANNED_BYTES, not_found, read_blocks
from backends.files.roots import MARKDOWN_SUFFIX
from backends.files.safe_open import RefusedFileError
from backends.interface import FileUnreadableError, ReadAnswer, ReadRequest
from backends.transcripts.source import (
    BEGINNING,
    PREFIX,
    FoundTranscript,
    OpenTranscript,
    Position,
    Taken,
    TranscriptListing,
    TranscriptSource,
    id_of,
    is_claude,
    is_jsonl,
)
from config.settings import Settings

if TYPE_CHECKING:
    from backends.transcripts.host_database import HostTranscripts
    from backends.transcripts.jsonl import ClaudeTranscripts, JsonlTranscripts


class AgentTranscripts:
    """See `TranscriptSource`."""

    def __init__(
        self,
        sessions_dir: Path,
        state_dir: Path,
        agent_id: str,
        claude_projects: Path | None = None,
    ) -> None:
        self._sessions_dir = sessions_dir
        self._state_dir = state_dir
        self._agent_id = agent_id
        self._claude_projects = claude_projects
        self._ids: frozenset[str] = frozenset()
        """The ids last seen in the database, which may be locked for a moment."""

    @classmethod
    def of(cls, settings: Settings) -> AgentTranscripts:
        return cls(
            settings.sessions_dir, settings.state_dir, settings.agent_id, settings.claude_projects
        )

    # Most agents index no transcripts: the modules that read them are imported on first use.
    @cached_property
    def _files(self) -> JsonlTranscripts:
        from backends.transcripts.jsonl import JsonlTranscripts  # noqa: PLC0415

        return JsonlTranscripts(self._sessions_dir)

    @cached_property
    def _database(self) -> HostTranscripts:
        from backends.transcripts.host_database import HostTranscripts  # noqa: PLC0415

        return HostTranscripts(self._state_dir, self._agent_id)

    @cached_property
    def _claude(self) -> ClaudeTranscripts | None:
        if self._claude_projects is None:
            return None
        from backends.transcripts.jsonl import ClaudeTranscripts  # noqa: PLC0415

        return ClaudeTranscripts(self._claude_projects)

    def listing(self) -> TranscriptListing:
        files, sessions = self._files.listing(), self._database.listing()
        claude = self._claude.listing() if self._claude is not None else None
        database = sessions.database
        if database is None or database.failure is None:
            self._ids = database.ids if database is not None else frozenset()
        return replace(
            files,
            files=(
                *(found for found in files.files if id_of(found.path) not in self._ids),
                *sessions.files,
                *(claude.files if claude else ()),
            ),
            skipped=(*files.skipped, *sessions.skipped, *(claude.skipped if claude else ())),
            database=database,
            claude=claude,
        )

    def measured(
        self, found: Sequence[FoundTranscript], taken: Mapping[str, Taken]
    ) -> tuple[FoundTranscript, ...]:
        sessions = [one for one in found if not is_jsonl(one.path)]
        if not sessions:
            return tuple(found)
        sized = iter(self._database.measured(sessions, taken))
        return tuple(one if is_jsonl(one.path) else next(sized) for one in found)

    def entries_beyond(self, found: FoundTranscript, end: Position) -> int:
        return self._of(found.path).entries_beyond(found, end)

    def open(self, path: str, taken: Taken | None) -> AbstractContextManager[OpenTranscript]:
        return self._of(path).open(path, taken)

    def is_gone(self, path: str) -> bool:
        return self._of(path).is_gone(path)

    def path_of(self, reference: str) -> str | None:
        if self._claude is not None and (path := self._claude.path_of(reference)):
            return path
        path = self._files.path_of(reference)
        return path and (self._database.path_of(id_of(path)) or path)

    def rendering(self, path: str) -> str:
        return self._of(path).rendering(path)

    def render(self, path: str, line: bytes) -> str | None:
        return self._of(path).render(path, line)

    def _of(self, path: str) -> TranscriptSource:
        if self._claude is not None and is_claude(path):
            return self._claude
        return self._files if is_jsonl(path) else self._database


_STEP_BYTES = 256 * 1024


def is_conversation(path: str) -> bool:
    """Returns whether a path names a session of the host's database, which need not exist."""
    path = path.strip()
    name = path.removeprefix(PREFIX)
    named = path.startswith(PREFIX) and name and "/" not in name
    return bool(named) and not is_jsonl(path) and not path.endswith(MARKDOWN_SUFFIX)


def read_conversation(transcripts: TranscriptSource, request: ReadRequest) -> ReadAnswer:
    """Returns the requested lines. Raises FileUnreadableError."""
    path = request.path.strip()
    try:
        with transcripts.open(path, None) as opened:
            return read_blocks(path, _rendered(transcripts, opened), request)
    except FileNotFoundError:
        return not_found(path, request)
    except RefusedFileError as error:
        raise FileUnreadableError(
            f"{path!r} cannot be read: the host's database is refused ({error.reason}).",
            remedy="`memory-gateway doctor` says more.",
        ) from None


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
