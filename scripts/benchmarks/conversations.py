"""Seeded transcripts for benchmarks: a user, an assistant, and the tools that fill most of the file."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.notes import NoteWriter

_VARIANTS = 400


class ConversationWriter:
    """Writes JSONL. One round is a question, some tool output, an answer."""

    def __init__(self, directory: Path, tool_bytes: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.path = directory / "4f1c2a9e-long.jsonl"
        self._tool_bytes = tool_bytes
        self._turns = 0
        notes = NoteWriter()
        self._questions = [notes.sentence(20) for _ in range(_VARIANTS)]
        self._answers = [" ".join(notes.sentence(20) for _ in range(5)) for _ in range(_VARIANTS)]
        self.path.write_text(json.dumps({"type": "session", "id": "long"}) + "\n", encoding="utf-8")

    def write(self, *, size: int | None = None, turns: int | None = None) -> None:
        """Appends rounds until the file has `size` bytes, or so many turns. Each turn is unique."""
        goal = None if turns is None else self._turns + turns
        with self.path.open("a", encoding="utf-8") as file:
            while file.tell() < (size or 0) or self._turns < (goal or 0):
                file.write(self._round())

    def _round(self) -> str:
        question = self._questions[self._turns % _VARIANTS]
        answer = self._answers[self._turns * 7 % _VARIANTS]
        self._turns += 2
        number = f"turn{self._turns:07d}"
        return (
            _line("user", f"{number} {question}")
            + _line("toolResult", "0123456789abcdef" * (self._tool_bytes // 16))
            + _line("assistant", f"{number} {answer}")
        )


def _line(role: str, text: str) -> str:
    content = [{"type": "text", "text": text}]
    return json.dumps({"type": "message", "message": {"role": role, "content": content}}) + "\n"
