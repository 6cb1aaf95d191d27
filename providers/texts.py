"""What is done to every text before it leaves for a provider. Pure."""

from __future__ import annotations

import re

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def without_lone_surrogates(text: str) -> str:
    """Halves of broken emoji, which UTF-8 cannot hold, become replacement characters."""
    return _LONE_SURROGATE.sub("\ufffd", text)
