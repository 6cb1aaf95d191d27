"""Lines of cells in columns that begin below each other. Pure.

Owns the padding, by what a terminal shows (a Chinese character is two columns wide), not by length, and
folding a last cell below itself where the terminal is too narrow. Nothing is cut: a cell wider than its
column pushes the rest of its line.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

_GAP = 2


class Row(Text):
    """One line of cells."""

    last_cell = 0
    """Where in the line its last cell begins, in characters."""


def aligned(
    rows: Sequence[Sequence[str]], styles: Sequence[str], *, indent: int = 0, widest: int = 60
) -> list[Row]:
    """One styled line a row; a column is as wide as its widest cell, but at most `widest`."""
    widths = [
        max((w for cell in column if (w := cell_len(cell)) <= widest), default=0)
        for column in zip(*rows, strict=True)
    ]
    return [_line(row, widths, styles, indent) for row in rows]


def folded(line: Text, width: int) -> list[Text]:
    """The line as lines of at most `width` columns, if it has cells that leave room for that."""
    cut = line.last_cell if isinstance(line, Row) else 0
    margin = cell_len(line.plain[:cut])
    if not 0 < margin <= width // 2 or line.cell_len <= width:
        return [line]
    head, tail = line.divide([cut])
    pieces = tail.wrap(Console(width=width), width - margin)
    return [Text.assemble(" " * margin if at else head, piece) for at, piece in enumerate(pieces)]


def _line(row: Sequence[str], widths: Sequence[int], styles: Sequence[str], indent: int) -> Row:
    line = Row(" " * indent)
    for cell, width, style in zip(row, widths, styles, strict=True):
        line.last_cell = len(line.plain)
        line.append(cell, style=style)
        line.append(" " * (max(0, width - cell_len(cell)) + _GAP))
    line.rstrip()
    return line
