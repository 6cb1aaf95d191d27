"""Measures how much longer a search by keywords through the pipe takes if its question is longer.

Takes any directory of Markdown. The questions are words of its own lines, so each word is known; questions of every
length are asked in turn, and ratios are taken within one run.
"""

from __future__ import annotations

import argparse
import random
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final

import anyio
from rich.console import Console

from benchmarks.running import figures, timed
from gateway.client import SpawnedGateway, spawn_gateway

WORDS: Final = (8, 25, 50, 100, 200)
QUESTIONS: Final = 60
ROUNDS: Final = 5
_LEAST_WORDS: Final = 8
"""The fewest words of a line that questions are made of."""
_SEED: Final = 5


def questions(lines: Sequence[str], words: int) -> list[str]:
    """Makes questions of so many words each, from unrelated lines, as in a pasted prompt."""
    chance = random.Random(_SEED + words)
    made = []
    for _ in range(QUESTIONS):
        found: list[str] = []
        while len(found) < words:
            found += re.findall(r"[\w'-]+[.,?]?", chance.choice(lines))
        made.append(" ".join(found[:words]))
    return made


def lines_of(notes: Path) -> list[str]:
    texts = (path.read_text("utf-8", "replace") for path in sorted(notes.rglob("*.md")))
    return [
        line for text in texts for line in text.splitlines() if len(line.split()) >= _LEAST_WORDS
    ]


async def _round(client: SpawnedGateway, asked: Mapping[int, Sequence[str]]) -> dict[int, float]:
    """Asks all questions once; returns the median of each length, in milliseconds."""
    taken: dict[int, list[float]] = {words: [] for words in asked}
    for together in zip(*asked.values(), strict=True):
        for words, question in zip(asked, together, strict=True):
            _, milliseconds = await timed(client.call("memory_search", {"query": question}))
            taken[words].append(milliseconds)
    return {words: median(found) for words, found in taken.items()}


async def measure(notes: Path) -> None:
    lines = lines_of(notes)
    asked = {words: questions(lines, words) for words in WORDS}
    with tempfile.TemporaryDirectory() as state:
        arguments = ["--notes", str(notes), "--state-dir", state, "--log-level", "error"]
        async with spawn_gateway(arguments) as client:
            await client.call("sync", {}, timeout_s=600)
            chunks = (await client.call("status", {}))["chunks"]
            rounds = [await _round(client, asked) for _ in range(1 + ROUNDS)][1:]
    table = figures(
        f"Searches in {chunks:,} chunks", "words | p50 | to the shortest | of each round"
    )
    for words in WORDS:
        ratios = [one[words] / one[WORDS[0]] for one in rounds]
        milliseconds = median(one[words] for one in rounds)
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        table.add_row(str(words), f"{milliseconds:.1f} ms", f"{median(ratios):.2f}", spread)
    Console(width=100).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notes", type=Path, metavar="DIR")
    anyio.run(measure, parser.parse_args().notes)


if __name__ == "__main__":
    main()
