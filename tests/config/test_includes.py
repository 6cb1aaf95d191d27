"""`$include`: a configuration in several files."""

from __future__ import annotations

import pytest

from config.errors import ConfigInvalidError


def model(settings) -> str | None:
    return settings.search.model


def test_an_object_may_come_from_another_file(machine):
    machine.write("{defaults: {memorySearch: {model: 'm'}}}", machine.state / "agents.json5")
    settings = machine.load("{agents: {$include: './agents.json5'}}")
    assert model(settings) == "m"
    detail = settings.origins["model"].detail
    assert detail == "agents.defaults.memorySearch.model, line 1 of agents.json5"


def test_a_list_may_come_from_another_file(machine):
    machine.write("[{id: 'ops', memorySearch: {model: 'm'}}]", machine.state / "list.json5")
    settings = machine.load("{agents: {list: {$include: 'list.json5'}}}")
    assert (settings.agent_id, model(settings)) == ("ops", "m")


def test_members_beside_an_include_win_over_it(machine):
    machine.write(
        "{memorySearch: {model: 'included', provider: 'openai'}}", machine.state / "defaults.json5"
    )
    settings = machine.load(
        "{agents: {defaults: {$include: 'defaults.json5', memorySearch: {model: 'own'}}}}"
    )
    assert model(settings) == "own"
    assert settings.search.provider == "openai"


def test_of_several_files_the_later_wins_and_lists_are_joined(machine):
    machine.write("{model: 'a', extraPaths: ['/a'], fallback: 'local'}", machine.state / "a.json5")
    machine.write("{model: 'b', extraPaths: ['/b']}", machine.state / "b.json5")
    settings = machine.load(
        "{agents: {defaults: {memorySearch: {$include: ['a.json5', 'b.json5']}}}}"
    )
    assert model(settings) == "b"
    assert settings.search.fallback == "local"
    assert [extra.raw for extra in settings.search.extra_paths] == ["/a", "/b"]


def test_paths_are_relative_to_the_file_they_stand_in(machine):
    machine.write("{$include: '../outer.json5'}", machine.state / "sub" / "inner.json5")
    machine.write("{memorySearch: {model: 'm'}}", machine.state / "outer.json5")
    settings = machine.load("{agents: {defaults: {$include: 'sub/inner.json5'}}}")
    assert model(settings) == "m"


def test_an_absolute_path_is_taken_as_it_is(machine):
    path = machine.write("{model: 'm'}", machine.home / "elsewhere" / "x.json5")
    assert model(machine.load(f"{{memory: {{search: {{$include: '{path}'}}}}}}")) == "m"


def test_includes_inside_lists_are_filled_in(machine):
    machine.write("{id: 'ops', memorySearch: {model: 'm'}}", machine.state / "ops.json5")
    settings = machine.load("{agents: {list: [{$include: 'ops.json5'}]}}")
    assert (settings.agent_id, model(settings)) == ("ops", "m")


def test_an_empty_list_of_files_includes_nothing(machine):
    settings = machine.load("{memory: {$include: []}, memorySearch: {$include: [], model: 'm'}}")
    assert model(settings) == "m"


def test_a_problem_in_an_included_file_names_that_file(machine):
    path = machine.write("{\n memorySearch: {provider: 5}}", machine.state / "d.json5")
    (problem,) = machine.complaints("{agents: {defaults: {$include: 'd.json5'}}}")
    assert (problem.file, problem.line) == (str(path), 2)
    assert problem.path == "agents.defaults.memorySearch.provider"


def test_a_warning_in_an_included_file_names_that_file(machine):
    path = machine.write("{\n\n modell: 'x'}", machine.state / "d.json5")
    (warning,) = machine.load("{memory: {search: {$include: 'd.json5'}}}").warnings
    assert (warning.file, warning.line) == (str(path), 3)


def test_a_syntax_error_in_an_included_file_names_that_file(machine):
    path = machine.write("{\n a: @}", machine.state / "d.json5")
    (problem,) = machine.problems("{memory: {$include: 'd.json5'}}")
    assert (problem.file, problem.line, problem.column) == (str(path), 2, 5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{$include: 5}", "found a number, allowed is a path or a list of paths"),
        ("{$include: {}}", "found an object"),
        ("{$include: ['a.json5', 5]}", "found a number"),
        ("{$include: 'missing.json5'}", "there is no file"),
        ("{$include: 'openclaw.json'}", "includes itself"),
        ("{$include: './x/../openclaw.json'}", "includes itself"),
        ("{agents: {$include: 'list.json5', defaults: {}}}", "must hold an object"),
        ("{$include: 'list.json5'}", "found a list at the top"),
    ],
)
def test_a_wrong_include_is_an_error_at_its_place(machine, text, message):
    machine.write("[]", machine.state / "list.json5")
    machine.write("{}", machine.state / "a.json5")
    machine.write(text)
    with pytest.raises(ConfigInvalidError, match=message) as caught:
        machine.load()
    assert caught.value.remedy
    assert str(machine.state) in str(caught.value)


def test_a_circle_of_files_is_an_error(machine):
    machine.write("{$include: 'b.json5'}", machine.state / "a.json5")
    machine.write("{$include: 'a.json5'}", machine.state / "b.json5")
    (problem,) = machine.problems("{$include: 'a.json5'}")
    assert '"a.json5" includes itself' in problem.message


def test_a_circle_through_a_link_is_an_error(machine):
    machine.write("{$include: 'link.json5'}")
    (machine.state / "link.json5").symlink_to(machine.config)
    with pytest.raises(ConfigInvalidError, match="includes itself"):
        machine.load()


def test_an_endless_chain_of_files_is_an_error(machine):
    for number in range(20):
        machine.write(f"{{$include: '{number + 1}.json5'}}", machine.state / f"{number}.json5")
    (problem,) = machine.problems("{$include: '0.json5'}")
    assert "more than 10 files include one another" in problem.message


def test_files_that_are_deep_only_together_are_an_error_and_not_a_crash(machine):
    for number in range(9):
        inner = f"{{$include: '{number + 1}.json5'}}"
        text = "{a: " * 150 + inner + "}" * 150
        machine.write(text, machine.state / f"{number}.json5")
    (problem,) = machine.problems("{$include: '0.json5'}")
    assert "nested too deeply" in problem.message
    assert problem.file == str(machine.state / "1.json5")


def test_a_file_may_be_included_at_two_places(machine):
    machine.write("{model: 'm'}", machine.state / "m.json5")
    settings = machine.load(
        "{memory: {search: {$include: 'm.json5'}}, memorySearch: {$include: 'm.json5'}}"
    )
    assert model(settings) == "m"
    assert settings.warnings == ()
