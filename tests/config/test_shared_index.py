"""Two agents must not write one index."""

from __future__ import annotations

import pytest


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

    def test_a_link_to_the_directory_of_another_is_its_place(self, machine):
        (machine.home / "i").mkdir()
        (machine.home / "j").symlink_to("i")
        text = self.shared("store: {path: '~/i/x'}", "store: {path: '~/j/x'}")
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
