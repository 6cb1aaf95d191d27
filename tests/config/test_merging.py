"""Defaults, agents, and the places of other releases: which value applies."""

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


class TestTiedKeys:
    @pytest.mark.parametrize(
        ("weights", "vector"),
        [
            ("vectorWeight: 1, textWeight: 1", 0.5),
            ("vectorWeight: 0.2, textWeight: 0.2", 0.5),
            ("vectorWeight: 0.9, textWeight: 0.1", 0.9),
            ("vectorWeight: 0, textWeight: 0.5", 0.0),
            ("vectorWeight: 1, textWeight: 0", 1.0),
            ("vectorWeight: 1", 1 / 1.3),
            ("textWeight: 1", 0.7 / 1.7),
            ("vectorWeight: 0, textWeight: 0", 0.7),
        ],
    )
    def test_the_weights_add_up_to_one(self, machine, weights, vector):
        hybrid = machine.load(
            two_levels(f"query: {{hybrid: {{{weights}}}}}", "")
        ).search.query.hybrid
        assert hybrid.vector_weight == pytest.approx(vector)
        assert hybrid.vector_weight + hybrid.text_weight == pytest.approx(1)

    def test_weights_from_two_levels_are_divided_together(self, machine):
        text = two_levels("query: {hybrid: {vectorWeight: 1}}", "query: {hybrid: {textWeight: 1}}")
        assert machine.load(text).search.query.hybrid.vector_weight == 0.5

    def test_two_zeros_are_a_warning(self, machine):
        text = two_levels("query: {hybrid: {\nvectorWeight: 0, textWeight: 0}}", "")
        (warning,) = machine.load(text).warnings
        assert warning.path == "agents.defaults.memorySearch.query.hybrid.vectorWeight"
        assert "both 0; the defaults apply" in warning.message
        assert warning.line == 3

    def test_a_small_chunk_limits_the_default_overlap_without_a_warning(self, machine):
        settings = machine.load(two_levels("chunking: {tokens: 50}", ""))
        assert settings.search.chunking.overlap == 49
        assert settings.warnings == ()
        assert settings.origins["memorySearch.chunking.overlap"].kind == "derived"

    def test_a_chunk_of_one_token_has_no_overlap(self, machine):
        chunking = machine.load(two_levels("chunking: {tokens: 1}", "")).search.chunking
        assert (chunking.tokens, chunking.overlap) == (1, 0)

    def test_an_agents_smaller_chunk_limits_the_overlap_of_the_defaults(self, machine):
        text = two_levels("chunking: {overlap: 100}", "chunking: {tokens: 60}")
        settings = machine.load(text)
        assert settings.search.chunking.overlap == 59
        assert "100 is not less than the 60 tokens" in settings.warnings[0].message

    def test_sessions_need_permission_and_the_warning_says_so(self, machine):
        settings = machine.load(two_levels("\nsources: ['sessions', 'memory']", ""))
        assert settings.search.sources == ("memory",)
        (warning,) = settings.warnings
        assert "needs experimental.sessionMemory: true" in warning.message
        assert (warning.path, warning.line) == ("agents.defaults.memorySearch.sources", 3)

    def test_permission_of_the_defaults_is_enough(self, machine):
        text = two_levels("experimental: {sessionMemory: true}", "sources: ['memory', 'sessions']")
        settings = machine.load(text)
        assert settings.search.sources == ("memory", "sessions")
        assert settings.search.session_memory is True
        assert settings.warnings == ()

    def test_an_agent_may_withdraw_permission(self, machine):
        text = two_levels(
            "experimental: {sessionMemory: true}, sources: ['memory', 'sessions']",
            "experimental: {sessionMemory: false}",
        )
        assert machine.load(text).search.sources == ("memory",)

    def test_permission_alone_does_not_add_sessions(self, machine):
        settings = machine.load(two_levels("experimental: {sessionMemory: true}", ""))
        assert settings.search.sources == ("memory",)

    @pytest.mark.parametrize(
        ("keys", "query", "document"),
        [
            ("inputType: 'x'", "x", "x"),
            ("inputType: 'x', queryInputType: 'q'", "q", "x"),
            ("inputType: 'x', documentInputType: 'd'", "x", "d"),
            ("queryInputType: 'q'", "q", None),
        ],
    )
    def test_one_input_type_sets_both_unless_they_are_given(self, machine, keys, query, document):
        search = machine.load(two_levels(keys, "")).search
        assert (search.query_input_type, search.document_input_type) == (query, document)


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


