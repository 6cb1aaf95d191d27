"""The right to search: session keys against scope policies."""

from msgspec.structs import replace

from config.settings import ScopeMatch, ScopePolicy, ScopeRule
from fakes.each import each
from fakes.settings import make_settings
from gateway.scope import Guest, Verdict, judge_scope, may_append, terms_of

DIRECT_ONLY = ScopePolicy(
    default="deny", rules=(ScopeRule(action="allow", match=ScopeMatch(chat_type="direct")),)
)


def policy(action="deny", default="allow", **match):
    return ScopePolicy(
        default=default, rules=(ScopeRule(action=action, match=ScopeMatch(**match)),)
    )


@each(
    ("key", "allowed"),
    [
        ("agent:main:main", True),
        ("agent:main:telegram:direct:anna", True),
        ("agent:main:telegram:dm:anna", True),
        ("agent:main:telegram:work:direct:anna", True),
        ("agent:main:telegram:group:-1", False),
        ("agent:main:Discord:CHANNEL:7", False),
        ("agent:main:discord:channel:7:thread:9", False),
        ("agent:main:subagent:abc", False),
        ("cron:daily", True),
        ("hook:mail", True),
        (None, False),
    ],
)
def test_by_default_qmd_answers_direct_conversations_only(key, allowed):
    assert judge_scope(DIRECT_ONLY, key).allowed is allowed


@each(
    ("match", "key", "matches"),
    [
        ({"channel": "Telegram "}, "agent:main:telegram:group:-1", True),
        ({"channel": "telegram"}, "agent:main:telegram:acct:dm:anna", True),
        ({"channel": "telegram"}, "agent:main:main", False),
        ({"chat_type": "dm"}, "agent:main:telegram:direct:anna", True),
        ({"chat_type": "group"}, "agent:main:telegram:group:-1", True),
        ({"chat_type": "group"}, "agent:main:main", False),
        ({"key_prefix": "telegram:"}, "agent:main:telegram:group:-1", True),
        ({"key_prefix": "agent:main:telegram:"}, "agent:main:telegram:group:-1", True),
        ({"raw_key_prefix": "telegram:"}, "agent:main:telegram:group:-1", False),
        ({"raw_key_prefix": "AGENT:main:"}, "agent:main:main", True),
        ({"channel": "telegram", "chat_type": "direct"}, "agent:main:telegram:group:-1", False),
        ({}, None, True),
        ({"channel": "telegram"}, None, False),
    ],
)
def test_a_rule_matches_when_every_condition_holds(match, key, matches):
    assert judge_scope(policy(**match), key).allowed is not matches


def test_the_first_matching_rule_decides_and_is_named():
    rules = (
        ScopeRule(action="allow", match=ScopeMatch(channel="telegram")),
        ScopeRule(action="deny", match=ScopeMatch(chat_type="group")),
    )
    both = ScopePolicy(default="deny", rules=rules)
    assert judge_scope(both, "agent:main:telegram:group:-1") == Verdict(True, "rules[0] says allow")
    assert judge_scope(both, "agent:main:irc:group:x") == Verdict(False, "rules[1] says deny")
    verdict = judge_scope(both, "agent:main:main")
    assert not verdict.allowed
    assert "default is deny" in verdict.reason


def test_a_denial_for_want_of_a_session_key_says_so():
    assert "sessionKey" in judge_scope(DIRECT_ONLY, None).reason


def test_what_a_command_line_lets_its_own_client_write_no_other_client_may(tmp_path):
    plain = make_settings(tmp_path)
    granted = replace(plain, write_granted=True)
    other, same = (Guest(terms_of(one), seen=granted) for one in (plain, granted))
    assert may_append(granted, None)
    assert may_append(granted, same)
    assert not may_append(granted, other)
    assert not may_append(replace(granted), other)  # the owner has read its configuration again
    assert not may_append(plain, None)
    assert may_append(plain, same)
