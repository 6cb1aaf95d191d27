"""What to run when the libraries of an extra are missing: the command that fits how we were installed.

The libraries are named rather than an extra of ours, which an installer could only resolve where the
package itself comes from an index.
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
    """A shell command that brings the libraries of an extra to where this program runs."""
    return f"{_installer()} {' '.join(map(shlex.quote, _libraries(extra)))}"


def install_remedy(extra: str) -> str:
    """The same as a sentence for people."""
    if extra != "local":
        return f"Run: {install_command(extra)}"
    if _is_checkout():
        return f"Run: {shlex.quote(str(Path(FLOORS, 'scripts/llama-setup')))}{_COMPILES}"
    return f"Run: {install_command(extra)}{_COMPILES}"


def _installer() -> str:
    """What puts libraries here: environments that pipx and uv make have no pip."""
    if Path(sys.prefix, "pipx_metadata.json").is_file():
        return f"pipx inject {DISTRIBUTION}"
    if importlib.util.find_spec("pip") is not None:
        return f"{shlex.quote(sys.executable)} -m pip install"
    return f"uv pip install --python {shlex.quote(sys.executable)}"


def _libraries(extra: str) -> list[str]:
    """The requirements that only this extra has."""
    try:
        requirements = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        requirements = []
    marked = (one.partition(";") for one in requirements)
    found = [name.strip() for name, _, marker in marked if f"extra == '{extra}'" in marker]
    return found or [f"{FLOORS}[{extra}]"]  # a checkout that was never installed


def _is_checkout() -> bool:
    return Path(FLOORS, "pyproject.toml").is_file()