class TestAgents:
    def test_without_a_list_any_agent_may_be_asked_for(self, machine):
        settings = machine.load("{}", agent_id="Ops")
        assert settings.agent_id == "ops"
        assert settings.warnings == ()

    def test_main_may_always_be_asked_for(self, machine):
        settings = machine.load("{agents: {list: [{id: 'ops'}]}}", agent_id="main")
        assert settings.agent_id == "main"
        assert settings.warnings == ()

    def test_an_agent_that_is_not_listed_is_a_warning(self, machine):
        settings = machine.load("{agents: {list: [{id: 'ops'}, {id: 'dev'}]}}", agent_id="opps")
        assert settings.agent_id == "opps"
        (warning,) = settings.warnings
        assert warning.message == "the agent 'opps' is not listed; listed are ops, dev"

    @pytest.mark.parametrize(
        ("agents", "agent_id"),
        [
            ("list: [{id: 'a'}, {id: 'b'}]", "a"),
            ("list: [{id: 'a'}, {id: 'b', default: true}]", "b"),
            ("entries: {x: {}, y: {default: true}}", "y"),
            ("list: [{id: 'a'}], entries: {x: {default: true}}", "x"),
            ("list: []", "main"),
        ],
    )
    def test_without_a_wish_it_is_the_default_agent(self, machine, agents, agent_id):
        assert machine.load(f"{{agents: {{{agents}}}}}").agent_id == agent_id

    @pytest.mark.parametrize(
        ("item", "path", "message"),
        [
            ("{}", "agents.list[0]", "id is missing, allowed is a string"),
            ("{id: 5}", "agents.list[0].id", "found a number"),
            ("'main'", "agents.list[0]", "found a string, allowed is an object"),
            ("{id: 'a', default: 1}", "agents.list[0].default", "allowed is true or false"),
            ("{id: 'a', workspace: 1}", "agents.list[0].workspace", "a path as a string"),
            ("{id: 'a', memorySearch: []}", "agents.list[0].memorySearch", "allowed is an object"),
        ],
    )
    def test_a_wrong_entry_is_a_problem(self, machine, item, path, message):
        (problem,) = machine.problems(f"{{agents: {{list: [{item}]}}}}")
        assert problem.path == path
        assert message in problem.message

    def test_a_problem_of_another_agent_makes_the_file_invalid_too(self, machine):
        text = "{agents: {list: [{id: 'a'}, {id: 'b', memorySearch: {enabled: 5}}]}}"
        (problem,) = machine.problems(text, agent_id="a")
        assert problem.path == "agents.list[1].memorySearch.enabled"

    def test_a_warning_about_another_agent_is_for_its_own_process(self, machine):
        text = """{agents: {list: [{id: 'a'}, {id: 'b', memorySearch: {
          enabeld: true, query: {minScore: 7}, remote: {apiKey: '${MISSING}'}}}]}}"""
        assert machine.load(text, agent_id="a").warnings == ()
        assert len(machine.load(text, agent_id="b").warnings) == 3


