"""The places that other releases use for the same keys."""

from __future__ import annotations

import pytest


def two_levels(defaults: str, agent: str) -> str:
    return f"""{{agents: {{
      defaults: {{memorySearch: {{{defaults}}}}},
      list: [{{id: 'ops', memorySearch: {{{agent}}}}}, {{id: 'other'}}],
    }}}}"""


class TestPlacesOfOtherReleases:
    @pytest.mark.parametrize(
        "text",
        [
            "{memory: {search: {model: 'm', query: {maxResults: 9}}}}",
            "{memorySearch: {model: 'm', query: {maxResults: 9}}}",
            "{agents: {entries: {main: {memory: {search: {model: 'm', query: {maxResults: 9}}}}}}}",
        ],
    )
    def test_they_are_read_without_a_warning(self, machine, text):
        settings = machine.load(text)
        assert (settings.search.model, settings.search.query.max_results) == ("m", 9)
        assert settings.warnings == ()

    def test_the_documented_place_wins_leaf_by_leaf_with_a_warning(self, machine):
        settings = machine.load("""{
          memory: {search: {model: 'later', fallback: 'voyage'}},
          memorySearch: {model: 'oldest', provider: 'local'},
          agents: {defaults: {memorySearch: {model: 'documented'}}},
        }""")
        search = settings.search
        assert (search.model, search.fallback, search.provider) == ("documented", "voyage", "local")
        assert [(w.path, w.line) for w in settings.warnings] == [
            ("memory.search.model", 2),
            ("memorySearch.model", 3),
        ]
        winner = "agents.defaults.memorySearch.model, line 4"
        assert all(winner in warning.message for warning in settings.warnings)

    def test_the_same_value_at_two_places_is_no_warning(self, machine):
        settings = machine.load("""{
          memory: {search: {model: 'm'}}, agents: {defaults: {memorySearch: {model: 'm'}}},
        }""")
        assert settings.warnings == ()

    def test_an_agents_later_place_still_beats_the_documented_defaults(self, machine):
        settings = machine.load("""{agents: {
          defaults: {memorySearch: {model: 'shared'}},
          entries: {ops: {memory: {search: {model: 'own'}}}},
        }}""")
        assert (settings.agent_id, settings.search.model) == ("ops", "own")

    def test_for_one_agent_the_list_wins_over_the_map(self, machine):
        settings = machine.load("""{agents: {
          list: [{id: 'ops', workspace: '/listed', memorySearch: {model: 'listed'}}],
          entries: {OPS: {workspace: '/mapped', agentDir: '/d', memory: {search: {model: 'mapped'}}}},
        }}""")
        assert settings.search.model == "listed"
        assert (str(settings.workspace), str(settings.agent_dir)) == ("/listed", "/d")
        assert len(settings.warnings) == 2

    def test_extra_paths_of_every_level_join_whatever_the_place(self, machine):
        settings = machine.load("""{
          memory: {search: {extraPaths: ['/a', {path: '/b', pattern: '*.md'}]}},
          agents: {entries: {main: {memory: {search: {extraPaths: ['/c']}}}}},
        }""")
        assert [extra.raw for extra in settings.search.extra_paths] == ["/a", "/b", "/c"]

    def test_decay_has_a_later_name(self, machine):
        text = two_levels("query: {hybrid: {temporalDecay: {enabled: true, halfLifeDays: 7}}}", "")
        settings = machine.load(text)
        decay = settings.search.query.decay
        assert (decay.enabled, decay.half_life_days) == (True, 7.0)
        assert settings.warnings == ()

    def test_decay_under_its_own_name_wins(self, machine):
        text = two_levels(
            "query: {decay: {halfLifeDays: 5}, hybrid: {temporalDecay: {halfLifeDays: 7}}}", ""
        )
        settings = machine.load(text)
        assert settings.search.query.decay.half_life_days == 5.0
        assert "temporalDecay" in settings.warnings[0].path
