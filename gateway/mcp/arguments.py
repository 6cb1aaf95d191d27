"""What a model may say to the tools, and how each part is explained to it.

Owns the arguments as types, with descriptions that become the tools' JSON schemas. Left out is what
belongs to the host and not to a model: the session key, which decides what may be searched, and the
explanation of scores.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from config.settings import Source
from gateway.tools.append import AppendParams
from gateway.tools.get import GetParams
from gateway.tools.search import MAX_RESULTS, SearchParams


class SearchArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Arguments of the tool `memory_search`."""

    query: Annotated[
        str,
        Meta(
            min_length=1,
            description=(
                "What to look for: a question or keywords, in any language. Names, dates, numbers and "
                "identifiers found in the conversation make it sharper. There is no query syntax."
            ),
        ),
    ]
    max_results: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=MAX_RESULTS,
                description="How many passages at most. Leave it out for the usual 6; more costs context.",
            ),
        ]
        | UnsetType
    ) = UNSET
    min_score: (
        Annotated[
            float,
            Meta(
                ge=0,
                le=1,
                description=(
                    "Leave out passages that score lower. Normally left out; lower it (0.1) when a search "
                    "found nothing though the memory should know."
                ),
            ),
        ]
        | UnsetType
    ) = UNSET
    sources: (
        Annotated[
            tuple[Source, ...],
            Meta(
                description=(
                    "Where to look: `memory` are the notes, `sessions` past conversations. Both, as far as "
                    "they are indexed, when left out."
                )
            ),
        ]
        | UnsetType
    ) = UNSET
    include: (
        Annotated[
            tuple[str, ...],
            Meta(
                description="Only files whose path matches one of these, as in `memory/projects/**`."
            ),
        ]
        | UnsetType
    ) = UNSET
    exclude: (
        Annotated[tuple[str, ...], Meta(description="No files whose path matches one of these.")]
        | UnsetType
    ) = UNSET
    after: (
        Annotated[
            date,
            Meta(description="Only notes dated this day or later, as in `2026-02-08`."),
        ]
        | UnsetType
    ) = UNSET
    before: (
        Annotated[
            date,
            Meta(description="Only notes dated before this day, which itself is left out."),
        ]
        | UnsetType
    ) = UNSET

    def to_params(self) -> SearchParams:
        return SearchParams(**_given(self))


class GetArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of the tool `memory_get`."""

    path: Annotated[
        str,
        Meta(
            min_length=1,
            description=(
                "The `path` of a search result, such as `memory/2026-02-08.md`; or `MEMORY.md`, `USER.md`. Only memory "
                "files can be read."
            ),
        ),
    ]
    first_line: (
        Annotated[
            int,
            Meta(ge=1, description="First line to read, counting from 1, as in `startLine`."),
        ]
        | UnsetType
    ) = msgspec.field(default=UNSET, name="from")
    lines: (
        Annotated[
            int,
            Meta(ge=1, description="How many lines to read. Leave out both for the whole file."),
        ]
        | UnsetType
    ) = UNSET

    def to_params(self) -> GetParams:
        return GetParams(**_given(self))


class AppendArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of the tool `memory_append`."""

    text: Annotated[
        str,
        Meta(min_length=1, description="The entry, as Markdown: one fact, or a few short lines."),
    ]

    def to_params(self) -> AppendParams:
        return AppendParams(text=self.text)


ToolArguments = SearchArguments | GetArguments


def _given(arguments: ToolArguments) -> dict[str, Any]:
    values = msgspec.structs.asdict(arguments)
    return {name: value for name, value in values.items() if value is not UNSET}
