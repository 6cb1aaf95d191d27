"""The notes of one keeper, and the truth about them: which word stands in which file.

Every note holds a word of its own that stands nowhere else; an edit brings a new one. Nobody else
touches these files, so what a search has to find is known at any time.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Final

from benchmarks.notes import NoteWriter

FEWEST: Final = 20
MOST: Final = 60
MOST_LINES: Final = 80
_LETTERS: Final = "bcdfghjklmnpqrstvwxz"
_REMEMBERED: Final = 20


@dataclass(frozen=True)
class Note:
    path: str
    """Relative to the workspace."""
    word: str


class Notes:
    """All methods are plain file operations, as an editor or an agent does them."""

    def __init__(self, workspace: Path, name: str, seed: int) -> None:
        self.rng = Random(f"{name} {seed}")
        self.gone: deque[str] = deque(maxlen=_REMEMBERED)
        """Words that stand in no file any more."""
        self._workspace = workspace
        self._name = name
        self._writer = NoteWriter(words=3_000, seed=self.rng.randrange(1 << 30))
        self._words: dict[str, str] = {}
        self._made = 0
        for _ in range(FEWEST):
            self.create()

    def any(self) -> Note:
        path = self.rng.choice(sorted(self._words))
        return Note(path, self._words[path])

    def create(self) -> None:
        self._made += 1
        self._write(f"memory/{self._name}/{self._made % 7}/note-{self._made}.md")

    def edit(self) -> None:
        self._write(self.any().path)

    def append(self) -> None:
        """Grows a note at its end, until it is too long."""
        note = self.any()
        file = self._workspace / note.path
        if file.read_text("utf-8").count("\n") > MOST_LINES:
            self.edit()
            return
        with file.open("a", encoding="utf-8") as stream:
            stream.write(f"- {self._writer.sentence(12)}\n")

    def delete(self) -> None:
        note = self.any()
        (self._workspace / note.path).unlink()
        self._forget(note.path)

    def rename(self) -> None:
        note = self.any()
        self._made += 1
        path = f"memory/{self._name}/moved/note-{self._made}.md"
        (self._workspace / path).parent.mkdir(exist_ok=True)
        (self._workspace / note.path).rename(self._workspace / path)
        self._words[path] = self._words.pop(note.path)

    def grow_or_shrink(self) -> None:
        """Keeps the number of notes between its bounds."""
        grow = self.rng.random() < 0.5
        if len(self._words) >= MOST or (not grow and len(self._words) > FEWEST):
            self.delete()
        else:
            self.create()

    def text(self, path: str) -> str:
        return (self._workspace / path).read_text("utf-8")

    def _write(self, path: str) -> None:
        self._forget(path)
        word = "".join(self.rng.choices(_LETTERS, k=14))
        day = date(2024, 1, 1) + timedelta(days=self.rng.randrange(700))
        text = self._writer.note(day, self.rng.randint(3, 25)) + f"- Ask {word} about it.\n"
        file = self._workspace / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if self.rng.random() < 0.5:
            file.write_text(text, encoding="utf-8")
        else:
            draft = file.with_suffix(".tmp")
            draft.write_text(text, encoding="utf-8")
            draft.replace(file)
        self._words[path] = word

    def _forget(self, path: str) -> None:
        if path in self._words:
            self.gone.append(self._words.pop(path))
