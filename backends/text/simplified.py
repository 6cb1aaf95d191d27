"""Traditional Chinese characters and their simplified forms.

The simplifications of the General List of 1986, as far as Big5 contains the traditional and GB 2312 the simplified
character; of several, the first in OpenCC's table `TSCharacters` (Apache-2.0).
"""

from __future__ import annotations

from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Final

_TABLE: Final = Path(__file__).with_suffix(".bin")
"""Three runs of as many bytes, in half the room of text: how far each traditional character is from the one before,
the upper and the lower byte of each simplified one.
"""
_FIRST: Final = 0x4E00


@cache
def simplified() -> dict[int, int]:
    """Returns a table for `str.translate`."""
    table = _TABLE.read_bytes()
    count = len(table) // 3
    gaps, upper, lower = (table[at : at + count] for at in range(0, len(table), count))
    found = (high << 8 | low for high, low in zip(upper, lower, strict=True))
    return dict(zip((_FIRST + far for far in accumulate(gaps)), found, strict=True))
