"""Output for people: numbers, paths and columns as text, and the consoles of rich for both streams.

Imported only if people read the output.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from gateway.escaping import visible, visible_line

_KILO: Final = 1000
_UNITS: Final = ("B", "kB", "MB", "GB", "TB")


def counted(number: int, noun: str) -> str:
    """Returns `1 file`, `2 files`, `12,000 files`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def size(number: float) -> str:
    """Returns bytes in decimal units: `812 B`, `1.2 MB`."""
    for unit in _UNITS[:-1]:
        if number < _KILO:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= _KILO
    return f"{number:.1f} {_UNITS[-1]}"


def duration(milliseconds: float) -> str:
    """Returns `8 ms`, `0.42 s`, `3 min 5 s`."""
    if milliseconds < 100:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    if seconds < 100:
        return f"{seconds:.2f} s"
    return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def short_path(path: str, home: str | None = None) -> str:
    """Returns the path with the home directory as `~`, with all characters visible."""
    home = (home or os.path.expanduser("~")).rstrip("/")  # noqa: PTH111 - never raises
    if home and (path == home or path.startswith(home + "/")):
        return "~" + visible_line(path[len(home) :])
    return visible_line(path)


_GAP = 2
_LEAST_WIDTH: Final = 20
_NARROW_MARGIN: Final = 6


class TableRow(Text):
    """One line of cells."""

    last_cell = 0
    """The position in the line at which the last cell begins, in characters."""


def row_of(line: str, last_cell: int) -> TableRow:
    """Returns a finished line as a row whose last cell begins at that character."""
    row = TableRow(line)
    row.last_cell = last_cell
    return row


def aligned(
    rows: Sequence[Sequence[str]], styles: Sequence[str], *, indent: int = 0, widest: int = 60
) -> list[TableRow]:
    """Returns a styled line for each row; a column is as wide as its widest cell, but at most `widest`."""
    rows = [[visible_line(cell) for cell in row] for row in rows]
    widths = [
        max((w for cell in column if (w := cell_len(cell)) <= widest), default=0)
        for column in zip(*rows, strict=True)
    ]
    return [_line(row, widths, styles, indent) for row in rows]


def folded(line: Text, width: int) -> list[Text]:
    """Returns the line as lines of at most `width` columns, if it has cells: the last cell continues below itself, or
    further to the left if that is too narrow.
    """
    cut = line.last_cell if isinstance(line, TableRow) else 0
    margin = cell_len(line.plain[:cut])
    if not margin or width < _LEAST_WIDTH or line.cell_len <= width:
        return [line]
    head, tail = line.divide([cut])
    if margin > width // 2:
        margin = _NARROW_MARGIN
        head, tail = (Text(), line) if head.plain.strip() else (Text(" " * margin), tail)
    pieces = tail.wrap(Console(width=width), width - margin)
    return [Text.assemble(" " * margin if at else head, piece) for at, piece in enumerate(pieces)]


def _line(
    row: Sequence[str], widths: Sequence[int], styles: Sequence[str], indent: int
) -> TableRow:
    line = TableRow(" " * indent)
    for cell, width, style in zip(row, widths, styles, strict=True):
        line.last_cell = len(line.plain)
        line.append(cell, style=style)
        line.append(" " * (max(0, width - cell_len(cell)) + _GAP))
    line.rstrip()
    return line


# --- Consoles ---


class EscapingConsole(Console):
    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """Escapes all text that is shown; control codes, such as movements of the cursor, stay."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(visible(text), style)

    def on_broken_pipe(self) -> None:
        """Leaves it to the guard; rich would end the process at once."""
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


def print_lines(lines: Iterable[Text | str]) -> None:
    """Prints lines for people on standard output; line breaks in names are escaped."""
    out = console()
    for one in lines:
        line = Text(one) if isinstance(one, str) else one
        if "\n" in line.plain:
            line = Text("\\x0a").join(line.split("\n", allow_blank=True))
        for part in folded(line, out.width) if out.is_terminal else (line,):
            out.print(part)
