"""Starts a module of this program as a process: `python -P .../config/runtime/start.py gateway serve`.

Unlike `python -m` it finds our packages wherever the folder with them lies (in a wheel it is not on the
import path), and before anything of the same names that PYTHONPATH brings. Run as a file it imports
nothing of ours before the path is right.
"""

from __future__ import annotations

import os
import runpy
import sys
from typing import Final

_HERE: Final = os.path.abspath(__file__)  # noqa: PTH100 - pathlib costs time at every start
FLOORS: Final = os.path.dirname(os.path.dirname(os.path.dirname(_HERE)))  # noqa: PTH120
"""The folder with our packages: the repository, or `memory_gateway` of an installed wheel."""


def command_of(module: str) -> tuple[str, ...]:
    """Returns the command that runs `module` with the interpreter of this process; arguments follow."""
    return (sys.executable, "-E", "-P", _HERE, module)


if __name__ == "__main__":
    sys.path.insert(0, FLOORS)
    runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
