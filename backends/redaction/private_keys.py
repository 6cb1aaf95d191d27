"""Private key blocks (PEM, OpenSSH, PGP): the first and the last line stay, what is between goes.

A block that was pasted without its end goes to the end of its text: half a key is a secret too.
"""

from __future__ import annotations

import re
from typing import Final

MARKER: Final = "…redacted…"
_BEGIN: Final = re.compile(r"-----BEGIN (?P<name>[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?)-----")


def redact_private_keys(text: str) -> str:
    parts = []
    done = 0
    while begin := _BEGIN.search(text, done):
        closing = f"-----END {begin['name']}-----"
        end = text.find(closing, begin.end())
        body = text[begin.end() : end if end >= 0 else len(text)]
        separator = "\n" if "\n" in body else " "
        parts += [text[done : begin.end()], separator, MARKER]
        if end < 0:
            return "".join(parts)
        parts += [separator, closing]
        done = end + len(closing)
    return "".join((*parts, text[done:]))
