"""How long the words of a request may be.

Owns the bounds that the size of a line alone would leave open: a session key is remembered, a path is
echoed, and a glob is multiplied by its braces before it is matched. Longer ones are invalid parameters.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

MAX_KEY_CHARS: Final = 1024
MAX_PATH_CHARS: Final = 4096
"""The system's own bound on a path (PATH_MAX), in characters."""
MAX_GLOB_CHARS: Final = 1024
MAX_GLOBS: Final = 64

MAX_NAME_CHARS: Final = 128
"""Of what is repeated in reports and logs: the reason of a sync, a client's name, a protocol version."""

Name = Annotated[str, msgspec.Meta(max_length=MAX_NAME_CHARS)]
Key = Annotated[str, msgspec.Meta(max_length=MAX_KEY_CHARS)]
PathText = Annotated[str, msgspec.Meta(max_length=MAX_PATH_CHARS)]
Globs = Annotated[
    tuple[Annotated[str, msgspec.Meta(max_length=MAX_GLOB_CHARS)], ...],
    msgspec.Meta(max_length=MAX_GLOBS),
]
