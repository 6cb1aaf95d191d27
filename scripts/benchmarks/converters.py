"""Makes families of notes from REALTALK, RealMem and BEAM: a workspace and a `questions.json` per conversation.

REALTALK: a heading for each session and a bullet for each message. RealMem: the memories extracted from a session,
under a heading with its topic. BEAM: the messages as they are, a line for each paragraph. The licences are those of
the repositories; none of their content belongs in this one.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.scoring import flat

_UNUSED: Final = frozenset({"abstention", "event_ordering", "summarization"})
"""The kinds of BEAM's questions that have no evidence, or none in one place."""
_REFERENCE: Final = re.compile(r"D\d+:\d+")
_INDEX: Final = re.compile(r"\s*->->\s*[\d,]+\s*$")
_SESSION: Final = re.compile(r"session_(\d+)")
_PROJECT_NUMBER: Final = re.compile(r"_\d+$")
_LABEL: Final = re.compile(r"^【[^】]*】\s*")


class Place(NamedTuple):
    path: str
    line: int
    text: str
    """The text of the line, without the mark of a bullet or the name of the role."""


class Notes:
    """The notes of one conversation: a file for each day."""

    def __init__(self) -> None:
        self._days: dict[str, list[str]] = {}

    def section(self, day: str, title: str) -> None:
        lines = self._days.setdefault(day, [f"# {day}"])
        lines += ["", f"## {title}", ""]

    def add(self, day: str, line: str, text: str) -> Place:
        """Adds a line; `text` is the part of it that evidence quotes."""
        lines = self._days[day]
        lines.append(line)
        return Place(f"memory/{day}.md", len(lines), text)

    def write(self, workspace: Path, questions: list[dict[str, Any]]) -> None:
        memory = workspace / "memory"
        memory.mkdir(parents=True)
        for day, lines in self._days.items():
            (memory / f"{day}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
        written = json.dumps(questions, ensure_ascii=False, indent=1)
        (workspace / "questions.json").write_text(written + "\n", encoding="utf-8")


def realtalk(record: Mapping[str, Any]) -> tuple[Notes, list[dict[str, Any]]]:
    """Converts one `data/Chat_*.json`. A question is left out if none of its evidence is there."""
    notes, places = Notes(), dict[str, Place]()
    sessions = (match for key in record if (match := _SESSION.fullmatch(key)))
    for match in sorted(sessions, key=lambda one: int(one[1])):
        when = datetime.strptime(record[f"{match[0]}_date_time"].strip(), "%d.%m.%Y, %H:%M:%S")  # noqa: DTZ007 - local
        day = f"{when:%Y-%m-%d}"
        notes.section(day, f"{when:%H:%M}")
        for number, message in enumerate(record[match[0]], 1):
            said = flat(f"{message['speaker']}: {message.get('clean_text') or ''}")
            if caption := message.get("blip_caption"):
                said += f" [shared {flat(caption)}]"
            reference = message.get("dia_id") or f"D{match[1]}:{number}"
            places[reference] = notes.add(day, f"- {said}", said)
    questions = (
        _question(one["question"], one["category"], _referenced(one["evidence"], places))
        for one in record["qa"]
    )
    return notes, [one for one in questions if one["evidence"]]


def _referenced(evidence: Any, places: Mapping[str, Place]) -> list[Place]:
    """Returns the places of the evidence; some references are written `D1:2; D1:4`."""
    names = dict.fromkeys(_REFERENCE.findall(json.dumps(evidence)))
    return [places[name] for name in names if name in places]


def realmem(record: Mapping[str, Any]) -> tuple[Notes, list[dict[str, Any]]]:
    """Converts one `*_dialogues_256k.json`. Evidence is the memories that the answer used, noted on an earlier day."""
    notes, questions = Notes(), []
    noted: dict[str, list[Place]] = {}
    for session in record["dialogues"]:
        day = session["current_time"][:10]
        for asked, answer in _queries(session["dialogue_turns"]):
            used = dict.fromkeys(_bare(one["content"]) for one in answer.get("memory_used") or ())
            evidence = [found for text in used if (found := _earlier(noted.get(text, ()), day))]
            if evidence:
                kind = asked.get("category_name") or "query"
                questions.append(
                    _question(asked["content"].strip(), kind, evidence) | {"before": day}
                )
        memories = [flat(one["content"]) for one in session.get("extracted_memory") or ()]
        if memories:
            notes.section(day, _topic(session["session_identifier"]))
        for text in memories:
            noted.setdefault(_bare(text), []).append(notes.add(day, f"- {text}", text))
    return notes, questions


def _queries(turns: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yields each turn that is a query, with the assistant's turn after it."""
    for asked, answer in pairwise(turns):
        if asked.get("is_query") and answer["speaker"] == "Assistant":
            yield asked, answer


def _earlier(places: list[Place] | tuple[()], day: str) -> Place | None:
    """Returns the latest place before that day."""
    before = [one for one in places if one.path < f"memory/{day}.md"]
    return before[-1] if before else None


def _bare(text: str) -> str:
    return _LABEL.sub("", flat(text))


def _topic(identifier: str) -> str:
    """Returns the topic: `Literary Creation` for `Literary_Creation_2:S1_01`."""
    return _PROJECT_NUMBER.sub("", identifier.partition(":")[0]).replace("_", " ")


def beam(
    batches: list[dict[str, Any]], asked: Mapping[str, list[dict[str, Any]]]
) -> tuple[Notes, list[dict[str, Any]]]:
    """Converts one `chat.json` and its `probing_questions.json`.

    Evidence is the first line of each message that a question names.
    """
    notes, places = Notes(), dict[int, Place]()
    for batch in batches:
        messages = [one for turn in batch["turns"] for one in turn]
        anchor = next(one["time_anchor"] for one in messages if one.get("time_anchor"))
        day = f"{datetime.strptime(anchor, '%B-%d-%Y'):%Y-%m-%d}"  # noqa: DTZ007 - a day
        notes.section(day, f"Session {batch['batch_number']}")
        for number, message in enumerate(messages):
            first, *rest = _paragraphs(message["content"])
            if number:
                notes.add(day, "", "")
            role = message["role"].capitalize()
            places[message["id"]] = notes.add(day, f"{role}: {first}", first)
            for line in rest:
                notes.add(day, line, line)
    questions = (
        _question(one["question"], kind, [places[each] for each in _ids(one) if each in places])
        for kind, questions in asked.items()
        if kind not in _UNUSED
        for one in questions
    )
    return notes, [one for one in questions if one["evidence"]]


def _paragraphs(content: str) -> list[str]:
    return [line for line in _INDEX.sub("", content).split("\n") if line.strip()] or [""]


def _ids(question: Mapping[str, Any]) -> list[int]:
    named = question.get("source_chat_ids") or []
    groups = list(named.values()) if isinstance(named, dict) else [named]
    return list(dict.fromkeys(each for group in groups for each in group))


def _question(question: str, category: object, evidence: list[Place]) -> dict[str, Any]:
    return {
        "question": question,
        "category": category,
        "evidence": [one._asdict() for one in evidence],
    }


def convert_realtalk(checkout: Path, target: Path) -> int:
    """Writes the conversations as workspaces and returns their number, as the following functions do."""
    files = sorted((checkout / "data").glob("Chat_*.json"))
    for file in files:
        notes, questions = realtalk(_read(file))
        notes.write(target / "realtalk" / f"conv-{file.stem.split('_')[1]}", questions)
    return len(files)


def convert_realmem(checkout: Path, target: Path) -> int:
    suffix = "_dialogues_256k.json"
    files = sorted((checkout / "dataset").rglob(f"*{suffix}"))
    for file in files:
        notes, questions = realmem(_read(file))
        notes.write(target / "realmem" / f"conv-{file.name.removesuffix(suffix)}", questions)
    return len(files)


def convert_beam(checkout: Path, target: Path) -> int:
    files = sorted((checkout / "chats" / "100K").glob("*/chat.json"))
    for file in files:
        probing = file.parent / "probing_questions" / "probing_questions.json"
        notes, questions = beam(_read(file), _read(probing))
        notes.write(target / "beam" / f"conv-{file.parent.name}", questions)
    return len(files)


def _read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


CONVERTERS: Final = {
    "realtalk": (convert_realtalk, "danny911kr/REALTALK"),
    "realmem": (convert_realmem, "AvatarMemory/RealMemBench"),
    "beam": (convert_beam, "mohammadtavakoli78/BEAM"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "target", type=Path, help="the directory that bench recall --families takes"
    )
    for name, (_, repository) in CONVERTERS.items():
        parser.add_argument(
            f"--{name}", type=Path, metavar="DIR", help=f"a checkout of {repository} on GitHub"
        )
    options = parser.parse_args()
    for name, (convert, repository) in CONVERTERS.items():
        checkout: Path | None = getattr(options, name)
        if checkout is None:
            continue
        if (options.target / name).exists():
            parser.error(f"{options.target / name} is there already; remove it first")
        count = convert(checkout, options.target)
        if not count:
            parser.error(f"{checkout} has none of the files of {repository}")
        print(f"{name}: {count} conversations in {options.target / name}")


if __name__ == "__main__":
    main()
