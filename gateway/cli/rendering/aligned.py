"""Lines of cells in columns that begin below each other. Pure.

Owns the padding, by what a terminal shows (a Chinese character is two columns wide), not by length.
Nothing is cut: a cell wider than its column pushes the rest of its line.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

_GAP = 2


def aligned(
    rows: Sequence[Sequence[str]], styles: Sequence[str], *, indent: int = 0, widest: int = 60
) -> list[Text]:
    """One styled line a row; a column is as wide as its widest cell, but at most `widest`."""
    widths = [
        max((w for cell in column if (w := cell_len(cell)) <= widest), default=0)
        for column in zip(*rows, strict=True)
    ]
    return [_line(row, widths, styles, indent) for row in rows]


def _line(row: Sequence[str], widths: Sequence[int], styles: Sequence[str], indent: int) -> Text:
    line = Text(" " * indent)
    for cell, width, style in zip(row, widths, styles, strict=True):
        line.append(cell, style=style)
        line.append(" " * (max(0, width - cell_len(cell)) + _GAP))
    line.rstrip()
    return line
