"""HTML in which nothing that somebody wrote is more than text. Pure."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from typing import Final

from gateway import escaping


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


_NO_CHARACTER: Final = re.compile(
    f"[\ud800-\udfff{''.join(chr((plane << 16) | end) for plane in range(1, 17) for end in (0xFFFE, 0xFFFF))}]"
)


def visible(text: str) -> str:
    """The text with what could deceive a reader shown as its number."""
    return _NO_CHARACTER.sub("\ufffd", escaping.visible(text))


def escape(text: str) -> Markup:
    """What is visible of the text as HTML, also for attributes."""
    return Markup(html.escape(visible(text)))


def element(name: str, *children: str, **attributes: str | float) -> Markup:
    """`class_` is the attribute `class`, `aria_label` is `aria-label`. Names are ours, never untrusted."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
    )
    inner = "".join(one if isinstance(one, Markup) else escape(one) for one in children)
    return Markup(f"<{name}{written}>{inner}</{name}>")


def joined(parts: Iterable[Markup]) -> Markup:
    return Markup("".join(parts))


def table(heads: Sequence[str], rows: Iterable[Sequence[str | Markup]], numbers: str) -> Markup:
    """`numbers` has an `n` for each column of numbers, and anything else for the others."""
    classes = [{"class_": "n"} if one == "n" else {} for one in numbers]
    lines = [
        element(
            "tr", *(element("td", cell, **kind) for cell, kind in zip(row, classes, strict=True))
        )
        for row in rows
    ]
    head = element(
        "tr", *(element("th", name, **kind) for name, kind in zip(heads, classes, strict=True))
    )
    made = element("table", element("thead", head), element("tbody", *lines))
    return element("div", made, class_="wide")
