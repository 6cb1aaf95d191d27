"""Measures what short questions find, and what recall shows for them, in some forty languages and mixtures of scripts.

Each language has a small vault of its own in tests/data/languages, whose files are lines: `@@ language` begins a vault,
`== path` a file of it, whose text follows. `?? question | path | words` is a question, the file that answers it, and
words that only lines that answer contain; `?- question` has no answer there. All this was written before anything was
asked. SQLite's FTS5 is asked the same over the same chunks, any word of the question, by words without accents and by
trigrams.
"""

from __future__ import annotations

import argparse
import re
import sqlite3
import tempfile
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, Self

import anyio
from rich.console import Console
from rich.table import Table

from backends.chunking import chunk_markdown
from benchmarks.running import figures, home
from gateway.client import GatewayClient, spawn_gateway

DATA: Final = Path(__file__).resolve().parents[2] / "tests/data/languages"
FTS5: Final = {
    "FTS5, words": "unicode61 remove_diacritics 2",
    "FTS5, trigrams": "trigram",
}
"""The tokenizer of each of these systems."""
OURS: Final = "ours"
_PAGE: Final = 2000
_RESULTS: Final = 6
_DECOMPOSED: Final = "nfd.md"
"""The file that is written with its accents as characters of their own, as macOS writes names."""
_WORD: Final = re.compile(r"[^\s\"'.,:;?!¿¡؟。？！、，()`-]+")
_TRIGRAM: Final = 3


class Asked(NamedTuple):
    """A question; without an answer it has no path and no lines."""

    question: str
    path: str = ""
    lines: tuple[str, ...] = ()
    """The lines of the file that answer; one is enough."""


@dataclass
class Vault:
    """The notes in one language, or in a mixture, and what is asked of them."""

    language: str
    files: dict[str, str] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)

    def take(self, line: str) -> None:
        """Takes a line of the data: of a file, or one that asks."""
        kind, _, rest = line.partition(" ")
        if kind == "==":
            self.files[rest] = ""
        elif kind == "??":
            question, path, words = rest.split(" | ")
            lines = [one for one in self.files[path].split("\n") if words in one]
            self.asked.append(Asked(question, path, tuple(lines)))
        elif kind == "?-":
            self.asked.append(Asked(rest))
        else:
            self.files[list(self.files)[-1]] += f"{line}\n"

    def write(self, place: Path) -> None:
        for path, text in self.files.items():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_text(_as_written(path, text), encoding="utf-8")


def _as_written(path: str, text: str) -> str:
    return unicodedata.normalize("NFD", text) if path == _DECOMPOSED else text


def vaults(data: Path = DATA) -> list[Vault]:
    """Reads the files of the data, whose form the docstring above describes."""
    read: list[Vault] = []
    for file in sorted(data.glob("*.txt")):
        for line in file.read_text(encoding="utf-8").splitlines():
            if line.startswith("@@ "):
                read.append(Vault(line.removeprefix("@@ ")))
            else:
                read[-1].take(line)
    return read


class Found(NamedTuple):
    """Whether the right note is the first, and whether a line that answers is on the page."""

    first: bool
    shown: bool

    @classmethod
    def of(cls, asked: Asked, results: Sequence[tuple[str, str]]) -> Self:
        """Looks through `results`, which are paths and texts, as far as the page holds them."""
        room, shown = _PAGE, False
        for path, text in results:
            shown |= path == asked.path and _answers(asked, text[: max(0, room)])
            room -= len(text)
        return cls(results[0][0] == asked.path if results else False, shown)


def _answers(asked: Asked, text: str) -> bool:
    return any(_squeezed(line) in _squeezed(text) for line in asked.lines)


def _squeezed(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())


