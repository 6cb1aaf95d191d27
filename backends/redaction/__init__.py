"""Taking secrets out of text before it is stored, and leaving prose as it was written. Pure."""

from __future__ import annotations

from typing import Final

REDACTION_VERSION: Final = 2
"""Raised whenever the same text is masked otherwise, so that what was stored is made anew."""


def redact(text: str) -> str:
    """The text with secrets masked: key blocks, what stands where secrets stand, tokens by their shape, assignments.

    What is masked already stays as it is, so redacting twice is redacting once. Linear in the length.
    """
    # Most agents index no transcripts, and to compile the patterns takes 5 ms of the start.
    from backends.redaction.patterns import (  # noqa: PLC0415
        redact_assignments,
        redact_contexts,
        redact_private_keys,
        redact_shapes,
    )

    return redact_assignments(redact_shapes(redact_contexts(redact_private_keys(text))))
