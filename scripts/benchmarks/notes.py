"""Seeded notes for benchmarks, of any size: daily logs with a Zipf vocabulary, and a vault as people have it."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Final

_SYLLABLES = "ba de fi go ku la me ni po ra se ti vo wa xe yo zu cha sho tre pli gra".split()


def vocabulary(size: int, seed: int = 7) -> list[str]:
    rng = random.Random(seed)
    words: dict[str, None] = {}
    while len(words) < size:
        words["".join(rng.choices(_SYLLABLES, k=rng.randint(1, 4)))] = None
    return list(words)


class NoteWriter:
    """Writes plausible notes: headings, bullets of 60 to 200 characters."""

    def __init__(self, words: int = 20_000, seed: int = 11) -> None:
        self._rng = random.Random(seed)
        self._words = vocabulary(words)
        self._weights = [1 / rank for rank in range(1, words + 1)]

    def sentence(self, count: int) -> str:
        return " ".join(self._rng.choices(self._words, self._weights, k=count)).capitalize() + "."

    def note(self, day: date, bullets: int) -> str:
        lines = [f"# {day.isoformat()}", ""]
        for number in range(bullets):
            if number % 12 == 0:
                lines += ["", f"## {8 + number // 12:02d}:00", ""]
            lines.append(f"- {self.sentence(self._rng.randint(10, 30))}")
        return "\n".join(lines) + "\n"

    def workspace(self, directory: Path, files: int, bullets: int) -> int:
        """Writes `files` notes below `directory/memory`; returns their bytes."""
        total = 0
        for number in range(files):
            day = date(2020, 1, 1) + timedelta(days=number)
            path = directory / "memory" / f"{day.year}" / f"{day.isoformat()}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            total += path.write_bytes(self.note(day, bullets).encode())
        return total


VAULT: Final = Path(__file__).resolve().parents[2] / "tests/data/vault/memory"
_NOTE_BYTES: Final = 4_600
_VARIED: Final = 1 / 12
_NUMBERS: Final = [str(number) for number in range(100)]
_WORD: Final = re.compile(r"[^\W\d_]{4,}")
_NUMBER: Final = re.compile(r"\d+")


class VaultWriter:
    """Writes notes from parts of the made-up vault: several languages, tables, lists and code, no two alike."""

    def __init__(self, *more: Path, seed: int = 13) -> None:
        """`more`: directories with other notes to take from."""
        self._rng = random.Random(seed)
        places = sorted(path for root in (VAULT, *more) for path in root.rglob("*.md"))
        self._texts = [path.read_text(encoding="utf-8") for path in places]

    def workspace(self, directory: Path, files: int) -> int:
        """Writes `files` notes below `directory/memory`; returns their bytes."""
        paragraphs = self._paragraphs()
        total = 0
        for number in range(files):
            note, size = [f"# {number}"], 0
            while size < _NOTE_BYTES:
                note.append(next(paragraphs))
                size += len(note[-1].encode())
            path = directory / "memory" / f"{number % 40}" / f"note {number}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            total += path.write_bytes("\n\n".join(note).encode())
        return total

    def _paragraphs(self) -> Iterator[str]:
        """Yields paragraphs without end; a twelfth of the words is exchanged within the note, and of the numbers."""
        for text in cycle(self._texts):
            words = _WORD.findall(text)
            for paragraph in text.split("\n\n"):
                varied = _WORD.sub(partial(self._vary, words), paragraph)
                yield _NUMBER.sub(partial(self._vary, _NUMBERS), varied)

    def _vary(self, others: Sequence[str], found: re.Match[str]) -> str:
        return self._rng.choice(others) if self._rng.random() < _VARIED else found[0]
