"""What a document calls itself."""

from __future__ import annotations

import re
import sys
from typing import Final

from backends.chunking.blocks import BlockScanner
from backends.chunking.headings import shorten_title
from backends.chunking.markup import front_matter, split_lines
from backends.chunking.model import ChunkLimits
from backends.chunking.room import Room

_TITLE: Final = re.compile(r"^title:(.*)$", re.MULTILINE)
_QUOTES: Final = "\"'"


def document_title(text: str) -> str | None:
    """The first heading of level 1, else the title that the front matter gives, else None."""
    scanner = BlockScanner(text, Room.of(ChunkLimits())._replace(limit=sys.maxsize))
    headings = scanner.headings
    for line in split_lines(text):
        scanner.read(line)
        if headings and headings[-1].level == 1 and headings[-1].title:
            return headings[-1].title
    given = _TITLE.search(front_matter(text) or "")
    return shorten_title(given[1].strip().strip(_QUOTES).strip()) or None if given else None
