"""The version of this program and of the protocol it speaks."""

from typing import Final

VERSION: Final = "0.3.0"
PROTOCOL: Final = "1"
"""Goes up when a client has to change; additions do not count."""
