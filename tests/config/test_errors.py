"""Errors: kinds, messages, remedies, and the extraction of a single one from a group."""

from __future__ import annotations

import anyio
import pytest

from config.errors import (
    ConfigInvalidError,
    ConfigNotFoundError,
    ConfigProblem,
    ErrorKind,
    MemoryGatewayError,
    lone_error,
    ungrouped,
)
from fakes.each import each


def test_every_problem_of_a_file_is_in_one_error(machine):
    machine.write("""{
      memory: {backend: 'redis',
        qmd: {paths: [{name: 'x'}]}},
      agents: {
        defaults: {memorySearch: {
          store: {driver: 5}, query: {maxResults: 0,
            hybrid: 'yes'}}},
        list: [{id: 'a', memorySearch: {chunking: []}},
          {id: 'b', memorySearch: {sync: {watch: 1}}}]},
    }""")
    with pytest.raises(ConfigInvalidError) as caught:
        machine.load()
    error = caught.value
    assert [(problem.path, problem.line) for problem in error.problems] == [
        ("memory.backend", 2),
        ("memory.qmd.paths[0]", 3),
        ("agents.defaults.memorySearch.store.driver", 6),
        ("agents.defaults.memorySearch.query.hybrid", 7),
        ("agents.list[0].memorySearch.chunking", 8),
        ("agents.list[1].memorySearch.sync.watch", 9),
    ]
    text = str(error)
    assert text.startswith("The configuration has 6 problems:\n")
    assert (
        f'\n  {machine.config}, line 2, column 16: memory.backend: found "redis", '
        'allowed is one of "builtin", "qmd"\n' in text
    )
    assert text.endswith("Correct these values, or remove them to get the defaults.")


def test_one_problem_is_one_sentence_with_its_remedy(machine):
    machine.write("{memory: {backend: true}}")
    with pytest.raises(ConfigInvalidError) as caught:
        machine.load()
    assert str(caught.value) == (
        f"{machine.config}, line 1, column 11: memory.backend: found true, allowed is one of "
        '"builtin", "qmd". Correct these values, or remove them to get the defaults.'
    )
    assert caught.value.kind is ErrorKind.CONFIG_INVALID


def test_a_very_long_list_is_cut_in_the_message_but_not_in_the_error(machine):
    paths = ", ".join(["5"] * 500)
    machine.write(f"{{memory: {{qmd: {{paths: [{paths}]}}}}}}")
    with pytest.raises(ConfigInvalidError) as caught:
        machine.load()
    assert len(caught.value.problems) == 500
    assert "and 480 more" in str(caught.value)
    assert str(caught.value).count("\n") < 30


def test_a_very_long_value_is_shortened(machine):
    (problem,) = machine.complaints(f"{{memory: {{backend: '{'x' * 5000}'}}}}")
    assert len(problem.message) < 150
    assert "…" in problem.message


def test_control_characters_of_a_value_are_escaped(machine):
    (problem,) = machine.complaints("{memory: {backend: '\\u001b[31mred\\n'}}")
    assert "\x1b" not in problem.message
    assert '"\\u001b[31mred\\u000a"' in problem.message


def test_a_number_of_ten_thousand_digits_is_put_into_words(machine):
    (problem,) = machine.complaints(
        f"{{agents: {{defaults: {{memorySearch: {{query: {{maxResults: 0x{'f' * 9000}}}}}}}}}}}"
    )
    assert "too large" in problem.message
    (problem,) = machine.complaints(
        f"{{agents: {{defaults: {{memorySearch: {{query: {{minScore: 0x{'f' * 9000}}}}}}}}}}}"
    )
    assert "a number with more than 20 digits" in problem.message


@each(("number", "fits"), [(2**53 - 1, True), (2**53, False), (2**64, False)])
def test_a_whole_number_must_be_one_that_53_bits_tell_apart(machine, number, fits):
    text = f"{{agents: {{defaults: {{memorySearch: {{query: {{maxResults: {number}}}}}}}}}}}"
    if fits:
        assert machine.load(text).search.query.max_results == number
    else:
        assert "too large" in machine.complaints(text)[0].message


@each(
    ("value", "shown"),
    [
        ("Infinity", "Infinity"),
        ("-Infinity", "-Infinity"),
        ("NaN", "NaN"),
        ("0.25", "0.25"),
        ("-7", "-7"),
    ],
)
def test_numbers_are_shown_as_written(machine, value, shown):
    (problem,) = machine.complaints(
        f"{{agents: {{defaults: {{memorySearch: {{query: {{maxResults: {value}}}}}}}}}}}"
    )
    assert problem.message == f"found {shown}, allowed is a whole number, at least 1"


@each(
    ("problem", "text"),
    [
        (ConfigProblem(message="m"), "m"),
        (ConfigProblem(message="m", path="a.b"), "a.b: m"),
        (ConfigProblem(message="m", file="f"), "f: m"),
        (ConfigProblem(message="m", file="f", line=3), "f, line 3: m"),
        (
            ConfigProblem(message="m", file="f", line=3, column=4, path="a"),
            "f, line 3, column 4: a: m",
        ),
    ],
)
def test_a_problem_names_as_much_of_its_place_as_is_known(problem, text):
    assert str(problem) == text


def test_both_errors_are_ours_and_carry_a_kind():
    invalid = ConfigInvalidError([ConfigProblem(message="m")], remedy="r")
    missing = ConfigNotFoundError("m", remedy="r")
    assert isinstance(invalid, MemoryGatewayError)
    assert (invalid.kind, missing.kind) == (ErrorKind.CONFIG_INVALID, ErrorKind.CONFIG_NOT_FOUND)
    assert str(missing) == "m r"


@each(
    "text", ["{memory: 5}", "{agents: []}", "{agents: {defaults: 'x'}}", "{plugins: {slots: []}}"]
)
def test_an_object_on_the_way_to_memory_must_be_one(machine, text):
    (problem,) = machine.complaints(text)
    assert "allowed is an object" in problem.message


@pytest.mark.parametrize("text", ["{agents: {list: {}}}", "{agents: {list: 'main'}}"])
def test_the_list_of_agents_must_be_one(machine, text):
    (problem,) = machine.complaints(text)
    assert problem.path == "agents.list"
    assert "allowed is a list" in problem.message


@pytest.mark.parametrize("text", ["{memory: null, agents: null}", "{agents: {list: null}}"])
def test_null_on_the_way_to_memory_is_nothing(machine, text):
    assert machine.load(text).warnings == ()


def test_a_lone_error_is_found_however_deep_its_groups_are_nested():
    inner = ValueError("x")
    assert lone_error(ExceptionGroup("a", [ExceptionGroup("b", [inner])])) is inner
    assert lone_error(inner) is inner


def test_several_errors_stay_a_group():
    group = ExceptionGroup("a", [ValueError("x"), KeyError("y")])
    assert lone_error(ExceptionGroup("b", [group])) is group


@pytest.mark.anyio
async def test_the_body_of_a_task_group_raises_its_own_error_with_its_cause():
    cause = KeyError("cause")
    with pytest.raises(ValueError, match="x") as caught, ungrouped():
        async with anyio.create_task_group():
            raise ValueError("x") from cause
    assert caught.value.__cause__ is cause


def test_a_group_of_several_errors_is_raised_as_it_is():
    group = ExceptionGroup("a", [ValueError("x"), KeyError("y")])
    with pytest.raises(ExceptionGroup) as caught, ungrouped():
        raise group
    assert caught.value is group


def test_an_error_outside_of_any_group_passes():
    with pytest.raises(ValueError, match="x"), ungrouped():
        raise ValueError("x")