class TestWorkspace:
    TEXT = """{agents: {
      defaults: {workspace: '~/shared'},
      list: [{id: 'first'}, {id: 'own', workspace: '~/own'}, {id: 'third'}],
    }}"""

    def test_the_default_agent_has_the_one_of_the_defaults(self, machine):
        settings = machine.load(self.TEXT)
        assert settings.workspace == machine.home / "shared"
        assert settings.origins["workspace"].detail == "agents.defaults.workspace, line 2"

    def test_an_agents_own_one_comes_first(self, machine):
        settings = machine.load(self.TEXT, agent_id="own")
        assert settings.workspace == machine.home / "own"
        assert settings.origins["workspace"].detail == "agents.list[1].workspace, line 3"

    def test_other_agents_have_theirs_in_the_state_directory(self, machine):
        settings = machine.load(self.TEXT, agent_id="third")
        assert settings.workspace == machine.state / "workspace-third"
        assert settings.origins["workspace"].kind == "default"

    def test_the_command_line_comes_before_everything(self, machine):
        settings = machine.load(self.TEXT, agent_id="own", workspace="here")
        assert settings.workspace == machine.cwd / "here"
        assert settings.origins["workspace"].kind == "command-line"

    def test_paths_inside_the_workspace_follow_it(self, machine):
        text = "{agents: {defaults: {memorySearch: {extraPaths: ['x']}}}}"
        settings = machine.load(text, workspace="/w")
        assert str(settings.search.extra_paths[0].path) == "/w/x"

    def test_a_relative_agent_directory_is_taken_from_the_working_directory(self, machine):
        settings = machine.load("{agents: {list: [{id: 'a', agentDir: 'd'}]}}")
        assert settings.agent_dir == machine.cwd / "d"
        assert settings.sessions_dir == machine.state / "agents" / "a" / "sessions"


class TestSharedIndex:
    def shared(self, first: str, second: str, defaults: str = "") -> str:
        return f"""{{agents: {{defaults: {{memorySearch: {{{defaults}}}}}, list: [
          {{id: 'a', memorySearch: {{{first}}}}},
          {{id: 'b', memorySearch: {{{second}}}}}]}}}}"""

    def test_one_path_for_two_agents_is_refused_naming_both(self, machine):
        text = self.shared("", "", "\nstore: {path: '~/index.sqlite'}")
        for agent_id, other in (("a", "b"), ("b", "a")):
            (problem,) = machine.problems(text, agent_id=agent_id)
            assert f"the agents '{agent_id}' and '{other}' would share the index" in problem.message
            assert str(machine.home / "index.sqlite") in problem.message
            assert "write {agentId} into the path" in problem.message
            assert problem.path == "agents.defaults.memorySearch.store.path"
            assert problem.line == 2

    def test_the_token_keeps_them_apart(self, machine):
        text = self.shared("", "", "store: {path: '~/{agentId}.sqlite'}")
        assert machine.load(text).search.store.path == machine.home / "a.sqlite"

    def test_an_agent_of_its_own_place_is_apart(self, machine):
        text = self.shared("store: {path: '/x'}", "store: {path: '/y'}", "store: {path: '/z'}")
        assert str(machine.load(text, agent_id="b").search.store.path) == "/y"

    def test_two_spellings_of_one_path_are_one(self, machine):
        text = self.shared("store: {path: '/x/../i'}", "store: {path: '/i'}")
        assert len(machine.problems(text)) == 1

    def test_taking_the_default_place_of_another_agent_is_refused(self, machine):
        text = self.shared("store: {path: '~/.openclaw/memory/b.sqlite'}", "")
        (problem,) = machine.problems(text, agent_id="b")
        assert problem.path == "agents.list[0].memorySearch.store.path"

    @pytest.mark.parametrize("agent_id", ["a", "b"])
    def test_an_agent_without_memory_search_shares_nothing(self, machine, agent_id):
        text = self.shared("", "enabled: false", "store: {path: '/i'}")
        assert machine.load(text, agent_id=agent_id).agent_id == agent_id

    def test_an_agent_that_is_not_listed_may_not_take_the_place_of_one_that_is(self, machine):
        text = self.shared("", "store: {path: '/j'}", "store: {path: '/i'}")
        (problem,) = machine.problems(text, agent_id="c")
        assert "'c' and 'a'" in problem.message

    def test_one_agent_alone_needs_no_token(self, machine):
        text = "{agents: {defaults: {memorySearch: {store: {path: '/i'}}}, list: [{id: 'a'}]}}"
        assert str(machine.load(text).search.store.path) == "/i"
