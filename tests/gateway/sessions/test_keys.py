"""Session keys: the owner of a conversation, and others who can read it."""

import pytest

from config.settings import ScopeMatch, ScopePolicy, ScopeRule
from fakes.each import each
from fakes.settings import make_settings
from gateway.scope import (
    MAX_SESSIONS,
    KnownSessions,
    SessionKey,
    agent_of,
    chat_type_of,
    is_main_session,
    judge_session,
    parse_session_key,
)
from gateway.tools.search import shows_citations


@each(
    ("key", "parsed"),
    [
        ("agent:main:main", SessionKey("main", ("main",))),
        ("agent:Main:TELEGRAM:Group:-100", SessionKey("main", ("telegram", "group", "-100"))),
        ("  agent:work:x  ", SessionKey("work", ("x",))),
        ("AGENT:work:x", SessionKey("work", ("x",))),
        ("agent::x", SessionKey("", ("x",))),
        ("agent:main", SessionKey(None, ("agent", "main"))),
        ("agent:main:", SessionKey(None, ("agent", "main", ""))),
        ("main", SessionKey(None, ("main",))),
        ("cron:daily", SessionKey(None, ("cron", "daily"))),
        ("", SessionKey(None, ("",))),
        ("agent:a:line\nbreak", SessionKey("a", ("line\nbreak",))),
    ],
)
def test_a_key_is_taken_apart(key, parsed):
    assert parse_session_key(key) == parsed


@each(
    ("key", "kind"),
    [
        ("agent:main:main", "direct"),
        ("agent:main:telegram:direct:7", "direct"),
        ("agent:main:telegram:dm:7", "direct"),
        ("agent:main:telegram:group:-100", "group"),
        ("agent:main:discord:channel:9", "channel"),
        ("agent:main:discord:group:1:channel:9", "channel"),
        ("agent:main:discord:CHANNEL:9", "channel"),
        ("agent:group:main", "direct"),
        ("agent:main:groups:1", "direct"),
        ("telegram:group:1", "group"),
        ("main", "direct"),
        ("", "direct"),
    ],
)
def test_a_token_names_the_kind_of_chat(key, kind):
    assert chat_type_of(key) == kind


DIRECT_ONLY = ScopePolicy(
    default="deny", rules=(ScopeRule(action="allow", match=ScopeMatch(chat_type="dm")),)
)


@pytest.mark.parametrize(
    ("key", "chat", "allowed", "cited", "main"),
    [
        ("agent:main:main", "direct", True, True, True),
        ("agent:main:main:thread:5", "direct", True, True, True),
        ("agent:main:telegram:direct:anna", "direct", True, True, False),
        ("agent:main:telegram:DM:anna", "direct", True, True, False),
        ("agent:main:telegram:work:direct:anna", "direct", True, True, False),
        ("agent:main:telegram:group:-1", "group", False, False, False),
        ("agent:main:telegram:group:-1:thread:5", "group", False, False, False),
        ("agent:main:discord:channel:9", "channel", False, False, False),
        ("agent:main:discord:channel:9:thread:7", "channel", False, False, False),
        ("agent:main:subagent:x", "direct", False, True, False),
        ("cron:daily", "direct", True, True, False),
        ("hook:mail", "direct", True, True, False),
        ("agent:other:main", "direct", False, True, True),
        ("agent:OTHER:telegram:direct:anna", "direct", False, True, False),
        ("agent:Main:main", "direct", True, True, True),
        ("main", "direct", True, True, True),
        ("agent:", "direct", True, True, False),
        ("agent::main", "direct", True, True, True),
        ("::::", "direct", True, True, False),
        ("telegram:group:1", "group", False, False, False),
    ],
)
def test_what_each_session_key_means_everywhere(tmp_path, key, chat, allowed, cited, main):
    assert chat_type_of(key) == chat
    assert judge_session(make_settings(tmp_path), DIRECT_ONLY, key).allowed is allowed
    assert shows_citations("auto", key) is cited
    assert is_main_session(key) is main


@each(
    ("key", "agent"),
    [
        ("agent:Work Phone:main", "work-phone"),
        ("agent:main:x", "main"),
        ("main", None),
        ("agent::x", None),
        ("cron:agent:x:y", None),
    ],
)
def test_the_agent_of_a_key_is_normalised_as_everywhere(key, agent):
    assert agent_of(key) == agent


def test_without_a_policy_every_session_of_the_agent_may_and_none_of_another(tmp_path):
    settings = make_settings(tmp_path)
    assert judge_session(settings, None, None).allowed
    assert judge_session(settings, None, "agent:main:telegram:group:-1").allowed
    assert not judge_session(settings, None, "agent:other:main").allowed


def test_a_session_is_new_once():
    known = KnownSessions()
    assert [known.is_new("agent:main:main") for _ in range(3)] == [True, False, False]


def test_the_case_of_a_key_does_not_matter():
    known = KnownSessions()
    assert known.is_new("agent:main:Main ")
    assert not known.is_new("agent:Main:main")


def test_without_a_key_there_is_no_session():
    assert not KnownSessions().is_new(None)
    assert not KnownSessions().is_new("")


def test_of_very_many_sessions_those_seen_last_are_remembered():
    known = KnownSessions()
    for number in range(MAX_SESSIONS):
        known.is_new(f"{number}")
    assert not known.is_new("0")
    assert known.is_new("one more")
    assert not known.is_new("0")
    assert known.is_new("1")
