"""Keys that hold lists and objects: extra paths, QMD collections, scope policies."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.settings import ExtraPath, QmdPath, ScopeMatch, ScopePolicy, ScopeRule


def search(text: str) -> str:
    return f"{{agents: {{defaults: {{memorySearch: {{\n{text}\n}}}}}}}}"


class TestExtraPaths:
    def test_they_are_absolute_and_keep_what_was_written(self, machine):
        settings = machine.load(search("extraPaths: ['notes', '~/docs', '/srv/x/../y', '../up']"))
        workspace = machine.state / "workspace"
        assert settings.search.extra_paths == (
            ExtraPath(path=workspace / "notes", raw="notes"),
            ExtraPath(path=machine.home / "docs", raw="~/docs"),
            ExtraPath(path=Path("/srv/y"), raw="/srv/x/../y"),
            ExtraPath(path=machine.state / "up", raw="../up"),
        )

    def test_later_releases_write_objects_with_a_pattern(self, machine):
        settings = machine.load(
            search("extraPaths: [{path: 'a', pattern: '*.md'}, {path: 'b'}, 'c']")
        )
        assert [(extra.raw, extra.pattern) for extra in settings.search.extra_paths] == [
            ("a", "*.md"),
            ("b", None),
            ("c", None),
        ]

    def test_blank_ones_and_repetitions_are_left_out(self, machine):
        text = search("extraPaths: [' ', '', 'a', 'a', ' a ', './a', {path: 'a'}, {path: ''}]")
        settings = machine.load(text)
        assert [extra.raw for extra in settings.search.extra_paths] == ["a"]
        assert settings.warnings == ()

    def test_one_path_may_stand_there_with_two_patterns(self, machine):
        text = search("extraPaths: [{path: 'a', pattern: 'x'}, {path: 'a', pattern: 'y'}]")
        assert len(machine.load(text).search.extra_paths) == 2

    @pytest.mark.parametrize(
        ("item", "path", "message"),
        [
            (
                "5",
                "extraPaths[1]",
                "found a number, allowed is a path as a string, or {path, pattern?, exclude?}",
            ),
            ("null", "extraPaths[1]", "found null"),
            ("['b']", "extraPaths[1]", "found a list"),
            ("{pattern: 'x'}", "extraPaths[1]", "path is missing"),
            ("{path: 5}", "extraPaths[1].path", "found a number"),
            ("{path: 'b', pattern: []}", "extraPaths[1].pattern", "found a list"),
            ("'b\\0c'", "extraPaths[1]", "NUL"),
        ],
    )
    def test_what_is_no_path_is_a_problem_at_its_own_line(self, machine, item, path, message):
        (problem,) = machine.complaints(search(f"extraPaths: ['a',\n{item}]"))
        assert problem.path == f"agents.defaults.memorySearch.{path}"
        assert problem.line == 3
        assert message in problem.message

    def test_an_unknown_member_is_a_warning(self, machine):
        settings = machine.load(search("extraPaths: [{path: 'a', patern: 'x'}]"))
        (warning,) = settings.warnings
        assert warning.path == "agents.defaults.memorySearch.extraPaths[0].patern"
        assert 'did you mean "pattern"?' in warning.message


class TestQmdPaths:
    def paths(self, machine, text):
        return machine.load(f"{{memory: {{qmd: {{paths: {text}}}}}}}").qmd.paths

    def test_name_and_pattern_have_defaults(self, machine):
        assert self.paths(machine, "[{path: 'notes'}]") == (
            QmdPath(path=machine.state / "workspace" / "notes", name="custom-1", pattern="**/*.md"),
        )

    def test_every_member_may_be_given(self, machine):
        (only,) = self.paths(machine, "[{path: '~/d', name: 'docs', pattern: '*.txt'}]")
        assert only == QmdPath(path=machine.home / "d", name="docs", pattern="*.txt")

    def test_a_blank_path_is_left_out_and_the_others_keep_their_number(self, machine):
        paths = self.paths(
            machine, "[{path: '/a'},\n{path: ' ', name: 'x'}, {path: '/c', name: ''}]"
        )
        assert [path.name for path in paths] == ["custom-1", "custom-3"]
        (warning,) = machine.load().warnings
        assert (warning.path, warning.line) == ("memory.qmd.paths[1]", 2)
        assert "left out" in warning.message

    @pytest.mark.parametrize(
        ("text", "path", "message"),
        [
            ("{}", "memory.qmd.paths", "found an object, allowed is a list"),
            ("['a']", "memory.qmd.paths[0]", "found a string, allowed is {path, name?, pattern?}"),
            ("[{name: 'x'}]", "memory.qmd.paths[0]", "path is missing"),
            ("[{path: null}]", "memory.qmd.paths[0]", "path is missing"),
            ("[{path: 'a', name: 5}]", "memory.qmd.paths[0].name", "found a number"),
        ],
    )
    def test_what_is_no_collection_is_a_problem(self, machine, text, path, message):
        (problem,) = machine.problems(f"{{memory: {{qmd: {{paths: {text}}}}}}}")
        assert problem.path == path
        assert message in problem.message


POLICIES = [("memory: {scope: ", "scope", None), ("memory: {qmd: {scope: ", "qmd.scope", "direct")]


class TestScope:
    def test_without_it_the_builtin_index_is_open_and_qmd_answers_direct_chats(self, machine):
        settings = machine.load("{}")
        assert settings.scope is None
        assert settings.qmd.scope == ScopePolicy(
            default="deny",
            rules=(ScopeRule(action="allow", match=ScopeMatch(chat_type="direct")),),
        )

    def test_giving_it_replaces_the_whole_default(self, machine):
        settings = machine.load("{memory: {scope: {}, qmd: {scope: {rules: []}}}}")
        assert settings.scope == settings.qmd.scope == ScopePolicy(default="allow", rules=())

    def test_rules_are_read_in_order_with_all_their_conditions(self, machine):
        text = """{memory: {qmd: {scope: {default: 'deny', rules: [
          {action: 'deny', match: {channel: 'telegram', chatType: 'dm'}},
          {action: 'allow', match: {keyPrefix: 'agent:main:', rawKeyPrefix: 'agent:'}},
          {action: 'allow'}, {action: 'allow', match: {channel: null}},
        ]}}}}"""
        policy = machine.load(text).qmd.scope
        assert policy.default == "deny"
        assert policy.rules == (
            ScopeRule(action="deny", match=ScopeMatch(channel="telegram", chat_type="dm")),
            ScopeRule(
                action="allow",
                match=ScopeMatch(key_prefix="agent:main:", raw_key_prefix="agent:"),
            ),
            ScopeRule(action="allow"),
            ScopeRule(action="allow"),
        )

    @pytest.mark.parametrize("place", ["memory: {scope: ", "memory: {qmd: {scope: "])
    @pytest.mark.parametrize(
        ("policy", "path", "message"),
        [
            ("{default: 'maybe'}", ".default", 'found "maybe", allowed is one of "allow", "deny"'),
            ("{rules: {}}", ".rules", "found an object, allowed is a list"),
            ("{rules: [5]}", ".rules[0]", "found a number"),
            ("{rules: [{}]}", ".rules[0]", "action is missing"),
            ("{rules: [{action: 'drop'}]}", ".rules[0].action", 'found "drop"'),
            ("{rules: [{action: 'allow', match: 'x'}]}", ".rules[0].match", "found a string"),
            (
                "{rules: [{action: 'allow', match: {chatType: 'room'}}]}",
                ".rules[0].match.chatType",
                'found "room", allowed is one of "direct", "group", "channel", "dm"',
            ),
            (
                "{rules: [{action: 'allow', match: {channel: 5}}]}",
                ".rules[0].match.channel",
                "a number",
            ),
            ("true", "", "found true, allowed is {default?, rules?}"),
        ],
    )
    def test_a_wrong_policy_is_a_problem(self, machine, place, policy, path, message):
        closing = "}" * place.count("{")
        (problem,) = machine.problems(f"{{{place}{policy}{closing}}}")
        assert problem.path is not None
        assert problem.path.endswith(f"scope{path}")
        assert message in problem.message

    @pytest.mark.parametrize(
        ("policy", "path"),
        [
            ("{rules: [{action: 'allow', match: {chanel: 'x'}}]}", "scope.rules[0].match.chanel"),
            ("{rules: [{action: 'allow', mach: {}}]}", "scope.rules[0].mach"),
            ("{defualt: 'deny'}", "scope.defualt"),
            ("{rules: [{action: 'allow', match: {channel: ' '}}]}", "scope.rules[0].match.channel"),
        ],
    )
    def test_a_condition_that_is_not_understood_is_never_skipped(self, machine, policy, path):
        (problem,) = machine.problems(f"{{memory: {{scope: {policy}}}}}")
        assert problem.path == f"memory.{path}"
