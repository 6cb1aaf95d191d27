"""A picture of the demo for the README: what a terminal shows of a real run, as SVG.

It is drawn from the events of one run. Of each answer only the best passage is shown, so that the picture is not
longer than a screen, and lines are cut where a terminal would wrap them. The SVG loads nothing from elsewhere.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path

import anyio
import msgspec
from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

from gateway.cli.options import PROGRAM
from gateway.cli.rendering.results import event_lines
from gateway.sample import Answered, DemoFinished, Event, Exchange, Progressed, run_demo

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "demo.svg"
COLUMNS = 100

_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""Fonts from a server; without them a browser uses its own monospace font."""


def record() -> list[Event]:
    """Returns the events of one run of the demo. Raises RuntimeError if something was not found."""
    events: list[Event] = []
    if not anyio.run(run_demo, events.append):
        raise RuntimeError("The demo did not find everything: see `./scripts/run demo`.")
    return events


def draw(events: Sequence[Event]) -> str:
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), highlight=False, markup=False)
    console.print(Text.assemble(("$ ", "green"), (f"{PROGRAM} demo", "bold")))
    for event in events:
        for line in _lines(event):
            console.print(line, overflow="ellipsis", no_wrap=True)
    svg = console.export_svg(title=PROGRAM, theme=SVG_EXPORT_THEME, unique_id="demo")
    return _FONTS.sub("", svg)


def _lines(event: Event) -> list[Text]:
    match event:
        case Progressed(done=done, total=total) if done < total:
            return []
        case Answered(exchange=exchange):
            return list(event_lines(msgspec.structs.replace(event, exchange=_best(exchange))))
        case DemoFinished():
            return list(event_lines(event))[:1]
        case _:
            return list(event_lines(event))


def _best(exchange: Exchange) -> Exchange:
    result = {**exchange.result, "results": exchange.result["results"][:1]}
    return msgspec.structs.replace(exchange, result=result)


def main() -> None:
    PICTURE.write_text(draw(record()), encoding="utf-8")


if __name__ == "__main__":
    main()
