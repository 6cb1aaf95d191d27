"""Claude Code's conversations: their names, and the entries that are turns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from backends.transcripts.jsonl import ClaudeTranscripts, render_entry
from backends.transcripts.source import BEGINNING
from fakes.each import each

SESSION = "4f0c2a2e-9d8b-4f57-8a0a-0f3f3cf1a001"
PATH = f"sessions/claude-code@-home-me-garden@{SESSION}.jsonl"


def entry(role, content, **marks):
    message = {"role": role, "content": content}
    return json.dumps({"type": role, "message": message, "sessionId": SESSION, **marks}).encode()


@pytest.fixture
def projects(tmp_path):
    garden = tmp_path / "projects/-home-me-garden"
    garden.mkdir(parents=True)
    lines = [entry("user", "Who mows?"), entry("assistant", [{"type": "text", "text": "Ines."}])]
    (garden / f"{SESSION}.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    (garden / "agent-1234.jsonl").write_bytes(entry("user", "Look it up.") + b"\n")
    (garden / "memory").mkdir()
    return tmp_path / "projects"


@each(
    ("line", "turn"),
    [
        (entry("user", "Who mows\n the lawn?"), "User: Who mows the lawn?"),
        (
            entry(
                "assistant", [{"type": "thinking", "thinking": "x"}, {"type": "text", "text": "I."}]
            ),
            "Assistant: I.",
        ),
        (entry("user", "My password: hunter2hunter2"), "User: My password: ***"),
        (entry("user", [{"type": "tool_result", "content": "secret"}]), None),
        (entry("assistant", [{"type": "tool_use", "name": "Bash", "input": {}}]), None),
        (entry("user", "Look it up.", isSidechain=True), None),
        (entry("user", "Caveat: ...", isMeta=True), None),
        (entry("user", "This session is continued ...", isCompactSummary=True), None),
        (entry("assistant", "API Error", isApiErrorMessage=True), None),
        (entry("user", "<command-name>/clear</command-name>"), None),
        (entry("user", "<system-reminder>\nx\n</system-reminder>Who mows?"), "User: Who mows?"),
        (entry("user", [{"type": "text", "text": "[Request interrupted by user]"}]), None),
        (b'{"type": "summary", "summary": "Lawn", "leafUuid": "x"}', None),
        (b'{"type": "user", "message": "x"}', None),
        (b"[]", None),
        (b"{", None),
        (b'{"type":"user","message":{"role":"user","content":"gr\xfcn"}}', "User: gr\ufffdn"),
    ],
)
def test_turns_are_what_the_two_said(line, turn):
    assert render_entry(line) == turn


def test_sessions_of_all_projects_are_listed_without_those_of_their_agents(projects):
    assert [one.path for one in ClaudeTranscripts(projects).listing().files] == [PATH]


def test_a_link_is_neither_listed_as_a_project_nor_opened_as_a_session(projects, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.jsonl").write_bytes(entry("user", "secret"))
    (projects / "linked").symlink_to(outside)
    (projects / "-home-me-garden/y.jsonl").symlink_to(outside / "x.jsonl")
    listing = ClaudeTranscripts(projects).listing()
    assert [one.path for one in listing.files] == [PATH]
    assert [one.path.rpartition("@")[2] for one in listing.skipped] == ["y.jsonl"]


def test_a_session_is_read_as_lines_of_its_file(projects):
    source = ClaudeTranscripts(projects)
    with source.open(PATH, None) as opened:
        entries = opened.read(BEGINNING, 1 << 20)
        assert opened.is_current(entries.end)
    assert (entries.numbers, entries.is_last) == ((1, 2), True)
    assert source.render(PATH, entries.lines[1]) == "Assistant: Ines."
    assert not source.is_gone(PATH)
    assert source.is_gone(PATH.replace("garden", "attic"))


def test_a_file_is_known_by_its_place(projects):
    source = ClaudeTranscripts(projects)
    assert source.path_of(str(projects / f"-home-me-garden/{SESSION}.jsonl")) == PATH
    assert source.path_of(PATH) == PATH
    assert source.path_of("0a1b2c3d") is None


def test_without_claude_code_there_is_nothing(tmp_path):
    assert ClaudeTranscripts(tmp_path / "nowhere").listing().files == ()


def test_of_a_recorded_session_the_turns_are_what_was_said():
    """The session is of Claude Code 2.1.330, with tools, an agent, a refused request, `/compact`, `/context` and a
    hook; long texts are cut.
    """
    recorded = Path(__file__).parents[2] / "data/claude_code_2.1.330.jsonl"
    turns = [turn for line in recorded.read_bytes().splitlines() if (turn := render_entry(line))]
    answer = "Assistant: The heron nests at the mill pond, as you told me."
    assert turns == [
        "User: Where does the heron nest? My password: ***", answer,
        "User: USE-READ please", "Assistant: I look into the note.", answer,
        "User: USE-AGENT please", "Assistant: I ask an agent.", answer, answer,
        "User: FAIL-NOW", answer,
        "User: And what did I ask?", answer,
        "User: Hooked question", answer,
        "User: With memory", answer,
    ]  # fmt: skip
