"""Reading the chat gateway's auth profiles."""

import json

import pytest

from config.settings import AuthProfileRef, AuthSettings
from providers.remote.credentials import candidates, load

NOW = 1_800_000_000_000.0


@pytest.fixture
def store(tmp_path):
    def write(*files):
        paths = []
        for number, content in enumerate(files):
            path = tmp_path / f"{number}.json"
            text = content if isinstance(content, str) else json.dumps(content)
            path.write_text(text, encoding="utf-8")
            paths.append(path)
        return load(paths)

    return write


def key(value="sk-1", provider="openai"):
    return {"type": "api_key", "provider": provider, "key": value}


def ids(store, auth=None):
    return [profile.id for profile in candidates(store, auth or AuthSettings(), "openai", NOW)]


def test_missing_files_hold_no_profiles_and_are_no_problem(tmp_path):
    found = load([tmp_path / "none.json"])
    assert (found.profiles, found.problems) == ({}, ())


def test_the_agents_own_file_wins_over_the_main_agents(store):
    found = store(
        {"profiles": {"a": key("main"), "b": key("shared")}}, {"profiles": {"a": key("own")}}
    )
    values = {id_: profile.secret.reveal() for id_, profile in found.profiles.items()}
    assert values == {"a": "own", "b": "shared"}


@pytest.mark.parametrize("content", ["{", "[1]", '{"profiles": 3}', "not json sk-leaky-secret"])
def test_a_broken_file_is_reported_without_its_content(store, content):
    found = store(content, {"profiles": {"a": key()}})
    assert list(found.profiles) == ["a"]
    (problem,) = found.problems
    assert "0.json" in problem
    assert "leaky" not in problem


def test_an_oversized_file_is_reported(store):
    found = store(" " * (1 << 20) + "{}")
    assert "larger than 1 MiB" in found.problems[0]


def test_an_unreadable_file_is_reported(tmp_path):
    found = load([tmp_path])
    assert "cannot be read" in found.problems[0]


def test_a_malformed_profile_spoils_no_other(store):
    found = store({"profiles": {"bad": {"type": "api_key"}, "worse": 3, "good": key()}})
    assert list(found.profiles) == ["good"]
    assert [name for name in ("bad", "worse") if name in " ".join(found.problems)] == [
        "bad",
        "worse",
    ]


def test_without_an_order_oauth_then_tokens_then_keys_and_the_longest_unused_first(store):
    found = store(
        {
            "profiles": {
                "new": key(),
                "old": key(),
                "login": {"type": "oauth", "provider": "openai", "access": "x"},
                "token": {"type": "token", "provider": "OpenAI ", "token": "t"},
                "foreign": key(provider="google"),
            },
            "usageStats": {"new": {"lastUsed": 20}, "old": {"lastUsed": 10}},
        }
    )
    assert ids(found) == ["login", "token", "old", "new"]


def test_the_configurations_profiles_restrict_the_choice(store):
    found = store({"profiles": {"a": key(), "b": key()}})
    assert ids(found, AuthSettings(profiles={"b": AuthProfileRef(provider="openai")})) == ["b"]


def test_an_order_in_the_store_wins_over_one_in_the_configuration(store):
    profiles = {"a": key(), "b": key(), "c": key()}
    auth = AuthSettings(order={"openai": ("b", "a")})
    assert ids(store({"profiles": profiles}), auth) == ["b", "a"]
    both = store({"profiles": profiles, "order": {"openai": ["c", "gone", "a", 7]}})
    assert ids(both, auth) == ["c", "a"]


def test_profiles_in_a_cooldown_come_last_the_soonest_ready_first(store):
    found = store(
        {
            "profiles": {"a": key(), "b": key(), "c": key()},
            "usageStats": {
                "a": {"cooldownUntil": NOW + 9000},
                "b": {"disabledUntil": NOW + 5000},
                "c": {"cooldownUntil": NOW - 5000},
            },
        }
    )
    assert ids(found) == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (key(), None),
        ({"type": "token", "provider": "openai", "token": "t"}, None),
        ({"type": "token", "provider": "openai", "token": "t", "expires": NOW + 1}, None),
        ({"type": "token", "provider": "openai", "token": "t", "expires": NOW - 1}, "expired"),
        ({"type": "token", "provider": "openai", "token": "t", "expires": 0}, None),
        (key("  "), "no key"),
        ({"type": "oauth", "provider": "openai", "access": "eyJ"}, "OAuth"),
    ],
)
def test_what_makes_a_profile_unusable(store, entry, reason):
    (profile,) = store({"profiles": {"a": entry}}).profiles.values()
    found = profile.unusable(NOW)
    assert (found is None) if reason is None else (reason in found)


def test_no_secret_shows_in_a_repr(store):
    found = store({"profiles": {"a": key("sk-hidden-value")}})
    assert "sk-hidden-value" not in repr(found)
