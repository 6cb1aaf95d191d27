"""Taking secrets out of text before it is stored, and leaving prose as it was written.

Pure, and knows nothing of transcripts: whoever keeps text that people and tools wrote may use it.
"""

from __future__ import annotations

from backends.redaction.redact import REDACTION_VERSION, redact

__all__ = ["REDACTION_VERSION", "redact"]
