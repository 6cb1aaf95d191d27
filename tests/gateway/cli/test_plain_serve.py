"""The quick way of `serve` reads exactly what typer would, and leaves everything else to it."""

from __future__ import annotations

import pytest

from gateway.cli.entry import PlainServe, read_plain_serve
from gateway.cli.options import LOG_LEVELS, SERVE_OPTIONS, Options
from gateway.process.logs import LEVELS


def test_serve_alone_has_no_options():
    assert read_plain_serve(["serve"]) == PlainServe(Options())


VALUED = [option for option in SERVE_OPTIONS if option.metavar]


def test_what_has_no_value_is_left_to_typer():
    assert read_plain_serve(["serve", "--claude-code"]) is None


@pytest.mark.parametrize("option", VALUED, ids=lambda option: option.field)
@pytest.mark.parametrize("joined", [False, True])
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


@pytest.mark.parametrize(
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
    ids=" ".join,
)
def test_every_other_command_line_is_left_to_typer(arguments):
    assert read_plain_serve(arguments) is None


def test_the_log_levels_are_those_of_the_logs():
    assert tuple(LEVELS) == LOG_LEVELS
