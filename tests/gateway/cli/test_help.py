"""Help is complete and fits a terminal of 80 columns."""

from __future__ import annotations

import re

import typer

from fakes.each import each
from gateway.cli.app import app, run_app
from gateway.cli.commands.serving import NOT_RUNNING
from gateway.cli.guard import BROKEN_PIPE, EXIT_CODES, HEALTH_CODES, INTERRUPTED

ROOT = typer.main.get_command(app)
COMMANDS = [
    "serve",
    "setup",
    "index",
    "browse",
    "search",
    "get",
    "recent",
    "tags",
    "links",
    "recall",
    "remember",
    "forget",
    "status",
    "health",
    "doctor",
    "reload",
    "metrics",
    "report",
    "service",
    "connect",
    "disconnect",
    "config",
    "schema",
    "qmd",
    "demo",
    "upgrade",
    "open",
]
MODELS = ["models list", "models suggest", "models pull", "models remove"]
BATCH = ["batch list", "batch cancel"]
STORE = ["store migrate", "store check", "store copy", "store drop-agent"]
OPENCLAW = ["openclaw install", "openclaw status", "openclaw uninstall"]


def command_of(name):
    command = ROOT
    for word in name.split():
        command = command.commands[word]
    return command


def test_these_are_the_commands():
    assert list(ROOT.commands) == [*COMMANDS, "models", "batch", "store", "openclaw"]
    assert [f"models {name}" for name in command_of("models").commands] == MODELS
    assert [f"batch {name}" for name in command_of("batch").commands] == BATCH
    assert [f"store {name}" for name in command_of("store").commands] == STORE
    assert [f"openclaw {name}" for name in command_of("openclaw").commands] == OPENCLAW


@each("name", [*COMMANDS, *MODELS, *BATCH, *STORE, *OPENCLAW])
def test_every_command_and_every_option_says_what_it_does(name):
    command = command_of(name)
    assert command.help
    assert [parameter.name for parameter in command.params if not parameter.help] == []


@each("name", [*COMMANDS[1:], *MODELS, *BATCH, *STORE])
def test_every_command_but_serve_takes_the_shared_options(name):
    flags = {flag for parameter in command_of(name).params for flag in parameter.opts}
    assert flags >= {"--agent", "--workspace", "--state-dir", "--config", "--json", "--log-level"}


@each(
    "name",
    ["", *COMMANDS, "models", *MODELS, "batch", *BATCH, "store", *STORE, "openclaw", *OPENCLAW],
)
def test_help_fits_80_columns(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert run_app([*name.split(), "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Usage: memory-gateway")
    assert [line for line in lines if len(line) > 80] == []


@each("name", [*COMMANDS, *MODELS, *BATCH, *STORE, *OPENCLAW])
def test_help_speaks_of_arguments_in_words_and_not_in_types_of_python(name, capsys):
    assert run_app([*name.split(), "--help"]) == 0
    shown = capsys.readouterr().out
    assert [one for one in ("<str>", "<int>", "list[", "<install") if one in shown] == []
    arguments = [one for one in command_of(name).params if one.param_type_name == "argument"]
    assert all(f"\n  {one.metavar}" in shown for one in arguments)


@each("width", ["40", "60", "80"])
def test_what_commands_do_is_never_cut_off(width, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", width)
    assert run_app([]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "..." not in shown.partition("Commands:")[2]
    assert "until the input ends." in shown


def test_the_help_of_all_tells_every_exit_code_and_where_files_are(capsys):
    assert run_app(["help"]) == 0
    _, _, after = capsys.readouterr().out.partition("Exit codes:")
    codes, _, files = after.partition("Files and variables:")
    listed = set(map(int, re.findall(r"\b\d+\b", codes)))
    own = {NOT_RUNNING, INTERRUPTED, BROKEN_PIPE}
    assert listed == {*EXIT_CODES.values(), *HEALTH_CODES.values(), *own}
    for name in ("OPENCLAW_STATE_DIR", "OPENCLAW_CONFIG_PATH", "XDG_DATA_HOME", "OPENAI_API_KEY"):
        assert name in files


def test_help_is_a_command_too(capsys):
    assert run_app(["search", "--help"]) == 0
    wanted = capsys.readouterr().out
    assert run_app(["help", "search"]) == 0
    assert capsys.readouterr().out == wanted
    assert run_app(["help"]) == 0
    assert "Commands:" in capsys.readouterr().out


@each(
    ("short", "long"),
    [("-a", "--agent"), ("-w", "--workspace"), ("-c", "--config"), ("-j", "--json")],
)
def test_shared_options_have_short_names(short, long):
    (option,) = [one for one in command_of("search").params if long in one.opts]
    assert short in option.opts


def test_no_command_at_all_shows_the_help(capsys):
    assert run_app([]) == 0
    assert "Commands:" in capsys.readouterr().out
