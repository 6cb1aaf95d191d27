"""Where the command `memory-gateway` begins: our packages are the ones that run.

Owns the order in which modules are looked for. A `config.py` or `gateway.py` that lies in the working
directory, or in a directory of PYTHONPATH, is somebody else's. Standard library only, so that nothing is
imported before the order holds.
"""

# ruff: noqa: PTH100, PTH120 - a pathlib of somebody else would be imported
from __future__ import annotations

import os
import sys


def prefer_installed() -> None:
    """Moves the working directory and what PYTHONPATH names behind everything that is installed."""
    ours = os.path.dirname(os.path.abspath(__file__))
    named = [os.curdir, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    others = {os.path.abspath(one) for one in named} - {ours}
    sys.path.sort(key=lambda one: os.path.abspath(one) in others)
    if ours not in map(os.path.abspath, sys.path):
        sys.path.append(ours)


def main() -> int:
    """Runs the command line of this process and returns its exit code."""
    prefer_installed()
    from gateway.__main__ import main as run  # noqa: PLC0415 - only now is it ours

    return run()
