"""The entry point of the command line: takes the arguments and returns the exit code.

Importing typer and rich takes longer than opening an index, so a plain `serve`, `search`, `get` or `status`
is read here without them. Typer reads everything else, mistakes and `--help` included.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from config.runtime.decoding import prepared
from gateway.cli.guard import guarded
from gateway.cli.options import LOG_LEVELS, SERVE_OPTIONS, SHARED_OPTIONS, Options
from gateway.process.beginning import PARENT, forbid_core_dumps, is_orphan, settle_collector

_FIELDS: Final = {option.flag: option.field for option in SERVE_OPTIONS if option.metavar}
_SWITCHES: Final = {"--socket-only": "socket_only", "--write": "write"}
_STAY: Final = ["recall", "--serve"]
"""The arguments with which a hook starts a gateway."""


class PlainServe(msgspec.Struct, frozen=True):
    options: Options
    socket_only: bool = False
    write: bool = False


class PlainQuestion(msgspec.Struct, frozen=True):
    """One of the commands that ask a memory something, which scripts and agents run again and again."""

    command: str
    options: Options
    values: Mapping[str, object]
    """The other arguments of the command, by parameter."""


def run(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit code; in some cases typer raises SystemExit."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # None when the descriptor was closed
            stream.reconfigure(errors="backslashreplace")
    forbid_core_dumps()
    arguments = list(arguments)
    plain = read_plain_serve(arguments)
    if plain is not None:
        if not plain.socket_only and is_orphan(PARENT):
            return os.EX_OK  # the parent is gone: nobody would read a message
        return guarded(lambda: _serve(plain), plain.options)
    if arguments[:2] == _STAY and (stays := read_plain_serve(["serve", *arguments[2:]])):
        return guarded(lambda: _stay(stays.options), stays.options)
    question = read_plain_question(arguments)
    if question is not None:
        return guarded(lambda: _ask(question), question.options)
    return guarded(lambda: _by_typer(arguments), _glance(arguments))


# Imports are part of a command: they, too, fail if descriptors or memory run out.
def _serve(plain: PlainServe) -> int:
    from gateway.cli.commands.serving import serve

    return serve(plain.options, socket_only=plain.socket_only, write=plain.write)


def _stay(options: Options) -> int:
    from gateway.cli.commands.serving import serve_hooks

    return serve_hooks(options)


def _ask(question: PlainQuestion) -> int:
    # The collector stays off: the process has ended before there is anything to collect.
    return _command(question.command)(question.options, **question.values)


def _command(name: str) -> Callable[..., int]:
    if name == "status":
        from gateway.cli.commands.inspecting import status

        return status
    from gateway.cli.commands.asking import get, search

    return search if name == "search" else get


def _by_typer(arguments: Sequence[str]) -> int:
    from gateway.cli.app import run_app

    settle_collector()
    return run_app(arguments)


def _glance(arguments: Sequence[str]) -> Options:
    """Returns the options for reporting what goes wrong before typer has read them."""
    return Options(json="--json" in arguments, log_level="debug" if "debug" in arguments else None)


def read_plain_serve(arguments: Sequence[str]) -> PlainServe | None:
    """Reads `serve [--socket-only] [--name value | --name=value]...`; returns None for any other line."""
    if not arguments or arguments[0] != "serve":
        return None
    values: dict[str, str] = {}
    switched: dict[str, bool] = {}
    rest = iter(arguments[1:])
    for argument in rest:
        if argument in _SWITCHES:
            switched[_SWITCHES[argument]] = True
            continue
        flag, equals, joined = argument.partition("=")
        value = joined if equals else next(rest, None)
        if flag not in _FIELDS or value is None:
            return None
        values[_FIELDS[flag]] = value
    if values.get("log_level", LOG_LEVELS[0]) not in LOG_LEVELS:
        return None
    return PlainServe(msgspec.convert(values, prepared(Options)), **switched)


_SHARED: Final = {
    flag: option
    for option in SHARED_OPTIONS
    for flag in (option.flag, option.short)
    if flag is not None
}
_NUMBERS: Final[Mapping[str, Mapping[str, str]]] = {
    "search": {"--max-results": "max_results", "-n": "max_results"},
    "get": {"--from": "first_line", "--lines": "lines"},
    "status": {},
}
"""The parameters that the own options of each such command set."""
_MOST_DIGITS: Final = 9


def read_plain_question(arguments: Sequence[str]) -> PlainQuestion | None:
    """Reads `search`, `get` or `status` with the usual options; returns None for any other line."""
    if not arguments or arguments[0] not in _NUMBERS:
        return None
    command = arguments[0]
    options: dict[str, object] = {}
    values: dict[str, object] = {}
    words: list[str] = []
    rest = iter(arguments[1:])
    for argument in rest:
        if not argument.startswith("-"):
            words.append(argument)
        elif not _read_option(command, argument, rest, options, values):
            return None
    if command == "search" and words:
        values["query"] = words
    elif command == "get" and len(words) == 1:
        values["path"] = words[0]
    elif command != "status" or words:
        return None
    return PlainQuestion(command, msgspec.convert(options, prepared(Options)), values)


def _read_option(
    command: str,
    argument: str,
    rest: Iterator[str],
    options: dict[str, object],
    values: dict[str, object],
) -> bool:
    """Reads one option and the value that follows it; returns False if typer has to read them."""
    flag, equals, joined = argument.partition("=") if argument[:2] == "--" else (argument, "", "")
    shared, number = _SHARED.get(flag), _NUMBERS[command].get(flag)
    if shared is not None and shared.metavar is None and not equals:
        options[shared.field] = True
        return True
    value = joined if equals else next(rest, "-")
    if value.startswith("-"):
        return False
    is_number = number is not None and value.isdecimal()
    if shared is not None and shared.metavar is not None and not is_number:
        options[shared.field] = value
        return shared.field != "log_level" or value in LOG_LEVELS
    if number is None or not _is_plain(value):
        return False
    values[number] = int(value)
    return True


def _is_plain(number: str) -> bool:
    """Returns whether it is a valid number from 1 on, which needs no message of typer's."""
    return (
        number.isascii() and number.isdecimal() and len(number) <= _MOST_DIGITS and int(number) > 0
    )
