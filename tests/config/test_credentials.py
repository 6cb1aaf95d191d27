"""API keys and headers: literal, from variables, as secret references."""

from __future__ import annotations

import json

import pytest

from config.describe import describe_json
from config.settings import ModelProviderSettings, Secret
from fakes.each import each

KEY = "sk-live-0123456789"
PLACES = ["agents.defaults.memorySearch.remote", "models.providers.openai"]


def written(place: str, member: str) -> str:
    *outer, last = place.split(".")
    opening = "".join(f"{part}: {{" for part in outer)
    return f"{{{opening}{last}: {{\n{member}\n}}{'}' * len(outer)}}}"


def endpoint(settings, place):
    return settings.model_providers.get("openai") if "models" in place else settings.search.remote


@pytest.mark.parametrize("place", PLACES)
class TestApiKey:
    @pytest.mark.parametrize(
        "value",
        [
            f"'{KEY}'",
            f"'  {KEY}\\n'",
            "'${KEY}'",
            "{source: 'env', id: 'KEY'}",
            "{source: 'env', provider: 'default', id: ' KEY '}",
        ],
    )
    def test_it_is_read_from_the_file_or_a_variable(self, machine, place, value):
        settings = machine.load(written(place, f"apiKey: {value}"), environment={"KEY": KEY})
        found = endpoint(settings, place)
        assert (found.api_key, found.api_key_problem) == (Secret(KEY), None)
        assert settings.warnings == ()

    def test_a_key_may_have_fixed_parts(self, machine, place):
        text = written(place, "apiKey: 'sk-${A}-${B}'")
        settings = machine.load(text, environment={"A": "x", "B": "y"})
        assert endpoint(settings, place).api_key == Secret("sk-x-y")

    @pytest.mark.parametrize("value", ["'${KEY}'", "'sk-${KEY}'", "{source: 'env', id: 'KEY'}"])
    @pytest.mark.parametrize("environment", [{}, {"KEY": ""}, {"KEY": "  "}])
    def test_a_missing_variable_is_a_warning_that_names_it(
        self, machine, place, value, environment
    ):
        settings = machine.load(written(place, f"apiKey: {value}"), environment=environment)
        found = endpoint(settings, place)
        assert found.api_key is None
        assert "environment variable KEY, which is not set" in found.api_key_problem
        (warning,) = settings.warnings
        assert (warning.path, warning.line) == (f"{place}.apiKey", 2)
        assert "KEY" in warning.message

    @pytest.mark.parametrize("source", ["file", "exec", "vault"])
    def test_other_secret_stores_are_a_warning_and_no_key(self, machine, place, source):
        text = written(place, f"apiKey: {{source: '{source}', provider: 'x', id: '/a'}}")
        settings = machine.load(text)
        found = endpoint(settings, place)
        assert found.api_key is None
        assert f'refers to a secret in "{source}"; only "env" is supported' in found.api_key_problem
        assert len(settings.warnings) == 1

    @pytest.mark.parametrize("value", ["''", "'  '", "null"])
    def test_a_blank_one_is_no_key_and_no_problem(self, machine, place, value):
        settings = machine.load(written(place, f"apiKey: {value}"))
        found = endpoint(settings, place)
        assert found is None or (found.api_key, found.api_key_problem) == (None, None)
        assert settings.warnings == ()

    @pytest.mark.parametrize(
        ("value", "found"),
        [
            ("5", "a number"),
            ("true", "true"),
            ("[]", "a list"),
            ("{}", "an object without the strings source and id"),
            ("{source: 'env'}", "an object without the strings source and id"),
            ("{source: 'env', id: ' '}", "an object without the strings source and id"),
            ("{source: 1, id: 'KEY'}", "an object without the strings source and id"),
            ("'sk-a\\nb'", "a string with control characters"),
            ("'sk-a\\0'", "a string with control characters"),
        ],
    )
    def test_what_is_no_key_is_a_problem_that_does_not_show_it(self, machine, place, value, found):
        (problem,) = machine.complaints(written(place, f"apiKey: {value}"))
        assert (
            problem.message
            == f'found {found}, allowed is a string, or {{source: "env", id: "NAME"}}'
        )
        assert (problem.path, problem.line) == (f"{place}.apiKey", 2)

    def test_headers_are_filled_in_too(self, machine, place):
        text = written(place, "headers: {'X-A': 'v', Authorization: 'Bearer ${KEY}'}")
        settings = machine.load(text, environment={"KEY": KEY})
        assert endpoint(settings, place).headers == {"X-A": "v", "Authorization": f"Bearer {KEY}"}

    def test_a_header_whose_variable_is_missing_is_left_out_with_a_warning(self, machine, place):
        text = written(place, "headers: {'X-A': 'v',\n'X-B': '${KEY}'}")
        settings = machine.load(text)
        assert endpoint(settings, place).headers == {"X-A": "v"}
        (warning,) = settings.warnings
        assert (warning.path, warning.line) == (f"{place}.headers.X-B", 3)


@each(
    ("headers", "found"),
    [
        ("{'X\\nA': 'b'}", "a name that no header can have"),
        ("{' ': 'b'}", "a name that no header can have"),
        ("{'X-A': 5}", "a number"),
        ("{'X-A': 'b\\r\\nX-B: c'}", "a string with control characters"),
    ],
)
def test_a_header_that_would_tear_a_request_is_a_problem(machine, headers, found):
    (problem,) = machine.complaints(written(PLACES[0], f"headers: {headers}"))
    assert problem.message.startswith(f"found {found}, allowed is ")


