"""Session keys: whose conversation it is, and who else can read along."""

import pytest

from gateway.sessions import SessionKey, chat_type_of, parse_session_key


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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
