"""The pictures of commands on a terminal: drawn from runs, small, and like those in the documents."""

from __future__ import annotations

import html
import re
from xml.etree import ElementTree as ET

import pytest

from drawing.terminal import PICTURES, SCENES, record

SHOWS = {
    "setup": ("/home/you/notes (Obsidian vault, 121 notes)", "Do this? [Y/n]:", "Ask: memory-gateway search"),
    "search": ("Press/Ink mixing.md:17", "likely", "Ink mixing", "\u25b6"),
    "browse": ("> ink", "Press/Ink mixing.md", "\u25b6", "Enter open"),
    "status": ("121/121 files", "~/notes", "memory-gateway models suggest"),
}  # fmt: skip


def shown(svg):
    pieces = re.findall(r"<text[^>]*>(.*?)</text>", svg)
    return html.unescape("".join(pieces)).replace("\xa0", " ")


@pytest.fixture(scope="module")
def drawn():
    return record()


@pytest.mark.parametrize("name", [scene.name for scene in SCENES])
def test_a_picture_shows_what_a_run_told_and_loads_nothing(drawn, name):
    svg = drawn[name]
    ET.fromstring(svg)
    assert all(part in shown(svg) for part in SHOWS[name]), shown(svg)
    assert not any(one in svg for one in ("@font-face", "url(h", "<script"))
    assert len(svg) < 60_000


@pytest.mark.parametrize("name", [scene.name for scene in SCENES])
def test_the_picture_in_the_documents_shows_the_same(name):
    text = shown((PICTURES / f"terminal-{name}.svg").read_text(encoding="utf-8"))
    assert all(part in text for part in SHOWS[name]), "run ./scripts/draw_terminal"
