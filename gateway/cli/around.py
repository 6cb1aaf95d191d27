"""What a person sees of hits: the lines around the best one, and never their front matter alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from gateway.cli.rendering.on_terminal import SHOWN_LINES, Around, best_line, lines_hidden
from gateway.cli.rendering.places import is_file
from gateway.tools.notes import GetParams

if TYPE_CHECKING:
    from backends.interface import Hit
    from gateway.cli.access import Access

_MOST_FRONT_MATTER: Final = 100
"""Lines from the beginning of a note in which it is looked for."""


async def look_around(
    memory: Access, hits: Sequence[Hit], query: str, context: int | None = None
) -> list[tuple[Hit, Around]]:
    """Of the hits those that show something, with `context` lines of the note around each if that is given.

    One that matches in front matter shows how its note begins, unless another hit shows that note anyway.
    """
    ends = [await _front_matter_end(memory, hit) for hit in hits]
    has_text = [
        best_line(hit, query, after=end).text != "" for hit, end in zip(hits, ends, strict=True)
    ]
    shown: list[tuple[Hit, Around]] = []
    told = {hit.path for hit, has in zip(hits, has_text, strict=True) if has}
    for hit, end, has in zip(hits, ends, has_text, strict=True):
        if not has and hit.path in told:
            continue
        told.add(hit.path)
        shown.append((hit, await _around(memory, hit, query, context, end, has_text=has)))
    return shown


async def _front_matter_end(memory: Access, hit: Hit) -> int:
    from backends.text.frontmatter import read_front_matter

    if not is_file(hit) or hit.start_line > _MOST_FRONT_MATTER:
        return 0
    head = await memory.get(GetParams(hit.path, 1, _MOST_FRONT_MATTER))
    return lines_hidden(head.text, read_front_matter(head.text))


async def _around(
    memory: Access, hit: Hit, query: str, context: int | None, end: int, *, has_text: bool
) -> Around:
    if not is_file(hit) or (context is None and has_text):
        return Around(end)
    best = best_line(hit, query, after=end).number or hit.start_line
    first, last = end + 1, end + SHOWN_LINES
    if context is not None:
        first, last = max(end + 1, best - context), max(end + 1, best) + context
    read = await memory.get(GetParams(hit.path, first, last - first + 1))
    return Around(end, first, tuple(read.text.split("\n")[: read.line_count]))
