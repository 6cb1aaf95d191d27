"""What commands write: data to standard output, everything else to standard error.

Owns the two streams, so that JSON is always whole, valid and UTF-8, whatever the locale, and nothing
else ever stands on standard output. Colours and tables are made elsewhere.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import msgspec

from gateway.rpc.surrogates import replace_lone_surrogates


def write_text(text: str) -> None:
    """Text exactly as it is, in UTF-8."""
    if sys.stdout is not None:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))


def write_json(value: Any) -> None:
    """Anything msgspec can encode, indented by two spaces, as one document."""
    data = replace_lone_surrogates(msgspec.to_builtins(value))
    write_text(msgspec.json.format(msgspec.json.encode(data), indent=2).decode() + "\n")


def write_json_line(value: Any) -> None:
    """The same on one line, for programs that read along."""
    data = replace_lone_surrogates(msgspec.to_builtins(value))
    write_line(msgspec.json.encode(data).decode())


def write_line(text: str) -> None:
    """A line that is written at once. Raises BrokenPipeError when nobody reads any more."""
    write_text(text + "\n")
    flush()


def note(message: str) -> None:
    """A line for people, beside the data."""
    print(message, file=sys.stderr)


def flush() -> None:
    """Raises BrokenPipeError when nobody reads the output any more."""
    if sys.stdout is not None:
        sys.stdout.flush()


def discard() -> None:
    """Sends what is still to be written nowhere: its reader has gone."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
