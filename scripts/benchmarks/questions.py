"""The question sets of the recall benchmark, brought into one form.

They are read from directories of workspaces (LoCoMo, REALTALK, RealMem, BEAM), a workspace in five languages, and the
sample workspace and the vault, which are part of this repository.
"""

from __future__ import annotations

import json
import random
import re
import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from gateway.sample import sample_workspace


class Evidence(NamedTuple):
    path: str
    first_line: int
    last_line: int
    text: str | None
    """None: the lines alone are the evidence."""
    passage: str = ""
    """The content of these lines, if there is no `text`."""


class Question(NamedTuple):
    query: str
    group: str
    """Category or kind, for the table."""
    language: str
    evidence: tuple[Evidence, ...]
    before: str | None = None
    """Only notes dated earlier than this day may answer."""

    def with_slip(self, rng: random.Random) -> Question:
        """Returns it with a slip of the pen in one of its words: a letter left out, added or changed, or two that
        changed places, neither the first nor the last. Without a word of five letters it is as it was.
        """
        words = [match for match in _LONG_WORD.finditer(self.query) if match[0].isalpha()]
        if not words:
            return self
        chosen = rng.choice(words)
        word, at, letter = chosen[0], rng.randrange(1, len(chosen[0]) - 2), rng.choice(_LETTERS)
        slip = rng.choice(
            (
                word[:at] + word[at + 1 :],
                word[:at] + letter + word[at:],
                word[:at] + letter + word[at + 1 :],
                word[:at] + word[at + 1] + word[at] + word[at + 2 :],
            )
        )
        query = self.query[: chosen.start()] + slip + self.query[chosen.end() :]
        return self._replace(query=query)


_LONG_WORD: Final = re.compile(r"\w{5,}")
_LETTERS: Final = string.ascii_lowercase


class Collection(NamedTuple):
    """One workspace and its questions."""

    name: str
    workspace: Path
    questions: tuple[Question, ...]


LOCOMO_CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
REALTALK_CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "commonsense"}


def conversations(directory: Path, categories: Mapping[int, str] | None = None) -> list[Collection]:
    """Returns one collection for each `conv-*/`, a workspace with a `questions.json`."""
    return [workspace(one, categories) for one in sorted(directory.glob("conv-*"))]


def workspace(directory: Path, categories: Mapping[int, str] | None = None) -> Collection:
    """Returns the workspace and the questions of its `questions.json`; `categories` name those that are numbers."""
    asked = (
        Question(
            entry["question"],
            categories[entry["category"]] if categories else entry["category"],
            entry.get("lang", "en"),
            tuple(_line(one) for one in entry["evidence"]),
            entry.get("before"),
        )
        for entry in _read(directory / "questions.json")
    )
    return Collection(directory.name, directory, tuple(asked))


def locomo(directory: Path) -> list[Collection]:
    return conversations(directory, LOCOMO_CATEGORIES)


def multilingual(directory: Path) -> list[Collection]:
    questions = tuple(
        Question(
            entry["query"],
            entry["kind"],
            entry["lang"],
            tuple(_lines(directory / "workspace", one) for one in entry["expected"]),
        )
        for entry in _read(directory / "queries.json")
    )
    return [Collection("multilingual", directory / "workspace", questions)]


def hard(questions: Path) -> list[Collection]:
    """Returns questions about the sample workspace that share no content word with their answer.

    The half for `testing` was not used in any decision.
    """
    kinds = {entry["id"]: f"{entry['kind']}, {entry['half']}" for entry in _read(questions)}
    ((name, workspace, asked),) = sample(questions)
    named = zip(asked, kinds.values(), strict=True)
    return [Collection(name, workspace, tuple(one._replace(group=kind) for one, kind in named))]


def absent(questions: Path) -> list[Collection]:
    """Returns questions to which the sample workspace has no answer: their scores should be low."""
    asked = (Question(one["query"], "no answer", one["lang"], ()) for one in _read(questions))
    return [Collection("absent", sample_workspace(), tuple(asked))]


def elsewhere(collections: list[Collection]) -> list[Collection]:
    """Returns the questions to each workspace as questions to the next one, which knows nobody that they mention."""
    following = [*collections[1:], *collections[:1]]
    return [
        Collection(other.name, other.workspace, tuple(one._replace(evidence=()) for one in asked))
        for (_, _, asked), other in zip(collections, following, strict=True)
    ]


def sample(questions: Path) -> list[Collection]:
    asked = (
        Question(
            entry["query"],
            entry["kind"],
            entry["lang"],
            tuple(_line(one) for one in entry["evidence"]),
        )
        for entry in _read(questions)
    )
    return [Collection("sample", sample_workspace(), tuple(asked))]


def _line(entry: dict[str, Any]) -> Evidence:
    return Evidence(entry["path"], entry["line"], entry["line"], entry["text"])


def _lines(workspace: Path, entry: dict[str, Any]) -> Evidence:
    """Returns evidence of several lines: it is shown if any of them is."""
    path, first, last = entry["path"], entry["startLine"], entry["endLine"]
    lines = (workspace / path).read_text(encoding="utf-8").split("\n")
    return Evidence(path, first, last, None, "\n".join(lines[first - 1 : last]))


def _read(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return found
