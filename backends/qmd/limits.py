"""Keeping an answer inside `memory.qmd.limits`. Pure.

Lengths are UTF-16 code units, as documented. A cut falls between lines where it can, never inside a
grapheme, and the line numbers stay those of what is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from backends.chunking.graphemes import next_cut
from backends.interface import Hit
from backends.text.units import utf16_length


def limited(hits: Iterable[Hit], *, snippet_chars: int, injected_chars: int) -> Iterator[Hit]:
    """The hits with snippets of at most `snippet_chars`, together at most `injected_chars`."""
    left = injected_chars
    for hit in hits:
        snippet = shorten(hit.snippet, min(snippet_chars, left))
        if not snippet.strip():
            return
        left -= utf16_length(snippet)
        if snippet == hit.snippet:
            yield hit
        else:
            end = hit.start_line + snippet.count("\n")
            yield msgspec.structs.replace(hit, snippet=snippet, end_line=end)
        if left <= 0:
            return


def shorten(text: str, limit: int) -> str:
    """The beginning of `text` that fits: whole lines if one fits, else whole graphemes."""
    if utf16_length(text) <= limit:
        return text
    lines = text.split("\n")
    while len(lines) > 1:
        lines.pop()
        kept = "\n".join(lines)
        if utf16_length(kept) <= limit:
            return kept
    return _cut(lines[0], limit)


def _cut(line: str, limit: int) -> str:
    wanted = length = 0
    for character in line:
        length += utf16_length(character)
        if length > limit:
            break
        wanted += 1
    if not wanted:
        return ""
    cut = next_cut(line, 0, wanted, len(line))
    return line[:cut].rstrip() if cut <= wanted else ""
