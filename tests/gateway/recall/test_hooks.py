"""The events of each client, and answers in its form."""

from __future__ import annotations

import pwd
from typing import get_args

import msgspec
import pytest

from fakes.each import each
from gateway import hook
from gateway.recall import HookClient, HookParams, in_form, read_event


def event(client, **members):
    return read_event(HookParams(client=client, event=members))


@each(
    ("client", "name", "kind"),
    [
        ("claude-code", "UserPromptSubmit", "prompt"),
        ("codex", "UserPromptSubmit", "prompt"),
        ("gemini", "BeforeAgent", "prompt"),
        ("gemini", "PreCompress", "other"),
        ("claude-code", "SessionStart", "start"),
        ("claude-code", "PreToolUse", "other"),
    ],
)
def test_an_event_is_known_by_its_name(client, name, kind):
    found = event(client, hook_event_name=name, session_id="s-1", prompt="boiler")
    assert (found.kind, found.prompt) == (kind, "boiler")
    assert found.conversation == f"{client} s-1"


@each(("trigger", "kind"), [("manual", "compaction"), ("auto", "other")])
def test_a_compression_that_gemini_only_announces_is_none(trigger, kind):
    assert event("gemini", hook_event_name="PreCompress", trigger=trigger).kind == kind


def test_copilot_names_no_event_and_takes_the_text_as_it_is():
    found = event("copilot", prompt="boiler", cwd="/work")
    assert (found.kind, found.conversation) == ("prompt", "copilot /work")
    assert event("copilot", source="new", cwd="/work").kind == "start"
    assert event("copilot", trigger="auto", cwd="/work").kind == "compaction"
    assert in_form("copilot", found, "notes") == {"additionalContext": "notes"}


@each("client", get_args(HookClient))
def test_where_there_is_nothing_to_say_nothing_is_said(client):
    assert in_form(client, event(client, prompt="boiler"), "") is None


def test_the_answer_names_the_event_that_it_answers():
    found = event("gemini", hook_event_name="BeforeAgent", prompt="boiler")
    answer = in_form("gemini", found, "notes")
    assert answer == {
        "hookSpecificOutput": {"hookEventName": "BeforeAgent", "additionalContext": "notes"}
    }


@pytest.mark.parametrize("source", ["resume", "fork"])
def test_a_conversation_that_goes_on_has_its_beginning(source):
    assert event("codex", hook_event_name="SessionStart", source=source).goes_on
    assert not event("codex", hook_event_name="SessionStart", source="compact").goes_on


def test_what_a_client_writes_down_of_the_conversation_itself_is_not_told_to_it():
    assert event("codex", session_id="0a-1", prompt="x").own_transcript == "sessions/*0a-1*"
    assert event("codex", session_id="*/..", prompt="x").own_transcript is None


def test_members_of_another_type_are_as_if_they_were_not_there():
    found = event("codex", hook_event_name="UserPromptSubmit", prompt=["boiler"], session_id=7)
    assert (found.prompt, found.conversation) == ("", "codex ")
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"client": "emacs", "event": {}}, HookParams)


def test_for_a_user_without_a_home_there_is_no_folder_below_the_working_directory(
    monkeypatch, tmp_path
):
    """A container that runs under an arbitrary user number has neither HOME nor an entry of the system."""
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OSError):
        hook.Route([])
    assert sum(hook.misses().values()) == 0
    assert list(tmp_path.iterdir()) == []
