"""The question sets of the recall benchmark, brought into one form.

Three kinds of data are read: LoCoMo conversations as workspaces, one page in five
languages, and the sample workspace that is part of this repository.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from gateway.sample import sample_workspace


class Evidence(NamedTuple):
    path: str
    first_line: int
    last_line: int
    text: str | None
    """None: the lines alone tell."""


class Question(NamedTuple):
    query: str
    group: str
    """Category or kind, for the table."""
    language: str
    evidence: tuple[Evidence, ...]


class Collection(NamedTuple):
    """One workspace and its questions."""

    name: str
    workspace: Path
    questions: tuple[Question, ...]


LOCOMO_CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}


def locomo(directory: Path) -> list[Collection]:
    return [
        Collection(
            workspace.name,
            workspace,
            tuple(
                Question(
                    entry["question"],
                    LOCOMO_CATEGORIES[entry["category"]],
                    "en",
                    tuple(
                        Evidence(one["path"], one["line"], one["line"], one["text"])
                        for one in entry["evidence"]
                    ),
                )
                for entry in _read(workspace / "questions.json")
            ),
        )
        for workspace in sorted(directory.glob("conv-*"))
    ]


def multilingual(directory: Path) -> list[Collection]:
    questions = tuple(
        Question(
            entry["query"],
            entry["kind"],
            entry["lang"],
            tuple(
                Evidence(one["path"], one["startLine"], one["endLine"], None)
                for one in entry["expected"]
            ),
        )
        for entry in _read(directory / "queries.json")
    )
    return [Collection("multilingual", directory / "workspace", questions)]


def hard(questions: Path) -> list[Collection]:
    """Questions about the sample workspace that share no content word with their answer; the half that is for
    `testing` took no part in any choice.
    """
    kinds = {entry["id"]: f"{entry['kind']}, {entry['half']}" for entry in _read(questions)}
    ((name, workspace, asked),) = sample(questions)
    named = zip(asked, kinds.values(), strict=True)
    return [Collection(name, workspace, tuple(one._replace(group=kind) for one, kind in named))]


def absent(questions: Path) -> list[Collection]:
    """Questions to which the sample workspace has no answer: their scores should be low."""
    asked = (Question(one["query"], "no answer", one["lang"], ()) for one in _read(questions))
    return [Collection("absent", sample_workspace(), tuple(asked))]


def elsewhere(collections: list[Collection]) -> list[Collection]:
    """The questions to each workspace, asked of the next one, where nobody of whom they speak is known."""
    following = [*collections[1:], *collections[:1]]
    return [
        Collection(other.name, other.workspace, tuple(one._replace(evidence=()) for one in asked))
        for (_, _, asked), other in zip(collections, following, strict=True)
    ]


def sample(questions: Path) -> list[Collection]:
    return [
        Collection(
            "sample",
            sample_workspace(),
            tuple(
                Question(
                    entry["query"],
                    entry["kind"],
                    entry["lang"],
                    tuple(
                        Evidence(one["path"], one["line"], one["line"], one["text"])
                        for one in entry["evidence"]
                    ),
                )
                for entry in _read(questions)
            ),
        )
    ]


def _read(path: Path) -> list[dict]:
    return json.loads(path.read_text(encoding="utf-8"))
