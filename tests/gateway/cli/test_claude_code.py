"""Claude Code's memory is searched where that is switched on, and nowhere else."""

from __future__ import annotations

import json

import pytest

SEARCH = {"sources": ["memory", "sessions"], "experimental": {"sessionMemory": True}}


@pytest.fixture
def claude(cli):
    """The Claude Code directory of a user with one project."""
    own = cli.home / ".claude"
    project = own / "projects/-home-me-garden"
    (project / "memory").mkdir(parents=True)
    (project / "memory/MEMORY.md").write_text("# Garden\n\n- The quince is pruned in March.\n")
    (project / "notes.md").write_text("- A quince that is no memory.\n")
    (own / "CLAUDE.md").write_text("- Quince recipes are in metric units.\n")
    said = {"type": "user", "message": {"role": "user", "content": "Ana gave us the quince."}}
    (project / "one.jsonl").write_text(json.dumps(said) + "\n")
    return own


def switch(cli, *, on=True, **search):
    entry = {"config": {"search": {"claudeCode": on} | search}}
    cli.configure({"plugins": {"entries": {"memory-gateway": entry}}})


def found(cli, *arguments):
    hits = cli.json("search", "quince", "--min-score", "0", *arguments)["results"]
    return {hit["path"].removeprefix("../../.claude/") for hit in hits}


NOTES = {"projects/-home-me-garden/memory/MEMORY.md", "CLAUDE.md"}


def test_it_is_off_by_default(cli, claude):
    assert claude.exists()
    assert found(cli) == set()


def test_one_word_makes_its_memory_searched_and_readable(cli, claude):
    switch(cli)
    assert found(cli) == NOTES
    got = cli("get", f"../../.claude/{max(NOTES)}:3")
    assert got.out == "- The quince is pruned in March.\n"
    assert cli("get", "../../.claude/projects/-home-me-garden/notes.md").code == 77


def test_a_flag_does_the_same_for_one_command(cli, claude):
    assert found(cli, "--claude-code") == NOTES
    assert found(cli) == set()


def test_its_conversations_come_with_the_source_sessions_and_go_with_the_switch(cli, claude):
    switch(cli, **SEARCH)
    session = "sessions/claude-code@-home-me-garden@one.jsonl"
    assert found(cli) == NOTES | {session}
    switch(cli, on=False, **SEARCH)
    assert found(cli) == set()
    switch(cli, **SEARCH)
    assert found(cli, "--source", "sessions") == {session}


def test_its_directory_may_be_elsewhere(cli, claude, monkeypatch):
    claude.rename(cli.home / "elsewhere")
    switch(cli)
    assert found(cli) == set()
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(cli.home / "elsewhere"))
    assert len(found(cli)) == 2


def test_that_it_is_not_installed_is_no_fault(cli):
    switch(cli)
    cli("index")
    assert cli.json("status")["issues"] == []
