"""Basics that every floor shares: waking a task, waiting longer after each failure, locks, replacing files.

Features of Linux alone are reached through these two names, so that everything also runs, and is tested, without them.
Elsewhere, and with `MEMORY_GATEWAY_PORTABLE` in the environment, the portable way is taken: `PROC` does not exist.
"""

from __future__ import annotations

import os
import sys

IS_LINUX: bool = sys.platform == "linux" and "MEMORY_GATEWAY_PORTABLE" not in os.environ
PROC = "/proc" if IS_LINUX else "/nonexistent/proc"
