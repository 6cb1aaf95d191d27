"""Plots as SVG, written by hand: a plotting library would be the largest thing installed here.

There are four pictures: lines over two logarithmic axes, pairs of bars that are shares, panels of one line each, and
squares of shares against shares. The colours can be distinguished by colour-blind people (Okabe and Ito, 2008).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

_COLOURS: Final = "#0072B2 #D55E00 #009E73 #CC79A7 #E69F00 #56B4E9 #000000".split()
_WIDTH: Final = 860
_HEIGHT: Final = 520
_LEFT: Final = 70
_RIGHT: Final = 640
_TOP: Final = 50
_BOTTOM: Final = 460
_BARS_LEFT: Final = 250
_BARS_WIDTH: Final = 500
_STYLE: Final = 'font-family="sans-serif" font-size="13"'

Line = Sequence[tuple[float, float]]


class Axis(NamedTuple):
    """Whole decades between two places of the picture."""

    low: int
    high: int
    start: int
    end: int

    @classmethod
    def of(cls, values: Sequence[float], start: int, end: int) -> Axis:
        low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        return cls(low, max(high, low + 1), start, end)

    def place(self, value: float) -> float:
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def decades(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]


def draw(
    path: Path, lines: Mapping[str, Line], *, title: str, x: str, y: str, dashed: str = ""
) -> None:
    """Writes the picture; `x` and `y` name the axes, the line called `dashed` is a limit."""
    points = [point for line in lines.values() for point in line]
    across = Axis.of([a for a, _ in points], _LEFT, _RIGHT)
    up = Axis.of([b for _, b in points], _BOTTOM, _TOP)
    body = [*_grid(across, up), *_titles(title, x, y)]
    for number, (name, line) in enumerate(lines.items()):
        body += _line(number, name, line, across, up, is_dashed=name == dashed)
    _write(path, body)


def bars(
    path: Path, shares: Mapping[str, tuple[float, float]], *, title: str, names: tuple[str, str]
) -> None:
    """Writes two bars for each name, shares of 1; the second lies within the first."""
    first, second = _COLOURS[5], _COLOURS[0]
    body = [_text(_BARS_LEFT, 24, title, "start")]
    for number, (name, colour) in enumerate(zip(names, (first, second), strict=True)):
        at = _BARS_LEFT + 300 + 110 * number
        body += [_bar(at, 14, 14, 12, colour), _text(at + 20, 24, name, "start")]
    for row, (name, (outer, inner)) in enumerate(shares.items()):
        y = 44 + 30 * row
        body += [
            _text(_BARS_LEFT - 10, y + 15, name, "end"),
            _bar(_BARS_LEFT, y, outer * _BARS_WIDTH, 20, first),
            _bar(_BARS_LEFT, y + 4, inner * _BARS_WIDTH, 12, second),
            _text(
                _BARS_LEFT + outer * _BARS_WIDTH + 8, y + 15, f"{outer:.2f} / {inner:.2f}", "start"
            ),
        ]
    _write(path, body, height=60 + 30 * len(shares))


_PANEL: Final = 110
_MOST_POINTS: Final = 600
"""The most points of a line in a panel; of a longer line the lowest and the highest of each stretch are drawn."""


def panels(path: Path, lines: Mapping[str, Line], *, title: str, x: str) -> None:
    """Writes one panel for each line, below each other, from zero to its maximum; `x` names the shared axis."""
    last = max(at for line in lines.values() for at, _ in line)
    right, body = _WIDTH - 20, [_text(_LEFT, _TOP - 26, title, "start")]
    for number, (name, line) in enumerate(lines.items()):
        top, most = _TOP + _PANEL * number, max(value for _, value in line) or 1
        bottom = top + _PANEL - 44
        places = " ".join(
            f"{_LEFT + at / last * (right - _LEFT):.1f},{bottom - value / most * (bottom - top):.1f}"
            for at, value in _thinned(line)
        )
        middle, colour = (_LEFT + right) / 2, _COLOURS[number % len(_COLOURS)]
        body += [
            _text(_LEFT, top - 6, name, "start"),
            _stroke(_LEFT, bottom, right, bottom, "#999999"),
            _stroke(middle, top, middle, bottom, "#dddddd"),
            _text(_LEFT - 8, top + 5, f"{most:,.4g}", "end"),
            _text(_LEFT - 8, bottom + 4, "0", "end"),
            f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="1.2"/>',
        ]
    bottom = _TOP + _PANEL * len(lines) - 44
    for share in (0, 0.25, 0.5, 0.75, 1):
        at = _LEFT + share * (right - _LEFT)
        body.append(_text(at, bottom + 18, f"{share * last:,.0f}", "middle"))
    body.append(_text((_LEFT + right) / 2, bottom + 36, x, "middle"))
    _write(path, body, height=bottom + 50)


def _thinned(line: Line) -> Iterator[tuple[float, float]]:
    step = -(-len(line) // (_MOST_POINTS // 2))
    for start in range(0, len(line), step):
        part = line[start : start + step]
        ends = {min(part, key=lambda one: one[1]), max(part, key=lambda one: one[1])}
        yield from sorted(ends)


class Dots(NamedTuple):
    """A dot with its interval up and down; its size grows with `n`."""

    x: float
    y: float
    low: float
    high: float
    n: int


_SQUARE: Final = 200
_SQUARES_A_ROW: Final = 3
_GAP: Final = 70


def squares(
    path: Path, diagrams: Mapping[str, Mapping[str, Sequence[Dots]]], *, x: str, y: str
) -> None:
    """Writes a square for each diagram, both axes from 0 to 1, with the diagonal.

    Lines with the same name have the same colour in all squares.
    """
    names = list(dict.fromkeys(name for lines in diagrams.values() for name in lines))
    body = []
    for number, name in enumerate(names):
        body.append(_bar(_LEFT + 330 * number, 14, 14, 12, _COLOURS[number]))
        body.append(_text(_LEFT + 330 * number + 20, 24, name, "start"))
    for number, (title, lines) in enumerate(diagrams.items()):
        row, column = divmod(number, _SQUARES_A_ROW)
        left, top = _LEFT + column * (_SQUARE + _GAP), 70 + row * (_SQUARE + _GAP + 10)
        body += _square(left, top, title)
        for name, dots in lines.items():
            body += _dots(left, top, dots, _COLOURS[names.index(name)])
    height = 70 + -(-len(diagrams) // _SQUARES_A_ROW) * (_SQUARE + _GAP + 10)
    body.append(_text(_LEFT, height - 20, f"across: {x}; up: {y}, with 95 % intervals", "start"))
    _write(path, body, height=height)


def _square(left: float, top: float, title: str) -> Iterator[str]:
    bottom, right = top + _SQUARE, left + _SQUARE
    yield _text(left, top - 8, title, "start")
    for share in (0, 0.5, 1):
        yield _stroke(left + share * _SQUARE, top, left + share * _SQUARE, bottom, "#dddddd")
        yield _stroke(left, bottom - share * _SQUARE, right, bottom - share * _SQUARE, "#dddddd")
        yield _text(left + share * _SQUARE, bottom + 18, f"{share:g}", "middle")
        yield _text(left - 8, bottom - share * _SQUARE + 4, f"{share:g}", "end")
    yield _stroke(left, bottom, right, top, "#999999")


def _dots(left: float, top: float, dots: Sequence[Dots], colour: str) -> Iterator[str]:
    bottom = top + _SQUARE
    places = [(left + one.x * _SQUARE, bottom - one.y * _SQUARE) for one in dots]
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    yield f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
    for (x, y), one in zip(places, dots, strict=True):
        yield _stroke(x, bottom - one.low * _SQUARE, x, bottom - one.high * _SQUARE, colour)
        radius = min(7.0, 1.5 + math.sqrt(one.n) / 5)
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{colour}"/>'


def _write(path: Path, body: Sequence[str], height: int = _HEIGHT) -> None:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" {_STYLE}>'
    background = f'<rect width="{_WIDTH}" height="{height}" fill="white"/>'
    path.write_text("\n".join([head, background, *body, "</svg>\n"]), encoding="utf-8")


def _bar(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{height}" fill="{colour}"/>'


def _grid(across: Axis, up: Axis) -> Iterator[str]:
    for value in across.decades():
        at = across.place(value)
        yield _stroke(at, _TOP, at, _BOTTOM, "#dddddd")
        yield _text(at, _BOTTOM + 20, f"{value:,.10g}", "middle")
    for value in up.decades():
        at = up.place(value)
        yield _stroke(_LEFT, at, _RIGHT, at, "#dddddd")
        yield _text(_LEFT - 8, at + 4, f"{value:,.10g}", "end")


def _titles(title: str, x: str, y: str) -> Iterator[str]:
    yield _text(_LEFT, _TOP - 26, title, "start")
    yield _text((_LEFT + _RIGHT) / 2, _BOTTOM + 42, x, "middle")
    yield _text(_LEFT - 8, _TOP - 8, y, "middle")


def _line(
    number: int, name: str, line: Line, across: Axis, up: Axis, *, is_dashed: bool
) -> Iterator[str]:
    colour = _COLOURS[number % len(_COLOURS)]
    places = [(across.place(a), up.place(b)) for a, b in sorted(line)]
    dashes = ' stroke-dasharray="6 4"' if is_dashed else ""
    joined = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
    yield f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>'
    if not is_dashed:
        for a, b in places:
            yield f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.5" fill="{colour}"/>'
    at = _TOP + 12 + 22 * number
    yield f'<path d="M{_RIGHT + 14} {at}h24" stroke="{colour}" stroke-width="2"{dashes}/>'
    yield _text(_RIGHT + 44, at + 4, name, "start")


def _stroke(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{colour}"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
