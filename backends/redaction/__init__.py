"""Redaction of secrets in text before it is stored; prose stays as it was written. Pure."""

from __future__ import annotations

from typing import Final

REDACTION_VERSION: Final = 2
"""Increases whenever the same text is masked differently, so that what was stored is made anew."""


def redact(text: str) -> str:
    """Returns the text with secrets masked: private keys, secrets in typical contexts, tokens of known shapes,
    assignments.

    What is masked already stays as it is, so redacting twice is redacting once. Linear in the length.
    """
    # Most agents index no transcripts, and compiling the patterns takes 5 ms of the start.
    from backends.redaction.patterns import (  # noqa: PLC0415
        redact_assignments,
        redact_contexts,
        redact_private_keys,
        redact_shapes,
    )

    return redact_assignments(redact_shapes(redact_contexts(redact_private_keys(text))))
