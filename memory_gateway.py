"""Where the installed command `memory-gateway` begins.

In a wheel this is the package that holds our packages, so that they are on nobody else's import path; in
the repository it lies beside them. Either way their folder is put first.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> int:
    """Runs the command line of this process and returns its exit code."""
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    from gateway.__main__ import main as run  # noqa: PLC0415 - found from here on

    return run()
