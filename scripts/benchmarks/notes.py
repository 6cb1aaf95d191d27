"""Seeded notes for benchmarks: daily logs with a Zipf vocabulary, as large as wanted."""

from __future__ import annotations

import random
from datetime import date, timedelta
from pathlib import Path

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
