"""The command that installs the missing libraries of an extra, which depends on how we were installed.

It names the libraries rather than the extra, which an installer can only resolve if our package itself comes
from an index; but a tool of uv is installed again from its source, since upgrades drop libraries that were only added.
"""

from __future__ import annotations

import importlib.util
import shlex
import sys
from pathlib import Path
from typing import Any, Final

from config.runtime.start import FLOORS
from config.vendors import Vendor
from providers.provider_interface import ProviderUnavailableError

DISTRIBUTION: Final = "memory-gateway"
_COMPILES: Final = " (it compiles llama.cpp for two to four minutes, with a C++ compiler)"


def install_command(extra: str) -> str:
    """Returns a shell command that installs the libraries of an extra for this program."""
    return shlex.join(install_arguments(extra))


def install_arguments(extra: str) -> list[str]:
    """Returns the same command as a list."""
    if (tool := _tool_requirement(extra)) is not None:
        return ["uv", "tool", "install", "--force", tool]
    # Environments of pipx and uv have no pip.
    installer = ["pipx", "inject", DISTRIBUTION] if is_of_pipx() else pip_install()
    return [*installer, *_libraries(extra)]


def install_remedy(extra: str) -> str:
    """Returns the same command as a sentence."""
    if extra != "llama":
        return f"Run: {install_command(extra)}"
    if _is_checkout():
        return f"Run: {shlex.quote(str(Path(FLOORS, 'scripts/llama-setup')))}{_COMPILES}"
    return f"Run: {install_command(extra)}{_COMPILES}"


def library_missing(vendor: Vendor, module: str) -> ProviderUnavailableError:
    return ProviderUnavailableError(
        f"{vendor.label} needs the library {module}, which is not installed.",
        remedy=install_remedy(vendor.wire.name),
    )


def _tool_requirement(extra: str) -> str | None:
    """Returns the source of a tool of uv with this extra, so that an upgrade keeps it; None if we are no tool of uv."""
    if (one := uv_receipt()) is None:
        return None
    extras = ",".join(dict.fromkeys([*one.get("extras", ()), extra]))
    for place in ("directory", "editable", "path"):
        if place in one:
            return f"{one[place]}[{extras}]"
    source = f"git+{one['git']}" if "git" in one else one.get("url")
    return f"{DISTRIBUTION}[{extras}]" + (f" @ {source}" if source else "")


def uv_receipt() -> dict[str, Any] | None:
    """Returns the requirement that uv installed as a tool; None if there is none, or its receipt has another form."""
    import tomllib  # noqa: PLC0415 - rare

    try:
        receipt = tomllib.loads(Path(sys.prefix, "uv-receipt.toml").read_text(encoding="utf-8"))
        (one,) = (each for each in receipt["tool"]["requirements"] if each["name"] == DISTRIBUTION)
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return dict(one)


def is_of_pipx() -> bool:
    return Path(sys.prefix, "pipx_metadata.json").is_file()


def pip_install() -> list[str]:
    """Returns the command that installs into this environment by its path."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install"]
    return ["uv", "pip", "install", "--python", sys.executable]


def _libraries(extra: str) -> list[str]:
    """Returns the requirements of this extra alone."""
    from importlib import metadata  # noqa: PLC0415 - slow, and rare

    try:
        requirements = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        requirements = []
    marked = (one.partition(";") for one in requirements)
    found = [name.strip() for name, _, marker in marked if f"extra == '{extra}'" in marker]
    return found or [f"{FLOORS}[{extra}]"]  # a checkout that was never installed


def _is_checkout() -> bool:
    return Path(FLOORS, "pyproject.toml").is_file()
