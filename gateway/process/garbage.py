"""How often the process looks for cycles of references that nobody holds.

Owns the collector's settings. A search makes some thousand short-lived values that are in no cycle; by
default each would have the collector run several times, now and then through everything there is.
"""

from __future__ import annotations

import gc
from typing import Final

NEW_OBJECTS: Final = 5_000
"""Made and not freed since the last look at the young ones."""


def settle_collector() -> None:
    """What exists by now stays until the end, and is never looked at again."""
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])
