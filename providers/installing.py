"""The command that installs the missing libraries of an extra, which depends on how we were installed.

It names the libraries rather than the extra, which an installer can only resolve if our package itself
comes from an index.
"""

from __future__ import annotations

import importlib.util
import shlex
import sys
from importlib import metadata
from pathlib import Path
from typing import Final

from config.runtime.start import FLOORS

DISTRIBUTION: Final = "memory-gateway"
_COMPILES: Final = " (it compiles llama.cpp for two to four minutes)"


def install_command(extra: str) -> str:
    """A shell command that installs the libraries of an extra for this program."""
    return f"{_installer()} {' '.join(map(shlex.quote, _libraries(extra)))}"


def install_remedy(extra: str) -> str:
    """The same as a sentence."""
    if extra != "local":
        return f"Run: {install_command(extra)}"
    if _is_checkout():
        return f"Run: {shlex.quote(str(Path(FLOORS, 'scripts/llama-setup')))}{_COMPILES}"
    return f"Run: {install_command(extra)}{_COMPILES}"


def _installer() -> str:
    """The program that installs libraries here; environments of pipx and uv have no pip."""
    if Path(sys.prefix, "pipx_metadata.json").is_file():
        return f"pipx inject {DISTRIBUTION}"
    if importlib.util.find_spec("pip") is not None:
        return f"{shlex.quote(sys.executable)} -m pip install"
    return f"uv pip install --python {shlex.quote(sys.executable)}"


def _libraries(extra: str) -> list[str]:
    """The requirements of this extra alone."""
    try:
        requirements = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        requirements = []
    marked = (one.partition(";") for one in requirements)
    found = [name.strip() for name, _, marker in marked if f"extra == '{extra}'" in marker]
    return found or [f"{FLOORS}[{extra}]"]  # a checkout that was never installed


def _is_checkout() -> bool:
    return Path(FLOORS, "pyproject.toml").is_file()
