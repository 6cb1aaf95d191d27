"""Measures how often sections, notes and texts below list items are found by name, in each way to write it.

Takes any directory of Markdown. Asks for sections by their headings, in the notes as they are, with all headings
written in another form, and with those that are asked for taken out; for notes by their titles, which become their
file names, folders, front matter or first lines; and for the first paragraphs of sections, in lists below items with
the sections' names. Evidence is the first paragraph below a name: its first 80 characters have to be on the page of
six results. SQLite's FTS5 (Porter stems, any word, pieces of 700 characters) is asked the same.
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
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import groupby
from operator import attrgetter
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
"""The fewest words of a name, without stop words."""
_LEAST_EVIDENCE: Final = 60
_OF_A_NOTE: Final = 4
"""The most sections that are asked for of one note."""
_RESULTS: Final = 6
_COMPARED: Final = 80
_SEED: Final = 7
_IN_A_LIST: Final = 40
_ASKED_ITEMS: Final = 3
"""One of so many items is asked for."""
_HEADING: Final = re.compile(r"(#{1,4})\s+(.*)")
_FRONT_MATTER: Final = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_MARKUP: Final = re.compile(r"\{.*?\}|[`*_\[\]]|\(.*?\)")


class Named(NamedTuple):
    """A name that is asked for, and the line that answers."""

    name: str
    path: str
    evidence: str


HEADINGS: Final[Mapping[str, Callable[[int, str], str]]] = {
    "headings": lambda level, name: f"{'#' * level} {name}",
    "underlined": lambda level, name: f"{name}\n{('=' if level == 1 else '-') * len(name)}",
    "in HTML": lambda level, name: f"<h{level}>{name}</h{level}>",
    "in bold": lambda _, name: f"**{name}**",
    "in capitals": lambda _, name: name.upper(),
    "with a colon": lambda _, name: f"{name}:",
}
"""The forms in which a heading of a level may be written."""


def sections(
    notes: Path, target: Path, form: str = "headings", *, without: bool = False
) -> list[Named]:
    """Copies the notes with their headings in a form; `without`: those that are asked for are taken out."""
    chance = random.Random(_SEED)
    asked = []
    for path, text in _texts(notes):
        lines = text.split("\n")
        found = list(_headings_of(lines))
        suitable = [one for one in found if one.answer]
        chosen = chance.sample(suitable, min(len(suitable), _OF_A_NOTE))
        asked += [Named(one.name, f"memory/{path}", one.answer) for one in chosen]
        for one in found:
            name = "Section" if without and one in chosen else one.name
            lines[one.number] = HEADINGS[form](one.level, name)
        _write(target / "memory" / path, "\n".join(lines))
    return asked


class _Heading(NamedTuple):
    number: int
    """The number of its line, from 0."""
    level: int
    name: str
    answer: str
    """The first line below it, if its name has enough words and the line is a paragraph; else empty."""


def _headings_of(lines: list[str]) -> Iterator[_Heading]:
    in_code = False
    for number, line in enumerate(lines):
        in_code ^= line.lstrip().startswith("```")
        match = None if in_code else _HEADING.match(line)
        if match and (name := _plain(match[2])):
            below = next((one for one in lines[number + 1 :] if one.strip()), "")
            level = len(match[1])
            is_asked = level > 1 and _has_words(name) and _answers(below)
            yield _Heading(number, level, name, below if is_asked else "")


FORMS: Final[Mapping[str, Callable[[int, str, str], tuple[str, str]]]] = {
    "as file name": lambda _, title, text: (f"{title}.md", text),
    "as dated file name": lambda number, title, text: (
        f"2026-01-{number % 28 + 1:02}-{_slug(title)}.md",
        text,
    ),
    "as folder": lambda _, title, text: (f"{_slug(title)}/index.md", text),
    "in front matter": lambda number, title, text: (
        f"{number}.md",
        f"---\ntitle: {json.dumps(title)}\n---\n{text}",
    ),
    "as heading": lambda number, title, text: (f"{number}.md", f"# {title}\n\n{text.lstrip()}"),
    "as first line": lambda number, title, text: (f"{number}.md", f"{title}\n\n{text.lstrip()}"),
}
"""The path and the text of a note with this number, title and text, by the place of its title."""


def titles(notes: Path, target: Path, form: str = "as file name") -> list[Named]:
    """Copies the notes that have a title of their own, which is then in one place alone."""
    texts = [(path, text, _title(text)) for path, text in _texts(notes)]
    often = Counter(title for _, _, title in texts)
    asked = []
    for number, (path, text, title) in enumerate(texts):
        evidence = next(filter(_answers, text.split("\n")), "")
        if often[title] == 1 and _has_words(title) and evidence:
            body = re.sub(r"^# .*\n", "", _FRONT_MATTER.sub("", text), count=1, flags=re.MULTILINE)
            name, written = FORMS[form](number, title, body)
            place = path.parent / name
            asked.append(Named(title, f"memory/{place}", evidence))
            _write(target / "memory" / place, written)
    return asked


def items(notes: Path, target: Path) -> list[Named]:
    """Writes the first paragraphs of sections into lists of forty, each below an item with its section's name."""
    entries = {
        one.name: one.answer
        for _, text in _texts(notes)
        for one in _headings_of(text.split("\n"))
        if one.answer
    }
    asked = [
        Named(name, f"memory/list {number // _IN_A_LIST}.md", answer)
        for number, (name, answer) in enumerate(sorted(entries.items()))
    ]
    for path, listed in groupby(asked, key=attrgetter("path")):
        _write(target / path, "".join(f"- {one.name}\n  - {one.evidence}\n" for one in listed))
    return asked[::_ASKED_ITEMS]


def _title(text: str) -> str:
    match = re.search(r"^# (.+)", text, re.MULTILINE)
    return _plain(match[1]).replace("/", " ") if match else ""


def _texts(notes: Path) -> Iterator[tuple[Path, str]]:
    for file in sorted(notes.rglob("*.md")):
        yield file.relative_to(notes), file.read_text(encoding="utf-8", errors="replace")


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def _slug(title: str) -> str:
    return re.sub(r"\W+", "-", title.lower()).strip("-")


def _plain(name: str) -> str:
    return " ".join(_MARKUP.sub("", name).split())


def _has_words(name: str) -> bool:
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
        """Finds the places in `results`, which are paths and texts."""
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
        **{f"sections, {form}": partial(sections, notes, form=form) for form in HEADINGS},
        "sections, heading taken out": partial(sections, notes, without=True),
        **{f"notes, title {form}": partial(titles, notes, form=form) for form in FORMS},
        "below an item of a list": partial(items, notes),
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
