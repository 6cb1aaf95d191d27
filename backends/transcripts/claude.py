"""The conversations of Claude Code: JSONL files below its projects, one directory a project.

They are named `sessions/claude-code@<project>@<session>.jsonl` here, and read as every other JSONL file;
no link is followed below the directory of the projects. Blocks; may be used by several threads at once.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Final

import msgspec

from backends.files.roots import Location, is_addressable
from backends.files.safe_open import may_pass
from backends.interface import SkippedFile
from backends.transcripts.jsonl import JsonlTranscripts
from backends.transcripts.source import (
    CLAUDE_PREFIX,
    SUFFIX,
    FoundTranscript,
    TranscriptListing,
    is_claude,
    look_at,
)
from backends.transcripts.turns import RENDERING_VERSION, joined, speaker_of, texts_of

_VERSION: Final = f"claude 1, {RENDERING_VERSION}"
_TURNS: Final = ("user", "assistant")
_NOT_SAID: Final = ("isSidechain", "isMeta", "isCompactSummary", "isApiErrorMessage")
"""Marks of entries that neither the user nor the assistant of this conversation said."""
_INSERTED: Final = re.compile(
    r"<(system-reminder|command-(?:name|message|args|contents)|local-command-(?:stdout|stderr|caveat)"
    r"|bash-(?:input|stdout|stderr)|ide_(?:opened_file|selection|diagnostics)|task-notification)>"
    r".*?(?:</\1>|\Z)",
    re.DOTALL,
)
"""What the program puts into the user's messages."""
_INTERRUPTED: Final = "[Request interrupted by user"


class ClaudeTranscripts(JsonlTranscripts):
    """The files of all projects. See `TranscriptSource`."""

    def listing(self) -> TranscriptListing:
        try:
            projects = sorted(
                entry.name for entry in os.scandir(self._directory) if _is_real(entry)
            )
        except (FileNotFoundError, NotADirectoryError):
            return TranscriptListing()
        except OSError as error:
            return TranscriptListing(failure=error.strerror or str(error), may_pass=may_pass(error))
        files: list[FoundTranscript] = []
        skipped: list[SkippedFile] = []
        try:
            for project in projects:
                self._list(project, files, skipped)
        except OSError as error:
            return TranscriptListing(failure=error.strerror or str(error), may_pass=may_pass(error))
        self._keep_counts(found.path for found in files)
        return TranscriptListing(tuple(files), tuple(skipped))

    def path_of(self, reference: str) -> str | None:
        """A session by its index path or by the path of its file."""
        reference = reference.strip()
        if is_claude(reference):
            return reference if reference.endswith(SUFFIX) else None
        parent, name = os.path.split(reference)
        above, project = os.path.split(parent)
        if not above or os.path.realpath(above) != os.path.realpath(self._directory):
            return None
        is_one = name.endswith(SUFFIX) and project and is_addressable(name)
        return f"{CLAUDE_PREFIX}{project}@{name}" if is_one else None

    def rendering(self, _path: str) -> str:
        return _VERSION

    def render(self, _path: str, line: bytes) -> str | None:
        return render_entry(line)

    def _location(self, path: str) -> Location:
        project, _, name = path.removeprefix(CLAUDE_PREFIX).rpartition("@")
        return Location(path=path, anchor=str(self._directory), names=(project, name))

    def _file(self, path: str) -> Path:
        return self._directory.joinpath(*self._location(path).names)

    def _list(self, project: str, files: list[FoundTranscript], skipped: list[SkippedFile]) -> None:
        try:
            entries = sorted(os.scandir(self._directory / project), key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return  # it vanished since it was listed
        for entry in entries:
            # What agents of a conversation did has files of its own.
            if not entry.name.endswith(SUFFIX) or entry.name.startswith("agent-"):
                continue
            found = look_at(entry, f"{CLAUDE_PREFIX}{project}@{entry.name}")
            if isinstance(found, FoundTranscript):
                files.append(found)
            elif found is not None:
                skipped.append(found)


def render_entry(line: bytes) -> str | None:
    """`User: ...` or `Assistant: ...` for an entry that is such a turn; None for every other one."""
    try:
        entry = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        entry = _decoded_leniently(line)
    if not isinstance(entry, dict) or entry.get("type") not in _TURNS:
        return None
    message = entry.get("message")
    if not isinstance(message, dict) or any(entry.get(mark) is True for mark in _NOT_SAID):
        return None
    speaker = speaker_of(message.get("role"))
    said = [_INSERTED.sub("", text) for text in texts_of(message.get("content"))]
    text = joined(one for one in said if not one.startswith(_INTERRUPTED))
    return f"{speaker}: {text}" if speaker and text else None


def _decoded_leniently(line: bytes) -> object:
    try:
        return json.loads(line.decode(errors="replace"))
    except (ValueError, RecursionError):
        return None


def _is_real(entry: os.DirEntry[str]) -> bool:
    return is_addressable(entry.name) and entry.is_dir(follow_symlinks=False)
