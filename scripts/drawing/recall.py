"""A picture of recall for its page: one turn as a model reads it, and what a conversation of 50 turns costs, as SVG.

The prompts are sent to a real gateway on the sample workspace: a third of them ask for something in the notes, the
others are what people say besides. The SVG loads nothing from elsewhere.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Sequence
from itertools import accumulate, cycle, islice
from pathlib import Path
from typing import Any, Final

import anyio
from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

from drawing.demo import _FONTS
from gateway.client import spawn_gateway
from gateway.sample import sample_workspace

PICTURE: Final = Path(__file__).resolve().parents[2] / "docs" / "recall.svg"
COLUMNS: Final = 100
TURNS: Final = 50
_BAR: Final = 40
_EVERY: Final = 10
_KEY: Final = "agent:main:main"

ABOUT_NOTES: Final = (
    "What was commit a828e60 about?",
    "When does the heat pump get serviced?",
    "sourdough hydration",
    "Which sample did Nora like best, and what does Lin ask for it?",
    "How is the half-marathon training going?",
    "What did we decide about the backup of the NAS?",
    "Was sagt die Hausverwaltung zur Heizung?",
    "Сколько варить борщ?",
    "Which trains did we want to take in Japan?",
    "What grows in the greenhouse this winter?",
)
BESIDES: Final = (
    "Thanks!",
    "Go on, please.",
    "Write a function that sorts a list of pairs by the second one.",
    "yes",
    "Explain the difference between a mutex and a semaphore.",
    "ok, next",
    "Traceback (most recent call last):\n  File \"a.py\", line 3, in f\nKeyError: 'x'",
)


def conversation() -> list[str]:
    """Returns prompts of which every third asks for something in the notes; these repeat, as subjects do."""
    notes, besides = cycle(ABOUT_NOTES), cycle(BESIDES)
    return [next(notes) if turn % 3 == 0 else next(besides) for turn in range(TURNS)]


async def ask(prompts: Sequence[str]) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as state:
        arguments = ["--workspace", str(sample_workspace()), "--state-dir", state]
        async with spawn_gateway(arguments) as client:
            await client.call("sync", {}, timeout_s=600)
            return [
                await client.call("recall", {"prompt": one, "sessionKey": _KEY}, timeout_s=60)
                for one in prompts
            ]


def draw(prompts: Sequence[str], answers: Sequence[dict[str, Any]]) -> str:
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), highlight=False, markup=False)
    first = next(number for number, one in enumerate(answers) if one["tokens"])
    for line in answers[first]["text"].split("\n"):
        console.print(
            Text(line, "dim" if line.startswith("<") else ""), overflow="ellipsis", no_wrap=True
        )
    console.print(Text.assemble(("> ", "green"), (prompts[first], "bold")))
    console.print()
    tokens = [int(one["tokens"]) for one in answers]
    totals = list(accumulate(tokens))
    turns = sum(map(bool, tokens))
    console.print(
        Text(f"Tokens shown in {TURNS} turns, {turns} of which were shown something:", "bold")
    )
    for turn in islice(range(_EVERY, TURNS + 1), 0, None, _EVERY):
        bar = "█" * round(_BAR * totals[turn - 1] / max(1, totals[-1]))
        console.print(Text.assemble(f"  turn {turn:>2}  ", (bar, "cyan"), f" {totals[turn - 1]:,}"))
    svg = console.export_svg(title="recall", theme=SVG_EXPORT_THEME, unique_id="recall")
    return _FONTS.sub("", svg)


def main() -> None:
    prompts = conversation()
    answers = anyio.run(ask, prompts)
    PICTURE.write_text(draw(prompts, answers), encoding="utf-8")
    total = sum(int(one["tokens"]) for one in answers)
    sys.stdout.write(f"{PICTURE.name}: {total:,} tokens in {len(answers)} turns\n")


if __name__ == "__main__":
    main()
