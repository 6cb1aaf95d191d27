"""The parts of memory that a conversation has seen, and the time for which they are remembered."""

from __future__ import annotations

from backends.interface import Hit
from gateway import recalled
from gateway.recalled import Shown
from gateway.session_start import LoadedFile


def hit(path: str, snippet: str) -> Hit:
    return Hit(path=path, start_line=1, end_line=1, score=0.9, snippet=snippet, source="memory")


def loaded(text: str) -> LoadedFile:
    return LoadedFile(path="MEMORY.md", role="longterm", status="ok", text=text, chars=len(text))


def test_a_line_that_was_read_is_known_wherever_it_stands_and_however_it_is_marked():
    seen = Shown()
    seen.read("anna", "a.md", "# Home\n\n- [ ] The boiler is serviced by Hartmann.\n")
    assert seen.has("anna", "* the **boiler** is serviced by Hartmann")
    assert not seen.has("anna", "- The boiler is serviced by Huber.")
    assert not seen.has("ben", "- The boiler is serviced by Hartmann.")


def test_headings_and_lines_that_say_nothing_by_themselves_are_never_old():
    seen = Shown()
    seen.read("anna", "a.md", "# The boiler and the pump\n- milk\n")
    assert not seen.has("anna", "# The boiler and the pump")
    assert not seen.has("anna", "- milk")


def test_letters_of_every_script_tell_lines_apart():
    seen = Shown()
    seen.read("anna", "a.md", "- Котёл обслуживает Хартманн.\n")
    assert seen.has("anna", "Котёл обслуживает Хартманн")
    assert not seen.has("anna", "Насос обслуживает Хартманн")


def test_what_a_search_or_the_start_showed_is_known_and_a_compaction_forgets_it():
    seen = Shown()
    seen.began("agent:main:main", [loaded("- The kettle is descaled.")])
    seen.searched("Agent:Main:Main", [hit("a.md", "- The boiler is serviced by Hartmann.")])
    for line in ("The kettle is descaled", "The boiler is serviced by Hartmann"):
        assert seen.has(" agent:main:main ", line)
    seen.forget("agent:main:main")
    assert not seen.has("agent:main:main", "The kettle is descaled")


def test_of_too_many_lines_those_of_the_conversation_heard_of_least_recently_go(monkeypatch):
    monkeypatch.setattr(recalled, "MOST_LINES", 5)
    monkeypatch.setattr(recalled, "MOST_LINES_EACH", 3)
    seen = Shown()
    seen.read("anna", "a.md", "The first line\nThe second line\nThe third line\nThe fourth line")
    assert not seen.has("anna", "The first line")
    assert seen.has("anna", "The fourth line")
    seen.read("ben", "a.md", "The fifth line\nThe sixth line")
    seen.read("anna", "a.md", "The fourth line")
    seen.read("cleo", "a.md", "The seventh line")
    assert not seen.has("ben", "The fifth line")
    assert seen.has("anna", "The fourth line")
    assert seen.has("cleo", "The seventh line")


def test_conversations_are_bounded_although_none_of_their_lines_count(monkeypatch):
    monkeypatch.setattr(recalled, "MAX_SESSIONS", 3)
    seen = Shown()
    for number in range(5):
        seen.read(f"session {number}", "a.md", "# milk\n")
    assert [number for number in range(5) if seen.knows(f"session {number}")] == [2, 3, 4]


def test_a_note_that_was_recalled_is_of_use_once_it_is_read_or_found_in_the_same_conversation():
    used: list[str] = []
    seen = Shown(used.append)
    seen.recalled("anna", "a.md", "The first line")
    seen.recalled("anna", "b.md", "The second line")
    seen.read("ben", "a.md", "The first line")
    assert used == []
    seen.read("anna", "a.md", "The first line")
    seen.read("anna", "a.md", "The first line")
    seen.searched("anna", [hit("b.md", "The second line"), hit("c.md", "The third line")])
    assert used == ["a.md", "b.md"]


def test_a_program_shows_its_tools_answers_to_the_conversation_that_it_holds():
    seen = Shown()
    seen.read("process 7", "a.md", "The first line")
    seen.bind("claude-code 1", ["process 7", "process 3"])
    assert seen.has("claude-code 1", "The first line")
    seen.read("process 7", "a.md", "The second line")
    assert seen.has("claude-code 1", "The second line")
    seen.bind("claude-code 2", ["process 7"])
    assert not seen.has("claude-code 2", "The second line")
    seen.read("process 7", "a.md", "The third line")
    assert seen.has("claude-code 2", "The third line")
    assert not seen.has("claude-code 1", "The third line")


def test_a_note_that_was_recalled_by_a_hook_is_of_use_when_a_tool_of_the_same_program_reads_it():
    used: list[str] = []
    seen = Shown(used.append)
    seen.bind("claude-code 1", ["process 7"])
    seen.recalled("claude-code 1", "a.md", "The first line")
    seen.read("process 7", "a.md", "The first line")
    assert used == ["a.md"]


def test_what_a_program_recalled_before_its_first_hook_is_of_use_when_it_is_read():
    used: list[str] = []
    seen = Shown(used.append)
    seen.recalled("process 7", "a.md", "The first line")
    seen.bind("claude-code 1", ["process 7"])
    seen.read("claude-code 1", "a.md", "The first line")
    assert used == ["a.md"]
