"""What commands write: data to standard output, everything else to standard error; colours only for people."""

from __future__ import annotations

import os
import sys
from typing import Final

import msgspec

from gateway.escaping import escape_controls
from gateway.rpc.wire import replace_lone_surrogates

_RAW_IN_JSON: Final = {code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}
"""JSON permits them raw inside of its strings; terminals obey some of them."""


def write_text(text: str) -> None:
    """Text exactly as it is, in UTF-8, whoever reads it."""
    if sys.stdout is not None:
        flush()
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))


def write_content(text: str) -> None:
    """What stands in a file: exactly as it is for a program, without control characters for a person."""
    write_text(escape_controls(text) if is_terminal() else text)


def is_terminal() -> bool:
    """Whether a person reads standard output."""
    return sys.stdout is not None and sys.stdout.isatty()


def say(message: str) -> None:
    """A line for people on standard output."""
    print(escape_controls(message))


def write_json(value: object) -> None:
    """Anything msgspec can encode, indented by two spaces, as one document."""
    data = replace_lone_surrogates(msgspec.to_builtins(value))
    write_text(_harmless(msgspec.json.format(msgspec.json.encode(data), indent=2)) + "\n")


def write_json_line(value: object) -> None:
    """The same on one line, for programs that read along."""
    data = replace_lone_surrogates(msgspec.to_builtins(value))
    write_line(_harmless(msgspec.json.encode(data)))


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
        return typer.confirm(question, default=default)
    except typer.Abort:
        raise KeyboardInterrupt from None


def ask_text(question: str, *, default: str | None) -> str:
    """Raises as `ask`."""
    import typer

    try:
        return str(typer.prompt(question, default=default)).strip()
    except typer.Abort:
        raise KeyboardInterrupt from None


def note(message: str) -> None:
    """A line for people, beside the data."""
    print(escape_controls(message), file=sys.stderr)


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


def _harmless(encoded: bytes) -> str:
    """The same document; outside of its strings there is none of these characters."""
    return encoded.decode().translate(_RAW_IN_JSON)
