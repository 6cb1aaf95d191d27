"""Every documented key, row by row: its default, and the values that are allowed, refused and cut.

The rows are in `documented_keys.json5` beside this file.
"""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path
from typing import Any

import pyjson5
import pytest

from config.host_keys import tolerates
from config.sections import SECTIONS
from fakes.each import each

TABLE = pyjson5.loads(Path(__file__).with_name("documented_keys.json5").read_text(encoding="utf-8"))
ROWS = TABLE["rows"]
IDS = [row["key"] for row in ROWS]
SEARCH = "agents.defaults.memorySearch"


def path_of(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(row["key"].split("."))


def key_of(row: dict[str, Any]) -> str:
    return row["key"]


def cases(column: str) -> list[Any]:
    """Returns every row with every text of one of its columns."""
    return [(row, text) for row in ROWS for text in row.get(column, ())]


def written(path: str, value: str) -> str:
    """Returns a file with one key, which is alone on its line together with its value."""
    *outer, name = path.split(".")
    opening = "".join(f"{part}: {{\n" for part in outer)
    return f"{{\n{opening}{name}: {value}\n{'}' * len(outer)}}}\n"


def line_of(path: str) -> int:
    return path.count(".") + 2


def effective(settings: Any, row: dict[str, Any]) -> Any:
    value = attrgetter(row["field"])(settings)
    if isinstance(value, Path):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


def wanted(value: Any, row: dict[str, Any], machine: Any) -> Any:
    """Returns the meaning of a cell of the table on this machine; `null` is the default."""
    if value is None:
        value = row["default"]
    if isinstance(value, float):
        return pytest.approx(value)
    places = {
        "HOME": machine.home,
        "CWD": machine.cwd,
        "STATE": machine.state,
        "WORKSPACE": machine.state / "workspace",
    }
    head, slash, rest = value.partition("/") if isinstance(value, str) else ("", "", "")
    return str(places[head] / rest) if slash and head in places else value


def check(settings: Any, row: dict[str, Any], value: Any, machine: Any) -> None:
    actual, expected = effective(settings, row), wanted(value, row, machine)
    assert actual == expected
    assert isinstance(actual, bool) == isinstance(expected, bool)


@each("row", ROWS)
def test_the_default_is_the_documented_one(machine, row):
    settings = machine.load()
    check(settings, row, row["default"], machine)
    assert settings.warnings == ()


@each(("row", "text"), cases("valid"))
def test_an_allowed_value_applies_without_a_warning(machine, row, text):
    settings = machine.load(written(row["key"], text))
    check(settings, row, row["valid"][text], machine)
    assert settings.warnings == ()


@each("row", ROWS)
def test_null_means_that_the_key_is_absent(machine, row):
    settings = machine.load(written(row["key"], "null"))
    check(settings, row, row["default"], machine)
    assert settings.warnings == ()


# The effect of a wrong value: it must not switch anything on, nor send anything to others.
CAREFUL = {f"{SEARCH}.enabled": False, f"{SEARCH}.provider": "none"}


def refused(row: dict[str, Any]) -> list[str]:
    texts = [*TABLE["groups"].get(row.get("refused"), ()), *row.get("more", ())]
    assert texts
    return texts


def check_complaint(complaint: Any, row: dict[str, Any], text: str, machine: Any) -> None:
    assert complaint.file == str(machine.config), text
    assert complaint.line is not None, text
    assert complaint.line >= line_of(row["key"]), text
    assert complaint.path is not None, text
    assert complaint.path.startswith(row["key"]), text
    assert complaint.message.startswith("found "), text
    assert ", allowed is " in complaint.message, text


@each("row", [row for row in ROWS if not tolerates(path_of(row))])
def test_what_is_not_allowed_for_a_key_of_ours_is_a_problem(machine, row):
    for text in refused(row):
        (problem,) = machine.problems(written(row["key"], text))
        check_complaint(problem, row, text, machine)


@each("row", [row for row in ROWS if tolerates(path_of(row))])
def test_what_is_not_allowed_for_a_key_of_the_hosts_is_a_warning_and_does_not_count(machine, row):
    for text in refused(row):
        settings = machine.load(written(row["key"], text))
        check_complaint(settings.warnings[0], row, text, machine)
        assert settings.warnings[0].message.endswith("; it is ignored")
        check(settings, row, CAREFUL.get(row["key"], row["default"]), machine)


@each(("row", "text"), cases("cut"))
def test_what_is_cut_applies_with_a_warning_that_names_the_line(machine, row, text):
    settings = machine.load(written(row["key"], text))
    check(settings, row, row["cut"][text], machine)
    (warning,) = settings.warnings
    assert (warning.path, warning.line) == (row["key"], line_of(row["key"]))
    assert warning.file == str(machine.config)


def test_every_key_that_fills_a_field_is_in_the_table():
    elsewhere = {
        "agent_dir",  # an agent's own key: see the tests of choosing an agent
        "qmd.paths",
        "qmd.scope",
        "scope",
        "search.extra_paths",
        "search.remote.api_key",
        "search.store.url",
    }
    fields = {key.field for section in SECTIONS for key in section.keys} - {""}
    assert fields == {row["field"] for row in ROWS} | elsewhere


@each("key", ["provider", "fallback"])
@each("name", ["bedrock", "google", "gpu-box", "Some.Plugin/v2", "nonsense"])
def test_an_id_that_only_the_providers_can_judge_is_read_without_a_word(machine, key, name):
    settings = machine.load(written(f"{SEARCH}.{key}", f"' {name} '"))
    assert getattr(settings.search, key) == name.lower()
    assert settings.warnings == ()


def test_a_secret_that_stands_where_a_provider_belongs_is_not_repeated(machine):
    secret = "sk-proj-0123456789abcdefABCDEF0123456789"
    (problem,) = machine.complaints(written(f"{SEARCH}.provider", f"'{secret}'"))
    assert "allowed is one of" in problem.message
    assert secret not in problem.message
