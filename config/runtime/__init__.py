"""What every floor does in the same way: waking a task, waiting longer after each failure, locks, replacing files.

What Linux alone has is asked for by these two names, so that everything also runs, and is tested, without it.
Elsewhere, and with `MEMORY_GATEWAY_PORTABLE` in the environment, the portable way is taken: what would be read
below `PROC` is not there.
"""

from __future__ import annotations

import os
import sys

IS_LINUX: bool = sys.platform == "linux" and "MEMORY_GATEWAY_PORTABLE" not in os.environ
PROC = "/proc" if IS_LINUX else "/nonexistent/proc"
