"""Built-in values, defaults and an agent's own keys, and which of them applies."""

from __future__ import annotations

import pytest


def two_levels(defaults: str, agent: str) -> str:
    return f"""{{agents: {{
      defaults: {{memorySearch: {{{defaults}}}}},
      list: [{{id: 'ops', memorySearch: {{{agent}}}}}, {{id: 'other'}}],
    }}}}"""


class TestLevels:
    def test_an_agents_leaf_beats_the_defaults_and_those_beat_what_is_built_in(self, machine):
        text = two_levels(
            "query: {maxResults: 8, minScore: 0.2}, chunking: {tokens: 300}",
            "query: {maxResults: 3}, sync: {watch: false}",
        )
        settings = machine.load(text, agent_id="ops")
        assert settings.search.query.max_results == 3
        assert settings.search.query.min_score == 0.2
        assert settings.search.chunking.tokens == 300
        assert settings.search.sync.watch is False
        assert settings.search.chunking.overlap == 80

    def test_another_agents_values_do_not_apply(self, machine):
        settings = machine.load(two_levels("", "query: {maxResults: 3}"), agent_id="other")
        assert settings.search.query.max_results == 6

    def test_null_does_not_override(self, machine):
        text = two_levels("query: {maxResults: 8}", "query: {maxResults: null}, sync: null")
        assert machine.load(text).search.query.max_results == 8

    @pytest.mark.parametrize(
        ("defaults", "agent", "enabled"), [("true", "false", False), ("false", "true", True)]
    )
    def test_false_and_zero_do_override(self, machine, defaults, agent, enabled):
        text = two_levels(f"enabled: {defaults}", f"enabled: {agent}, sync: {{watchDebounceMs: 0}}")
        settings = machine.load(text)
        assert settings.search.enabled is enabled
        assert settings.search.sync.watch_debounce_ms == 0

    def test_extra_paths_of_the_defaults_come_before_those_of_the_agent(self, machine):
        text = two_levels("extraPaths: ['/a', '/b']", "extraPaths: ['/c', '/a']")
        paths = [extra.raw for extra in machine.load(text).search.extra_paths]
        assert paths == ["/a", "/b", "/c"]

    def test_headers_are_replaced_whole(self, machine):
        text = two_levels(
            "remote: {baseUrl: 'https://d/', headers: {a: '1', b: '2'}}",
            "remote: {headers: {c: '3'}}",
        )
        remote = machine.load(text).search.remote
        assert remote.headers == {"c": "3"}
        assert remote.base_url == "https://d/"

    def test_sources_are_replaced_whole(self, machine):
        text = two_levels(
            "sources: ['memory', 'sessions'], experimental: {sessionMemory: true}",
            "sources: ['sessions']",
        )
        assert machine.load(text).search.sources == ("sessions",)

    def test_the_agent_is_found_by_its_normalised_id(self, machine):
        text = "{agents: {list: [{id: ' My Agent', memorySearch: {model: 'm'}}]}}"
        settings = machine.load(text, agent_id="MY agent")
        assert (settings.agent_id, settings.search.model) == ("my-agent", "m")

    def test_of_two_agents_with_one_id_only_the_first_counts(self, machine):
        text = """{agents: {list: [
          {id: 'a', memorySearch: {model: 'first'}},
          {id: 'A', memorySearch: {model: 'second', cache: {maxEntries: 5}}},
        ]}}"""
        settings = machine.load(text)
        assert settings.search.model == "first"
        assert settings.search.cache.max_entries is None
        (warning,) = settings.warnings
        assert (warning.path, warning.line) == ("agents.list[1]", 3)