@dataclass
class Counts:
    """What was counted in one vault, or in all of them."""

    questions: int = 0
    first: dict[str, int] = field(default_factory=lambda: dict.fromkeys([OURS, *FTS5], 0))
    """The questions whose right note is the first result, by system."""
    shown: dict[str, int] = field(default_factory=lambda: dict.fromkeys([OURS, *FTS5], 0))
    """Those with a line that answers on the page, by system."""
    recalled: int = 0
    """The questions for which recall shows a line that answers."""
    absent: int = 0
    """The questions without an answer."""
    likely: int = 0
    """Those of them that have a likely result."""
    disturbed: int = 0
    """Those of them for which recall shows anything."""

    def count(self, system: str, found: Found) -> None:
        self.first[system] += found.first
        self.shown[system] += found.shown

    def add(self, other: Counts) -> None:
        for name in ("questions", "recalled", "absent", "likely", "disturbed"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for system in self.first:
            self.first[system] += other.first[system]
            self.shown[system] += other.shown[system]

    def row(self) -> Iterator[str]:
        yield str(self.questions)
        for system in self.first:
            yield f"{self.first[system]} / {self.shown[system]}"
        for number in (self.recalled, self.absent, self.likely, self.disturbed):
            yield str(number)


async def measure(vault: Vault) -> Counts:
    """Asks a gateway of its own and FTS5 all questions of a vault."""
    counts = Counts()
    with tempfile.TemporaryDirectory() as place:
        notes = Path(place) / "notes"
        vault.write(notes)
        async with spawn_gateway(home(Path(place) / "state", notes, extraPaths=["."])) as client:
            await client.call("sync", {}, timeout_s=60)
            for number, asked in enumerate(vault.asked):
                await _by_gateway(client, asked, f"agent:main:{number}", counts)
    for system, tokenizer in FTS5.items():
        by_fts5(vault, system, tokenizer, counts)
    return counts


async def _by_gateway(client: GatewayClient, asked: Asked, session: str, counts: Counts) -> None:
    search = {"query": asked.question, "maxResults": _RESULTS}
    results = (await client.call("memory_search", search, timeout_s=60))["results"]
    prompt = {"prompt": asked.question, "sessionKey": session}
    recalled = (await client.call("recall", prompt, timeout_s=60)).get("text", "")
    if asked.path:
        hits = [(one["path"], one["snippet"]) for one in results]
        counts.questions += 1
        counts.count(OURS, Found.of(asked, hits))
        counts.recalled += _answers(asked, recalled)
    else:
        counts.absent += 1
        counts.likely += any(one["confidence"] == "likely" for one in results)
        counts.disturbed += bool(recalled)


def by_fts5(vault: Vault, system: str, tokenizer: str, counts: Counts) -> None:
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(
            f"CREATE VIRTUAL TABLE pieces USING fts5(path UNINDEXED, text, tokenize = '{tokenizer}')"
        )
        for path, text in vault.files.items():
            written = _as_written(path, text)
            pieces = [(path, written[one.start : one.end]) for one in chunk_markdown(written)]
            database.executemany("INSERT INTO pieces VALUES (?, ?)", pieces)
        statement = (
            f"SELECT path, text FROM pieces WHERE pieces MATCH ? ORDER BY rank LIMIT {_RESULTS}"
        )
        least = _TRIGRAM if tokenizer == "trigram" else 1
        for asked in filter(lambda one: one.path, vault.asked):
            words = [word for word in _WORD.findall(asked.question) if len(word) >= least]
            query = " OR ".join(f'"{word}"' for word in words)
            rows = database.execute(statement, (query,)).fetchall() if words else []
            counts.count(system, Found.of(asked, rows))


async def run(asked_for: Sequence[Vault]) -> Table:
    """Measures vault after vault; `first / shown` below each system."""
    table = figures(
        "In many languages: right note first / line that answers within 2,000 characters",
        " | n",
        *(OURS, *FTS5, "recall shows it", "without answer", "likely", "shown anything"),
    )
    total = Counts()
    for vault in asked_for:
        counts = await measure(vault)
        table.add_row(vault.language, *counts.row())
        total.add(counts)
    table.add_section()
    table.add_row("all", *total.row())
    return table


def main() -> None:
    known = vaults()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "languages",
        nargs="*",
        help=f"all by default; of {', '.join(vault.language for vault in known)}",
    )
    given = parser.parse_args().languages
    chosen = [vault for vault in known if not given or vault.language in given]
    if unknown := set(given) - {vault.language for vault in chosen}:
        parser.error(f"there are no notes in {', '.join(sorted(unknown))}")
    Console(width=140).print(anyio.run(run, chosen))


if __name__ == "__main__":
    main()
