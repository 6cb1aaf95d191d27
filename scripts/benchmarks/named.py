"""Whether a section, and a note, is found by its name: by its heading, by its file name, and without either.

Takes any directory of Markdown. Asks for sections by their headings, in the notes as they are and with these headings
taken out, and for notes by their titles, which are made their file names, or the titles of their front matter.
Evidence is the first paragraph below, its first 80 characters on the page of six results. Beside it SQLite's FTS5 (porter stems, any word, pieces of 700
characters).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import anyio
from rich.console import Console
from rich.table import Table

from backends.text.analyser import every_stop_word
from benchmarks.peers import chunks
from benchmarks.running import home
from gateway.client import spawn_gateway

_LEAST_WORDS: Final = 2
"""Of a name, stop words aside."""
_LEAST_EVIDENCE: Final = 60
_OF_A_NOTE: Final = 4
"""The most sections that are asked for of one note."""
_RESULTS: Final = 6
_COMPARED: Final = 80
_SEED: Final = 7
_HEADING: Final = re.compile(r"(#{2,4})\s+(.*)")
_FRONT_MATTER: Final = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_MARKUP: Final = re.compile(r"\{.*?\}|[`*_\[\]]|\(.*?\)")


class Named(NamedTuple):
    """A name that is asked for, and the line that answers."""

    name: str
    path: str
    evidence: str


def sections(notes: Path, target: Path, *, keep: bool) -> list[Named]:
    """Copies the notes, without the headings that are asked for unless these are to `keep`."""
    chance = random.Random(_SEED)
    asked = []
    for path, text in _texts(notes):
        lines = text.split("\n")
        found = list(_sections_of(lines))
        for number, name, evidence in chance.sample(found, min(len(found), _OF_A_NOTE)):
            asked.append(Named(name, f"memory/{path}", evidence))
            if not keep:
                lines[number] = lines[number].partition(" ")[0] + " Section"
        _write(target / "memory" / path, "\n".join(lines))
    return asked


def _sections_of(lines: list[str]) -> Iterator[tuple[int, str, str]]:
    in_code = False
    for number, line in enumerate(lines):
        in_code ^= line.lstrip().startswith("```")
        match = None if in_code else _HEADING.match(line)
        below = next((one for one in lines[number + 1 :] if one.strip()), "")
        if match and _tells(name := _plain(match[2])) and _answers(below):
            yield number, name, below


def titles(notes: Path, target: Path, *, in_front: bool) -> list[Named]:
    """Copies the notes that have a title of their own, without it, into files of that name or, `in_front`, into
    numbered ones whose front matter has it.
    """
    texts = [(path, text, _title(text)) for path, text in _texts(notes)]
    often = Counter(title for _, _, title in texts)
    asked = []
    for number, (path, text, title) in enumerate(texts):
        evidence = next(filter(_answers, text.split("\n")), "")
        if often[title] == 1 and _tells(title) and evidence:
            place = path.with_name(f"{number if in_front else title}.md")
            asked.append(Named(title, f"memory/{place}", evidence))
            body = re.sub(r"^# .*\n", "", text, count=1, flags=re.MULTILINE)
            if in_front:
                body = f"---\ntitle: {json.dumps(title)}\n---\n{_FRONT_MATTER.sub('', body)}"
            _write(target / "memory" / place, body)
    return asked


def _title(text: str) -> str:
    match = re.search(r"^# (.+)", text, re.MULTILINE)
    return _plain(match[1]).replace("/", " ") if match else ""


def _texts(notes: Path) -> Iterator[tuple[Path, str]]:
    for file in sorted(notes.rglob("*.md")):
        yield file.relative_to(notes), file.read_text(encoding="utf-8", errors="replace")


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def _plain(name: str) -> str:
    return " ".join(_MARKUP.sub("", name).split())


def _tells(name: str) -> bool:
    words = re.findall(r"\w{3,}", name.casefold())
    return len([word for word in words if word not in every_stop_word()]) >= _LEAST_WORDS


def _answers(line: str) -> bool:
    return len(line) >= _LEAST_EVIDENCE and line[0].isupper()


class Found(NamedTuple):
    """The places among the results, from 0, of the evidence and of its note."""

    evidence: int | None
    note: int | None

    @classmethod
    def of(cls, one: Named, results: list[tuple[str, str]]) -> Found:
        """`results`: paths and texts."""
        wanted = _squeezed(one.evidence)[:_COMPARED]
        notes = [path == one.path for path, _ in results]
        lines = [
            is_it and wanted in _squeezed(text)
            for is_it, (_, text) in zip(notes, results, strict=True)
        ]
        return cls(
            lines.index(True) if any(lines) else None, notes.index(True) if any(notes) else None
        )


def _squeezed(text: str) -> str:
    return " ".join(text.split())


async def by_gateway(workspace: Path, asked: list[Named]) -> list[Found]:
    with tempfile.TemporaryDirectory() as state:
        arguments = home(Path(state), workspace)
        async with spawn_gateway(arguments, environment=dict(os.environ)) as client:
            await client.call("sync", {}, timeout_s=600)
            found = []
            for one in asked:
                answer = await client.call("memory_search", {"query": one.name}, timeout_s=60)
                hits = [(hit["path"], hit["snippet"]) for hit in answer["results"]]
                found.append(Found.of(one, hits))
            return found


def by_fts5(workspace: Path, asked: list[Named]) -> list[Found]:
    database = sqlite3.connect(":memory:")
    database.execute(
        "CREATE VIRTUAL TABLE pieces USING fts5(path UNINDEXED, text, tokenize = 'porter')"
    )
    for path, text in _texts(workspace):
        database.executemany(
            "INSERT INTO pieces VALUES (?, ?)", [(str(path), one) for one in chunks(text)]
        )
    statement = f"SELECT path, text FROM pieces WHERE pieces MATCH ? ORDER BY rank LIMIT {_RESULTS}"
    found = []
    for one in asked:
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", one.name))
        found.append(Found.of(one, database.execute(statement, (words,)).fetchall()))
    return found


async def run(notes: Path) -> None:
    table = Table(title="Asked for by name")
    for column in ("", "n", "system", "evidence shown", "first", "note shown", "first"):
        table.add_column(column, justify="left" if column in ("", "system") else "right")
    kinds: dict[str, Callable[[Path], list[Named]]] = {
        "sections, by heading": lambda target: sections(notes, target, keep=True),
        "sections, heading taken out": lambda target: sections(notes, target, keep=False),
        "notes, by file name": lambda target: titles(notes, target, in_front=False),
        "notes, by title in front matter": lambda target: titles(notes, target, in_front=True),
    }
    for kind, prepare in kinds.items():
        with tempfile.TemporaryDirectory() as workspace:
            asked = prepare(Path(workspace))
            if not asked:
                continue
            for system, found in (
                ("ours, keywords", await by_gateway(Path(workspace), asked)),
                ("FTS5", by_fts5(Path(workspace), asked)),
            ):
                places = [[one.evidence for one in found], [one.note for one in found]]
                shares = [
                    f"{sum(map(is_it, column)) / len(asked):.3f}"
                    for column in places
                    for is_it in (lambda at: at is not None, lambda at: at == 0)
                ]
                table.add_row(kind, str(len(asked)), system, *shares)
    Console(width=120).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notes", type=Path, help="directory of Markdown, with its own below it")
    anyio.run(run, parser.parse_args().notes)


if __name__ == "__main__":
    main()
