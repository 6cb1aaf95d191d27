"""The output of commands: data on standard output, everything else on standard error; colours only for people."""

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
    """Writes text exactly as it is, in UTF-8, for people and programs alike."""
    if sys.stdout is not None:
        flush()
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))


def write_content(text: str) -> None:
    """Writes the content of a file: exactly as it is for a program, without control characters for a person."""
    write_text(visible(text) if is_terminal() else text)


def is_terminal() -> bool:
    """Returns whether a person reads standard output."""
    return sys.stdout is not None and sys.stdout.isatty()


def say(message: str) -> None:
    """Prints a line for people on standard output; line breaks in names are escaped."""
    print(visible_line(message))


def say_text(text: str) -> None:
    """Prints several lines for people on standard output."""
    print(visible(text))


def write_json(value: object) -> None:
    """Writes anything msgspec can encode as one document, indented by two spaces."""
    data = replace_lone_surrogates(msgspec.to_builtins(value))
    write_text(
        escape_in_json(msgspec.json.format(msgspec.json.encode(data), indent=2).decode()) + "\n"
    )


def answer(options: Options, data: object, *sentences: str, code: int = os.EX_OK) -> int:
    """Prints the data for a program or the sentences for a person, and returns the exit code."""
    if options.json:
        write_json(data)
    else:
        for sentence in sentences:
            say(sentence)
    return code


def show(
    options: Options, data: object, render: Callable[[Any], Iterable[Text]], code: int = os.EX_OK
) -> int:
    """Does the same with lines for a terminal. `render` gets `rendering.status_lines`, imported only for people."""
    if options.json:
        write_json(data)
        return code
    from gateway.cli.rendering import status_lines
    from gateway.cli.terminal import print_lines

    print_lines(render(status_lines))
    return code


def write_json_line(value: object) -> None:
    """Writes a value as JSON on one line at once, for programs that read it as it comes."""
    data = replace_lone_surrogates(msgspec.to_builtins(value))
    write_line(escape_in_json(msgspec.json.encode(data).decode()))


def write_line(text: str) -> None:
    """Writes a line at once. Raises BrokenPipeError if nobody reads any more."""
    write_text(text + "\n")
    flush()


def may_ask() -> bool:
    """Returns whether there is a person to ask."""
    return sys.stdin is not None and sys.stdin.isatty()


def ask(question: str, *, default: bool) -> bool:
    """Asks a person. Raises KeyboardInterrupt if the person leaves instead of answering."""
    import typer

    try:
        return typer.confirm(visible_line(question), default=default)
    except typer.Abort:
        raise KeyboardInterrupt from None


def agreed(
    nothing: str,
    question: str = "Do this?",
    remedy: str = "--yes does it.",
    *,
    default: bool = True,
) -> bool:
    """Returns whether a person agrees; prints `nothing` otherwise. Raises CommandLineError if nobody can be asked."""
    if not may_ask():
        raise CommandLineError(f"{nothing}: nobody is there to be asked.", remedy=remedy)
    if ask(question, default=default):
        return True
    note(f"{nothing}.")
    return False


def ask_text(question: str, *, default: str | None) -> str:
    """Asks a person for a text. Raises as `ask`."""
    import typer

    try:
        return str(typer.prompt(visible_line(question), default=default)).strip()
    except typer.Abort:
        raise KeyboardInterrupt from None


def note(message: str) -> None:
    """Prints a line for people on standard error."""
    print(visible_line(message), file=sys.stderr)


def note_text(text: str) -> None:
    """Prints several lines for people on standard error."""
    print(visible(text), file=sys.stderr)


def flush() -> None:
    """Flushes standard output. Raises BrokenPipeError if nobody reads it any more, OSError if no space is left."""
    if sys.stdout is not None:
        sys.stdout.flush()


def settle() -> None:
    """Writes what can be written and discards the rest, which would fail again at the end of the process."""
    try:
        flush()
    except OSError:
        discard()


def discard() -> None:
    """Discards the output that is not written yet: its reader has gone, or its disk is full."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
