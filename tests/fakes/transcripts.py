"""Conversations as a chat gateway writes them: one JSON object per line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class Transcript:
    """One JSONL file. Lines count from 1; the header is line 1."""

    def __init__(self, directory: Path, name: str = "0a1b2c3d") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.path = directory / f"{name}.jsonl"
        self.lines = 0
        self.add({"type": "session", "version": 3, "id": name, "cwd": "/w"})

    def add(self, entry: dict[str, Any]) -> int:
        """Appends an entry; returns the number of its line."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")
        self.lines += 1
        return self.lines

    def say(self, text: str, role: str = "user") -> int:
        content = [{"type": "text", "text": text}]
        return self.add({"type": "message", "message": {"role": role, "content": content}})

    def answer(self, text: str) -> int:
        return self.say(text, "assistant")

    def work(self, output: str) -> int:
        """Adds the output of a tool, which is no turn."""
        return self.say(output, "toolResult")

    def half(self, text: str) -> None:
        """Adds the beginning of a line that is still being written."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(text)
