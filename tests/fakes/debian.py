"""Programs of Debian's packages that tests run, installed at their first use where that is possible."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from typing import Final

import pytest

_SETUP: Final = Path(__file__).resolve().parents[2] / "scripts/debian-setup"
_PATIENCE_S: Final = 300


@cache
def program(package: str) -> Path:
    """Returns the command of the same name from this package; skips the test where it cannot be installed."""
    done = subprocess.run(
        [_SETUP, package], capture_output=True, text=True, check=False, timeout=_PATIENCE_S
    )
    if done.returncode:
        pytest.skip(f"{package} could not be installed: {done.stderr.strip()[-300:]}")
    return Path(done.stdout.strip())
