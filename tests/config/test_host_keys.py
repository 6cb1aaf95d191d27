"""Limits on the effects of a host's configuration on us, and the place of our own keys in it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from config.host_keys import SEARCH, is_disabled, switches, tolerates, why_disabled
from config.sections import SECTIONS

HOME = "plugins.entries.memory-gateway.config"


def at_home(members: str) -> str:
    return (
        f"{{plugins: {{entries: {{'memory-gateway': {{enabled: true, config: {{{members}}}}}}}}}}}"
    )


class TestKeysOfTheHosts:
    @pytest.mark.parametrize(
        "text",
        [
            "{memory: 5}",
            "{memory: {search: []}}",
            "{memory: {search: {remote: 7, query: 'x', store: true}}}",
            "{agents: {entries: [], list: {}, defaults: 1}}",
            "{models: {providers: 3}, auth: {order: 5, profiles: []}, plugins: {slots: 1}}",
            "{agents: {entries: {main: {memory: {search: {sources: 'x', extraPaths: [5, {}]}}}}}}",
        ],
    )
    def test_whatever_they_hold_we_serve_and_warn(self, machine, text):
        settings = machine.load(text)
        assert settings.warnings
        assert all(warning.line == 1 and warning.path for warning in settings.warnings)

    @pytest.mark.parametrize(
        "text",
        [
            "{memory: {backend: 'x'}}",
            "{memory: {qmd: 5}}",
            "{memory: {scope: {rules: [{action: 'deny', match: {chanel: 'x'}}]}}}",
            "{memory: {search: {store: {path: 5}}}}",
            "{memory: {search: {query: {decay: {enabled: 'x'}}}}}",
            "{memorySearch: {chunking: {tokens: 0}}}",
            at_home("backend: 'x'"),
            at_home("scope: {default: 'maybe'}"),
            at_home("search: {provider: 5}"),
            at_home("search: 5"),
            at_home("agents: {main: {search: {enabled: 'no'}}}"),
            "{plugins: {entries: {'memory-gateway': {config: 5}}}}",
        ],
    )
    def test_our_own_stay_strict(self, machine, text):
        assert machine.problems(text)

    def test_the_table_names_only_keys_that_we_know_or_say_why_not(self):
        (search,) = [section for section in SECTIONS if section.name == "memorySearch"]
        known = {key.path for key in search.keys} | {path for path, _ in search.retired}
        assert set(SEARCH) <= known

    def test_the_way_to_a_key_is_as_tolerant_as_the_key(self):
        for place in (
            "memory.search",
            "agents.defaults.memorySearch",
            "agents.entries.x.memory.search",
        ):
            base = tuple(place.split("."))
            assert tolerates(base)
            assert tolerates((*base, "remote", "headers", "X-A"))
            assert not tolerates((*base, "remote", "batch", "wait"))
            assert not tolerates((*base, "storage"))


class TestWhatCannotBeRead:
    def test_an_address_takes_its_key_along(self, machine):
        settings = machine.load(
            "{memory: {search: {provider: 'openai', remote: {baseUrl: '${NOT_SET}', apiKey: 'sk-x'}}}}",
            environment={"OPENAI_API_KEY": "sk-other"},
        )
        remote = settings.search.remote
        assert (remote.base_url, remote.api_key) == (None, None)
        assert remote.api_key_problem == "remote.baseUrl cannot be read"
        assert [one.message.split(";")[0] for one in settings.warnings] == [
            "refers to NOT_SET, which the environment does not set",
            "until it is corrected, no key is sent to any other address",
        ]

    @pytest.mark.parametrize("value", ["5", "[]", "{}", "'a\\u0000b'"])
    def test_for_a_key_no_other_stands_in(self, machine, value):
        settings = machine.load(
            f"{{memory: {{search: {{remote: {{apiKey: {value}}}}}}}}}",
            environment={"OPENAI_API_KEY": "sk-other"},
        )
        assert settings.search.remote.api_key_problem
        assert settings.search.remote.api_key is None

    @pytest.mark.parametrize("member", ["baseUrl: '${NOT_SET}', apiKey: 'sk-x'", "apiKey: 5"])
    def test_a_model_provider_is_treated_alike(self, machine, member):
        settings = machine.load(f"{{models: {{providers: {{openai: {{{member}}}}}}}}}")
        assert settings.model_providers["openai"].api_key_problem

    @pytest.mark.parametrize(
        "address", ["'ftp://x/v1'", "'proxy.example/v1'", "'${NOT_SET}'", "17"]
    )
    def test_an_address_takes_the_headers_along(self, machine, address):
        settings = machine.load(
            f"""{{memory: {{search: {{remote: {{
                baseUrl: {address}, headers: {{Authorization: 'Bearer sk-x'}}}}}}}}}}"""
        )
        remote = settings.search.remote
        assert (remote.base_url, remote.api_key, dict(remote.headers)) == (None, None, {})
        assert remote.api_key_problem

    @pytest.mark.parametrize("address", ["'${NOT_SET}'", "17"])
    def test_an_address_of_a_model_provider_takes_key_and_headers_along(self, machine, address):
        text = f"""{{models: {{providers: {{openai: {{baseUrl: {address}, apiKey: 'sk-x',
            headers: {{Authorization: 'Bearer sk-x'}}}}}}}}}}"""
        provider = machine.load(text).model_providers["openai"]
        assert (provider.base_url, provider.api_key, dict(provider.headers)) == (None, None, {})
        assert provider.base_url_problem and provider.api_key_problem

    def test_a_provider_is_not_replaced_by_one_that_was_not_meant(self, machine):
        settings = machine.load("{memory: {search: {provider: '${NOT_SET}'}}}")
        assert settings.search.provider == "none"

    def test_what_was_perhaps_meant_to_be_off_is_off(self, machine):
        settings = machine.load("{memory: {search: {enabled: 'no'}}}")
        assert is_disabled(settings)
        assert "memory.search.enabled" in why_disabled(settings)

    def test_another_agents_does_not_matter(self, machine):
        text = "{agents: {list: [{id: 'a'}, {id: 'b', memory: {search: {remote: {baseUrl: 5}}}}]}}"
        assert machine.load(text, agent_id="a").warnings == ()


class TestOurHome:
    def test_everything_may_stand_there_and_config_says_so(self, machine):
        settings = machine.load(
            at_home("""backend: 'qmd', qmd: {command: 'qmd2'}, append: {enabled: true},
              scope: {default: 'deny'}, compaction: {memoryFlush: {prompt: 'Write.'}},
              search: {model: 'm', store: {vector: {engine: 'numpy'}}, chunking: {tokens: 100}},
              dreaming: {enabled: true}, recall: true""")
        )
        assert settings.warnings == ()
        assert (settings.backend, settings.qmd.command, settings.append_enabled) == (
            "qmd",
            "qmd2",
            True,
        )
        assert settings.scope is not None and settings.scope.default == "deny"
        assert settings.compaction.memory_flush.prompt == "Write."
        search = settings.search
        assert (search.model, search.store.vector.engine, search.chunking.tokens) == (
            "m",
            "numpy",
            100,
        )
        assert settings.origins["backend"].detail == f"{HOME}.backend, line 1"

    def test_it_wins_over_the_older_places_and_an_agent_over_it(self, machine):
        text = """{
          memory: {search: {model: 'host', fallback: 'voyage', query: {maxResults: 3}}},
          agents: {defaults: {memorySearch: {model: 'older'}},
                   entries: {ops: {memory: {search: {query: {maxResults: 9}}}}}},
          plugins: {entries: {'memory-gateway': {config: {
            search: {model: 'home', query: {maxResults: 5}},
            agents: {OPS: {search: {chunking: {tokens: 50}}}, other: {search: {model: 'own'}}}}}}},
        }"""
        ops = machine.load(text, agent_id="ops")
        assert (ops.search.model, ops.search.fallback) == ("home", "voyage")
        assert (ops.search.query.max_results, ops.search.chunking.tokens) == (9, 50)
        assert ops.warnings == ()
        assert machine.load(text, agent_id="other").search.model == "own"

    def test_an_agent_that_only_our_home_names_is_not_listed(self, machine):
        settings = machine.load(at_home("agents: {ops: {search: {model: 'x'}}}"))
        assert (settings.agent_id, settings.search.model) == ("main", None)

    def test_an_unknown_key_is_a_warning_with_the_nearest(self, machine):
        (warning,) = machine.load(at_home("serch: {}")).warnings
        assert warning.path == f"{HOME}.serch"
        assert 'did you mean "search"?' in warning.message

    def test_two_agents_with_one_index_stay_an_error(self, machine):
        text = at_home("search: {store: {path: '/x/one.sqlite'}}")[:-1]
        text += ", agents: {entries: {a: {}, b: {}}}}"
        assert "would share the index" in machine.problems(text)[0].message


class TestSwitches:
    NONE = "{plugins: {slots: {memory: 'none'}}}"
    OTHER = "{plugins: {slots: {memory: 'memory-lancedb'}}}"
    SEARCH_OFF = "{memory: {search: {enabled: false}}}"

    @pytest.mark.parametrize("text", [NONE, OTHER, SEARCH_OFF])
    @pytest.mark.parametrize("started_as", ["service", "mcp", "plugin", "command"])
    def test_what_is_about_the_hosts_own_memory_silences_only_its_sidecar(
        self, machine, text, started_as
    ):
        settings = machine.load(text)
        assert is_disabled(settings)
        goes_on = replace(settings, started_as=started_as)
        assert not is_disabled(goes_on)
        (switch,) = switches(goes_on)
        assert not switch.obeyed
        assert "This gateway was started" in switch.reason

    @pytest.mark.parametrize("slot", ["memory-core", "memory-gateway"])
    def test_the_slots_of_the_hosts_own_and_of_ours_are_no_switch(self, machine, slot):
        assert switches(machine.load(f"{{plugins: {{slots: {{memory: '{slot}'}}}}}}")) == ()

    def test_in_its_slot_our_plugin_does_not_heed_the_hosts_search(self, machine):
        settings = machine.load(
            "{plugins: {slots: {memory: 'memory-gateway'}}, memory: {search: {enabled: false}}}"
        )
        assert not is_disabled(settings)

    @pytest.mark.parametrize(
        "text",
        [
            at_home("search: {enabled: false}"),
            "{agents: {defaults: {memorySearch: {enabled: false}}}}",
            "{agents: {list: [{id: 'main', memorySearch: {enabled: false}}]}}",
            at_home("agents: {main: {search: {enabled: false}}}"),
        ],
    )
    @pytest.mark.parametrize("started_as", ["sidecar", "service", "mcp", "plugin", "command"])
    def test_ours_is_obeyed_by_all(self, machine, text, started_as):
        settings = replace(machine.load(text), started_as=started_as)
        assert is_disabled(settings)
        assert "enabled = false; set it to true" in why_disabled(settings)

    def test_ours_switches_on_what_the_hosts_key_switches_off(self, machine):
        text = at_home("search: {enabled: true}")[:-1] + ", memory: {search: {enabled: false}}}"
        assert not is_disabled(machine.load(text))


class TestRemembering:
    @pytest.mark.parametrize(
        ("members", "sources", "private"),
        [
            ("", ("memory",), False),
            ("rememberAcrossConversations: true", ("memory", "sessions"), True),
            ("rememberAcrossConversations: false", ("memory",), False),
            ("rememberAcrossConversations: true, sources: ['memory']", ("memory", "sessions"), True),
            ("rememberAcrossConversations: true, sources: ['sessions']", ("sessions",), True),
            ("rememberAcrossConversations: true, sources: ['sessions'], experimental: {sessionMemory: true}",
             ("sessions",), False),
            ("experimental: {sessionMemory: true}, sources: ['memory', 'sessions']",
             ("memory", "sessions"), False),
            ("sources: ['memory', 'sessions']", ("memory",), False),
        ],
    )  # fmt: skip
    def test_it_adds_transcripts_for_private_conversations(
        self, machine, members, sources, private
    ):
        search = machine.load(f"{{memory: {{search: {{{members}}}}}}}").search
        assert (search.sources, search.sessions_in_private_only) == (sources, private)
