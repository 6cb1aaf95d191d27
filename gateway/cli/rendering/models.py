"""The list of models as people read it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from gateway.cli.rendering.aligned import aligned
from gateway.cli.rendering.words import short_path, size
from providers.local.models.shelf import ShelfItem


def model_lines(items: Sequence[ShelfItem]) -> Sequence[Text]:
    """State, size, name and place of each; the configured one is marked."""
    cells = [
        (
            "*" if item.configured else "",
            _state(item),
            size(item.total_bytes or item.bytes) if item.bytes else "",
            item.reference,
            short_path(item.path),
        )
        for item in items
    ]
    heads = ("", "STATE", "SIZE", "MODEL", "PATH")
    return aligned([heads, *cells], ("bold green", "", "", "cyan", "dim"), widest=80)


def _state(item: ShelfItem) -> str:
    if item.complete:
        return "ready"
    if not item.bytes:
        return "not there"
    if not item.total_bytes:
        return f"{size(item.bytes)} of it"
    return f"{100 * item.bytes // item.total_bytes} % of it"
