"""Rich consoles for both streams. Imported only where people read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from gateway.cli.rendering.words import folded
from gateway.escaping import visible


class EscapingConsole(Console):
    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """Everything that is shown comes this way; what moves the cursor is no text."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(visible(text), style)

    def on_broken_pipe(self) -> None:
        """Leave it to the guard, where rich would end the process at once."""
        raise BrokenPipeError


def console(*, stderr: bool = False) -> Console:
    return EscapingConsole(
        stderr=stderr,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        markup=False,
        emoji=False,
        highlight=False,
        soft_wrap=not stderr,
    )


def print_lines(lines: Iterable[Text]) -> None:
    """Lines for people on standard output. No name that stands in one makes two of it."""
    out = console()
    for line in lines:
        if "\n" in line.plain:
            line = Text("\\x0a").join(line.split("\n", allow_blank=True))  # noqa: PLW2901
        for part in folded(line, out.width) if out.is_terminal else (line,):
            out.print(part)
