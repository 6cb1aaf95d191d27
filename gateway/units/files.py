"""The unit files: where they come from, where they go, what is filled in. Pure but for reading.

Owns the quoting of systemd. The templates are the files of `systemd/`, which the package brings along.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import gateway

SERVICE: Final = "memory-gateway@.service"
SOCKET: Final = "memory-gateway@.socket"
PLACEHOLDER: Final = "%h/.local/bin/memory-gateway"
"""Stands for the program in the template, and is right for a program that pipx or uv installed."""
_CONTROLS: Final = {code: f"\\x{code:02x}" for code in (*range(1, 0x20), 0x7F)}
"""A newline in the name of a directory would begin another setting."""


def templates() -> Path:
    """The folder with the templates: in the installed package, else beside it in a checkout."""
    package = Path(gateway.__file__).resolve().parent
    packed = package / "systemd"
    return packed if packed.is_dir() else package.parent / "systemd"


def unit_directory(environment: Mapping[str, str], home: Path) -> Path:
    """Where the service manager of the user looks for units."""
    configured = environment.get("XDG_CONFIG_HOME", "")
    base = Path(configured) if configured.startswith("/") else home / ".config"
    return base / "systemd" / "user"


def instance(agent_id: str) -> str:
    return SERVICE.replace("@", f"@{agent_id}")


def drop_in_path(directory: Path, agent_id: str) -> Path:
    return directory / f"{instance(agent_id)}.d" / "installed.conf"


def render(template: str, program: Sequence[str]) -> str:
    """The unit for a program that lies elsewhere."""
    return template.replace(PLACEHOLDER, " ".join(map(_quote_argument, program)))


def render_drop_in(
    program: Sequence[str], arguments: Sequence[str], writable: Sequence[Path]
) -> str:
    """What one agent needs beyond the template: more arguments, other places to write to."""
    command = " ".join(map(_quote_argument, (*program, "serve", "--socket-only", *arguments)))
    paths = " ".join(_quote(f"-{path}") for path in writable)
    return f"[Service]\nExecStart=\nExecStart={command}\nReadWritePaths={paths}\n"


def _quote_argument(text: str) -> str:
    return _quote(text.replace("$", "$$"))


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    escaped = escaped.translate(_CONTROLS)
    return f'"{escaped}"' if any(one in escaped for one in " \"'\\;") else escaped
