"""What commands write: data to standard output, everything else to standard error; colours only for people."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from gateway.cli.options import CommandLineError, Options
from gateway.escaping import escape_in_json, visible, visible_line
from gateway.rpc.wire import replace_lone_surrogates

if TYPE_CHECKING:
    from rich.text import Text


def write_text(text: str) -> None:
    """Text exactly as it is, in UTF-8, whoever reads it."""
    if sys.stdout is not None:
        flush()
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))


def write_content(text: str) -> None:
    """What stands in a file: exactly as it is for a program, without control characters for a person."""
    write_text(visible(text) if is_terminal() else text)


def is_terminal() -> bool:
    """Whether a person reads standard output."""
    return sys.stdout is not None and sys.stdout.isatty()


def say(message: str) -> None:
    """A line for people on standard output. No name that stands in it makes two of it."""
    print(visible_line(message))


def say_text(text: str) -> None:
    """Several lines for people on standard output."""
    print(visible(text))


def write_json(value: object) -> None:
    """Anything msgspec can encode, indented by two spaces, as one document."""
    data = replace_lone_surrogates(msgspec.to_builtins(value))
    write_text(
        escape_in_json(msgspec.json.format(msgspec.json.encode(data), indent=2).decode()) + "\n"
    )


def answer(options: Options, data: object, *sentences: str, code: int = os.EX_OK) -> int:
    """Ends a command, with its exit code: the data for a program, sentences for a person."""
    if options.json:
        write_json(data)
    else:
        for sentence in sentences:
            say(sentence)
    return code


def show(
    options: Options, data: object, render: Callable[[Any], Iterable[Text]], code: int = os.EX_OK
) -> int:
    """The same with lines for a terminal. `render` is given `rendering.status_lines`, which only people wait for."""
    if options.json:
        write_json(data)
        return code
    from gateway.cli.rendering import status_lines
    from gateway.cli.terminal import print_lines

    print_lines(render(status_lines))
    return code


def write_json_line(value: object) -> None:
    """The same on one line, for programs that read along."""
    data = replace_lone_surrogates(msgspec.to_builtins(value))
    write_line(escape_in_json(msgspec.json.encode(data).decode()))


def write_line(text: str) -> None:
    """A line that is written at once. Raises BrokenPipeError when nobody reads any more."""
    write_text(text + "\n")
    flush()


def may_ask() -> bool:
    """Whether somebody is there to be asked."""
    return sys.stdin is not None and sys.stdin.isatty()


def ask(question: str, *, default: bool) -> bool:
    """Raises KeyboardInterrupt when the person goes away instead of answering."""
    import typer

    try:
        return typer.confirm(visible_line(question), default=default)
    except typer.Abort:
        raise KeyboardInterrupt from None


def agreed(question: str, nothing: str, remedy: str, *, default: bool = True) -> bool:
    """Whether the person says so; `nothing` was done otherwise. Raises CommandLineError where nobody can be asked."""
    if not may_ask():
        raise CommandLineError(f"{nothing}: nobody is there to be asked.", remedy=remedy)
    if ask(question, default=default):
        return True
    note(f"{nothing}.")
    return False


def ask_text(question: str, *, default: str | None) -> str:
    """Raises as `ask`."""
    import typer

    try:
        return str(typer.prompt(visible_line(question), default=default)).strip()
    except typer.Abort:
        raise KeyboardInterrupt from None


def note(message: str) -> None:
    """A line for people, beside the data."""
    print(visible_line(message), file=sys.stderr)


def note_text(text: str) -> None:
    """Several lines for people, beside the data."""
    print(visible(text), file=sys.stderr)


def flush() -> None:
    """Raises BrokenPipeError when nobody reads the output any more, OSError when no space is left for it."""
    if sys.stdout is not None:
        sys.stdout.flush()


def settle() -> None:
    """Writes what can be written. The rest is lost; the end of the process need not find that out again."""
    try:
        flush()
    except OSError:
        discard()


def discard() -> None:
    """Sends what is still to be written nowhere: its reader has gone, or its disk is full."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
