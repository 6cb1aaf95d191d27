"""What one command leaves to the next: where the hits are that a person was shown, and that a hint was given.

It is nothing that anybody would miss: what cannot be kept fails no command.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from config.runtime.files import make_directories, read_file, replace_file
from gateway.cli.options import PROGRAM

_HITS: Final = "last-search.json"
_HINTED: Final = "hinted"
_MOST_BYTES: Final = 1 << 20


def keep_hits(places: Sequence[tuple[str, int]]) -> None:
    """Remembers where the hits are that a person was shown, for `open 2`."""
    with suppress(OSError, RuntimeError):
        make_directories(_place(_HITS).parent)
        replace_file(_place(_HITS), msgspec.json.encode(places), mode=0o600)


def last_hit(number: int) -> tuple[str, int] | None:
    """Path and line of a hit of the last search, counted from 1."""
    try:
        data = read_file(_place(_HITS), _MOST_BYTES)
        places = msgspec.json.decode(data, type=list[tuple[str, int]])
    except (OSError, RuntimeError, msgspec.MsgspecError):
        return None
    return places[number - 1] if 0 < number <= len(places) else None


def may_hint() -> bool:
    """Whether the hint that meaning is missing is due: once for a person, whatever is asked."""
    with suppress(OSError, RuntimeError):
        make_directories(_place(_HINTED).parent)
        os.close(os.open(_place(_HINTED), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        return True
    return False


def _place(name: str) -> Path:
    state = os.environ.get("XDG_STATE_HOME", "")
    base = Path(state) if state.startswith("/") else Path.home() / ".local/state"
    return base / PROGRAM / name
