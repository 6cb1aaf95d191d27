"""What the tools answer, as text for a model: each thing once, and nothing that only programs need.

A client hands a model either the text of a result or its structured content, so there is one of them, and
every client reads text. Passages stand in tags that their own words cannot close. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from backends.interface import Hit, ReadAnswer, SearchAnswer
from gateway.tools.get import AppendResult
from gateway.tools.search import escape_controls, escape_line, with_footer

_TAG = re.compile(r"<(?=/?(?:passage|note)\b)", re.IGNORECASE)


def search_text(answer: SearchAnswer) -> str:
    """Remarks first, since what is weak about the answer concerns all that follows."""
    return "\n".join((*_remarks(answer), *map(_passage, answer.hits)))


def _remarks(answer: SearchAnswer) -> Iterator[str]:
    if answer.error is not None:
        yield f"Not searched ({answer.outcome}): {answer.error}"
    elif not answer.hits:
        yield f"Nothing found ({answer.outcome})."
    elif answer.mode == "keyword":
        yield "Found by words alone, not by meaning."
    if answer.warning:
        yield answer.warning
    if answer.fallback is not None:
        yield f"Not answered by {answer.fallback.origin}: {answer.fallback.reason}"
    if answer.stale is not None:
        yield f"Changes in {answer.stale.files} files are not searched yet: {answer.stale.reason}"
    if answer.undated:
        yield f"{answer.undated} files without a date were left out."


def _passage(hit: Hit) -> str:
    snippet = hit.snippet
    if hit.citation is not None:
        snippet = snippet.removesuffix(with_footer("", hit.citation))
    place = _attributes(
        path=hit.path,
        lines=_lines(hit.start_line, hit.end_line),
        events=_lines(*hit.events) if hit.events else "",
        title=hit.title or "",
        tags=", ".join(hit.tags),
        score=f"{hit.score:.2f}",
    )
    return f"<passage{place}>\n{_contained(snippet)}\n</passage>"


def read_text(answer: ReadAnswer) -> str:
    """The lines that were asked for; the tag says which, and where to go on."""
    if answer.error is not None:
        return answer.error
    if answer.status == "not_found":
        return f"There is no {escape_line(answer.path)} (not_found)."
    last = answer.first_line + answer.line_count - 1
    place = _attributes(
        path=answer.path,
        lines=_lines(answer.first_line, last) if answer.line_count else "",
        next_from=str(answer.next_line or ""),
    )
    links = "".join(
        f"\n[[{escape_line(name)}]] is {escape_line(path)}" for name, path in answer.links.items()
    )
    return f"<note{place}>\n{_contained(answer.text.removesuffix(chr(10)))}\n</note>{links}"


def append_text(answer: AppendResult) -> str:
    if answer.error is not None:
        return answer.error
    return f"Written: {answer.path}, lines {_lines(answer.start_line or 0, answer.end_line or 0)}."


def _attributes(**values: str) -> str:
    return "".join(f' {name}="{_quoted(text)}"' for name, text in values.items() if text)


def _quoted(text: str) -> str:
    return escape_line(text).replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")


def _contained(text: str) -> str:
    """Words of a note that look like the end of it, or like another one, are only words."""
    return _TAG.sub("&lt;", escape_controls(text))


def _lines(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"
