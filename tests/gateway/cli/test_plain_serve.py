"""The fast path of `serve`, `search`, `get` and `status` reads what typer would, and leaves the rest to typer."""

from __future__ import annotations

import pytest

from config.runtime.logs import LEVELS
from fakes.each import each
from gateway.cli import app
from gateway.cli.entry import PlainQuestion, PlainServe, read_plain_question, read_plain_serve
from gateway.cli.options import LOG_LEVELS, SERVE_OPTIONS, Options


def test_serve_alone_has_no_options():
    assert read_plain_serve(["serve"]) == PlainServe(Options())


VALUED = [option for option in SERVE_OPTIONS if option.metavar]


def test_what_has_no_value_is_left_to_typer():
    assert read_plain_serve(["serve", "--claude-code"]) is None


@each("option", VALUED)
@each("joined", [False, True])
def test_every_option_of_serve_is_read_in_both_spellings(option, joined):
    value = "error"
    words = [f"{option.flag}={value}"] if joined else [option.flag, value]
    assert read_plain_serve(["serve", *words]) == PlainServe(Options(**{option.field: value}))


def test_the_last_of_repeated_options_counts():
    assert read_plain_serve(["serve", "--agent", "a", "--agent=b"]) == PlainServe(
        Options(agent="b")
    )


def test_a_value_may_hold_an_equals_sign_and_begin_with_a_dash():
    options = read_plain_serve(["serve", "--workspace=a=b", "--agent", "-x"])
    assert options == PlainServe(Options(workspace="a=b", agent="-x"))


def test_a_service_needs_no_typer_either():
    asked = read_plain_serve(["serve", "--socket-only", "--agent", "main"])
    assert asked == PlainServe(Options(agent="main"), socket_only=True)


def test_what_follows_an_option_is_its_value_whatever_it_looks_like():
    asked = read_plain_serve(["serve", "--agent", "--socket-only"])
    assert asked == PlainServe(Options(agent="--socket-only"))


@each(
    "arguments",
    [
        [],
        ["index"],
        ["--version"],
        ["serve", "--help"],
        ["serve", "extra"],
        ["serve", "--json"],
        ["serve", "--agent"],
        ["serve", "--agnet", "main"],
        ["serve", "--log-level", "loud"],
        ["--agent", "main", "serve"],
    ],
)
def test_every_other_command_line_is_left_to_typer(arguments):
    assert read_plain_serve(arguments) is None


def test_the_log_levels_are_those_of_the_logs():
    assert tuple(LEVELS) == LOG_LEVELS


QUESTIONS = [
    ["search", "pump"],
    ["search", "the pump", "and", "", "the boiler"],
    ["search", "--json", "pump", "--max-results", "3"],
    ["search", "-j", "-n", "07", "pump", "-w", "/notes", "--agent=work"],
    ["search", "pump", "--claude-code", "--log-level", "debug", "--agent", "a", "--agent", "b"],
    ["get", "MEMORY.md"],
    ["get", "MEMORY.md", "--from=3", "--lines", "2", "-c", "a=b.json"],
    ["get", "", "--state-dir", ""],
    ["status"],
    ["status", "--notes", "folder", "--json"],
]


@pytest.mark.parametrize("arguments", QUESTIONS, ids=" ".join)
def test_a_plain_question_is_read_as_typer_reads_it(arguments, monkeypatch):
    asked = read_plain_question(arguments)
    by_typer = []

    def note(command, options, values):
        given = {name: value for name, value in values.items() if value not in (None, False)}
        by_typer.append(PlainQuestion(command.__name__, options, given))
        return 0

    monkeypatch.setattr(app, "run_logged", note)
    assert app.run_app(arguments) == 0
    assert [asked] == by_typer


@each(
    "arguments",
    [
        [],
        ["index"],
        ["search"],
        ["search", "--help"],
        ["search", "--", "-x"],
        ["search", "- an item"],
        ["search", "pump", "--tag", "house"],
        ["search", "pump", "--max-results"],
        ["search", "pump", "--max-results", "0"],
        ["search", "pump", "--max-results", "-1"],
        ["search", "pump", "--max-results", "1_0"],
        ["search", "pump", "-n3"],
        ["search", "pump", "--json=yes"],
        ["search", "pump", "--agent", "-x"],
        ["search", "pump", "--log-level", "loud"],
        ["get"],
        ["get", "a.md", "b.md"],
        ["get", "a.md", "--max-results", "3"],
        ["status", "now"],
        ["status", "--watch"],
        ["--json", "status"],
    ],
)
def test_every_other_question_is_left_to_typer(arguments):
    assert read_plain_question(arguments) is None