def test_an_agent_whose_own_key_is_missing_does_not_get_the_one_of_the_defaults(machine):
    text = """{agents: {
      defaults: {memorySearch: {remote: {apiKey: 'sk-shared'}}},
      list: [{id: 'a', memorySearch: {remote: {apiKey: '${MISSING}'}}}],
    }}"""
    remote = machine.load(text).search.remote
    assert remote.api_key is None
    assert "MISSING" in str(remote.api_key_problem)


def test_a_variable_that_is_missing_elsewhere_is_a_problem(machine):
    (problem,) = machine.complaints(
        "{agents: {defaults: {memorySearch: {\nmodel: '${A}-${B}-${A}'}}}}", environment={"B": "b"}
    )
    assert problem.message == "refers to A, which the environment does not set"
    assert problem.line == 2


def test_what_a_variable_holds_is_not_shown_where_it_does_not_belong(machine):
    problems = machine.complaints(
        "{agents: {defaults: {memorySearch: {provider: '${OPENAI_API_KEY}'}}}}",
        environment={"OPENAI_API_KEY": KEY},
    )
    assert KEY not in str(problems)


def test_a_key_at_the_wrong_place_is_not_shown(machine):
    for member in (f"provider: '{KEY}'", f"remote: '{KEY}'", f"remote: {{baseUrl: '{KEY}'}}"):
        problems = machine.complaints(f"{{agents: {{defaults: {{memorySearch: {{{member}}}}}}}}}")
        assert KEY not in str(problems)


class TestModelProviders:
    def test_every_provider_is_kept_with_what_embeddings_need(self, machine):
        settings = machine.load("""{models: {mode: 'merge', providers: {
          openai: {baseUrl: 'https://proxy/v1', apiKey: 'sk-1', models: [{id: 'x'}], auth: 5},
          google: {headers: {'x-a': 'b'}},
          'my.host/x': {baseUrl: 'local:1', apiKey: 'k', api: 'openai-completions'},
          empty: {models: []},
        }}}""")
        assert settings.model_providers == {
            "openai": ModelProviderSettings(base_url="https://proxy/v1", api_key=Secret("sk-1")),
            "google": ModelProviderSettings(headers={"x-a": "b"}),
            "my.host/x": ModelProviderSettings(
                base_url="local:1", api_key=Secret("k"), api="openai-completions"
            ),
        }
        assert settings.warnings == ()

    def test_what_is_wrong_with_a_provider_that_memory_does_not_use_is_not_our_concern(
        self, machine
    ):
        settings = machine.load("""{models: {providers: {
          anthropic: {apiKey: '${ANTHROPIC_API_KEY}', headers: [], baseUrl: 5},
          other: {apiKey: {source: 'exec', id: 'x'}}, broken: 7,
        }}}""")
        assert settings.warnings == ()
        assert settings.model_providers["anthropic"].api_key is None

    @pytest.mark.parametrize("provider", ["openai", "google", "gemini", "voyage"])
    def test_what_is_wrong_with_one_that_memory_uses_is_a_problem(self, machine, provider):
        (problem,) = machine.complaints(
            f"{{models: {{providers: {{{provider}: {{baseUrl: 5}}}}}}}}"
        )
        assert problem.path == f"models.providers.{provider}.baseUrl"

    @pytest.mark.parametrize("key", ["provider", "fallback"])
    def test_mistakes_in_the_entry_of_a_named_provider_are_told(self, machine, key):
        entry = "{models: {providers: {MyHost: {headers: 'x', apiKey: '${NOPE}'}, other: {headers: 'x'}}}"
        warnings = machine.load(f"{entry}, memorySearch: {{{key}: 'myhost'}}}}").warnings
        assert [one.path for one in warnings] == [
            "models.providers.MyHost.headers",
            "models.providers.MyHost.apiKey",
        ]


def test_profiles_and_their_order_are_read_without_secrets(machine):
    settings = machine.load("""{auth: {
      profiles: {
        'openai:work': {provider: 'openai', mode: 'api_key', email: 'a@b'},
        'openai:codex': {provider: 'openai-codex', mode: 'oauth'},
        nameless: {mode: 'token'},
      },
      order: {openai: ['openai:work', ' ', 'openai:codex', 'openai:work'], google: []},
      cooldowns: {x: 1},
    }}""")
    profiles = {name: (p.provider, p.mode) for name, p in settings.auth.profiles.items()}
    assert profiles == {
        "openai:work": ("openai", "api_key"),
        "openai:codex": ("openai-codex", "oauth"),
    }
    assert settings.auth.order == {"openai": ("openai:work", "openai:codex"), "google": ()}
    assert settings.warnings == ()


def test_wrong_types_in_auth_are_problems(machine):
    text = "{auth: {profiles: {a: {provider: 5}}, order: {openai: 'x', google: [1]}}}"
    assert [problem.path for problem in machine.complaints(text)] == [
        "auth.profiles.a.provider",
        "auth.order.openai",
        "auth.order.google[0]",
    ]


DATABASE = "postgresql://gateway:{password}@db.example:5432/memory"


def test_the_address_of_a_database_is_a_secret_that_may_stand_in_a_variable(machine):
    key = "agents.defaults.memorySearch.store"
    address = DATABASE.format(password="pass-word")
    text = written(key, "driver: 'postgres', url: '${MEMORY_DATABASE}'")
    settings = machine.load(text, environment={"MEMORY_DATABASE": address})
    assert settings.search.store.url == Secret(address)
    assert "pass-word" not in repr(settings)
    assert "pass-word" not in json.dumps(describe_json(settings))


def test_an_address_of_a_database_that_cannot_be_read_is_no_other_one(machine):
    text = written("agents.defaults.memorySearch.store", "driver: 'postgres', url: '${MISSING}'")
    store = machine.load(text).search.store
    assert (store.driver, store.url) == ("postgres", None)
    assert "MISSING, which is not set" in store.url_problem
