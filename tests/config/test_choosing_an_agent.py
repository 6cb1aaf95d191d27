"""The choice of the agent, and its directories."""

from __future__ import annotations

import pytest


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
        assert warning.message == "the agent 'opps' is not listed; the listed ones are ops, dev"

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
        (problem,) = machine.complaints(f"{{agents: {{list: [{item}]}}}}")
        assert problem.path == path
        assert message in problem.message

    def test_a_problem_of_another_agent_makes_the_file_invalid_too(self, machine):
        text = "{agents: {list: [{id: 'a'}, {id: 'b', memorySearch: {store: {path: 5}}}]}}"
        (problem,) = machine.problems(text, agent_id="a")
        assert problem.path == "agents.list[1].memorySearch.store.path"

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
