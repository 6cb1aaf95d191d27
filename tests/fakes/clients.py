"""MCP clients from npm for tests, installed once."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final, Literal

import pytest

SETUP: Final = Path(__file__).resolve().parents[2] / "scripts/clients-setup"


def install_client(name: Literal["claude-code", "codex", "gemini-cli"]) -> str:
    """The path of this client's command; skips the test where it cannot be installed."""
    if shutil.which("npm") is None:
        pytest.skip(f"npm is not installed, so the real {name} cannot be")
    done = subprocess.run(
        [str(SETUP), name], capture_output=True, encoding="utf-8", timeout=900, check=False
    )
    if done.returncode:
        pytest.skip(f"{name} could not be installed: {done.stderr.strip()[-300:]}")
    return done.stdout.strip()
