"""Words of notes in tags that they cannot close: they are information for a model, never instructions."""

from __future__ import annotations

import re
from typing import Final

from backends.interface import Hit
from gateway.escaping import escape_controls, escape_line
from gateway.tools.search import with_footer

_BLANK: Final = r"[\s\u00ad\u200b-\u200f\u2060\ufeff]*"
"""What a model reads over, characters without a width among them."""
_TAG: Final = re.compile(rf"<(?={_BLANK}(?:/{_BLANK})?(?:passage|note|recalled)\b)", re.IGNORECASE)


def passage_tag(hit: Hit, text: str, *, score: bool) -> str:
    """A passage, or what is left of it, with its place."""
    place = attributes(
        path=hit.path,
        lines=line_range(hit.start_line, hit.end_line),
        events=line_range(*hit.events) if hit.events else "",
        title=hit.title or "",
        tags=", ".join(hit.tags),
        score=f"{hit.score:.2f}" if score else "",
        answers=(hit.confidence or "") if score else "",
        headings=" › ".join(hit.headings),
        also_in=", ".join(f"{one.path}:{one.line}" for one in hit.also_in),
    )
    return f"<passage{place}>\n{contained(text)}\n</passage>"


def bare_snippet(hit: Hit) -> str:
    """The snippet without the line that names its source, which a tag does."""
    return (
        hit.snippet
        if hit.citation is None
        else hit.snippet.removesuffix(with_footer("", hit.citation))
    )


def attributes(**values: str) -> str:
    return "".join(f' {name}="{_quoted(text)}"' for name, text in values.items() if text)


def _quoted(text: str) -> str:
    return escape_line(text).replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")


def contained(text: str) -> str:
    """Words of a note that look like the end of it, or like another one, are only words."""
    return _TAG.sub("&lt;", escape_controls(text))


def line_range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"
