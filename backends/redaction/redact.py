"""The one function of this package: its steps in their order."""

from __future__ import annotations

from typing import Final

REDACTION_VERSION: Final = 1
"""Raised whenever the same text is masked otherwise, so that what was stored is made anew."""


def redact(text: str) -> str:
    """The text with secrets masked: documented patterns, cloud keys, connection strings, key blocks.

    What is masked already stays as it is, so redacting twice is redacting once. Linear in the length.
    """
    # Most agents index no transcripts, and to compile the patterns takes 5 ms of the start.
    from backends.redaction.assignments import redact_assignments  # noqa: PLC0415
    from backends.redaction.private_keys import redact_private_keys  # noqa: PLC0415
    from backends.redaction.tokens import redact_tokens  # noqa: PLC0415

    return redact_assignments(redact_tokens(redact_private_keys(text)))
