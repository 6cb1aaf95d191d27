"""A session is greeted once; one without a key never is."""

from gateway.sessions.keys import MAX_SESSIONS, KnownSessions


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
