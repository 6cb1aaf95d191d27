"""What commands write: data to standard output, everything else to standard error; colours only for people."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from gateway.cli.rendering.words import folded
from gateway.rpc.wire import replace_lone_surrogates
from gateway.tools.search import escape_controls

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


def write_json(value: Any) -> None:
    """Anything msgspec can encode, indented by two spaces, as one document."""
    data = replace_lone_surrogates(msgspec.to_builtins(value))
    write_text(_harmless(msgspec.json.format(msgspec.json.encode(data), indent=2)) + "\n")


def write_json_line(value: Any) -> None:
    """The same on one line, for programs that read along."""
    data = replace_lone_surrogates(msgspec.to_builtins(value))
    write_line(_harmless(msgspec.json.encode(data)))


def write_line(text: str) -> None:
    """A line that is written at once. Raises BrokenPipeError when nobody reads any more."""
    write_text(text + "\n")
    flush()


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


class _Console(Console):
    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """Everything that is shown comes this way; what moves the cursor is no text."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(escape_controls(text), style)

    def on_broken_pipe(self) -> None:
        """Leave it to the guard, where rich would end the process at once."""
        raise BrokenPipeError


def console(*, stderr: bool = False) -> Console:
    return _Console(
        stderr=stderr,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        markup=False,
        emoji=False,
        highlight=False,
        soft_wrap=not stderr,
    )


def print_lines(lines: Iterable[Text]) -> None:
    """Lines for people on standard output."""
    out = console()
    for line in lines:
        for part in folded(line, out.width) if out.is_terminal else (line,):
            out.print(part)
