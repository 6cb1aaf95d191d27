"""The environment that QMD gets: an allow-list, and the agent's own places.

Pure. Credentials of the gateway never pass; `CI` does not either, since QMD refuses to use models
where it is set.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from backends.qmd.home import QmdHome

NEUTRAL_DIRECTORY: Final = "/"
"""QMD looks for a project's own configuration from the working directory upwards."""

_PASSED = frozenset(
    "HOME USER LOGNAME SHELL LANG LANGUAGE TZ TMPDIR XDG_RUNTIME_DIR LD_LIBRARY_PATH "
    "HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy "
    "SSL_CERT_FILE SSL_CERT_DIR NODE_EXTRA_CA_CERTS HF_ENDPOINT "
    "CUDA_VISIBLE_DEVICES OMP_NUM_THREADS".split()
)
_PASSED_PREFIXES = ("LC_", "QMD_")
_OWN = frozenset(("QMD_CONFIG_DIR", "QMD_HOST", "QMD_SOURCE_MODE"))


def qmd_variables(
    environment: Mapping[str, str], home: QmdHome, program_dir: Path | None = None
) -> dict[str, str]:
    """The whole environment of a QMD process. `program_dir` comes first in `PATH`."""
    passed = {
        name: value
        for name, value in environment.items()
        if name in _PASSED or (name.startswith(_PASSED_PREFIXES) and name not in _OWN)
    }
    path = environment.get("PATH", os.defpath)
    return {
        **passed,
        "PATH": f"{program_dir}{os.pathsep}{path}" if program_dir else path,
        "XDG_CONFIG_HOME": str(home.config_home),
        "XDG_CACHE_HOME": str(home.cache_home),
        "QMD_CONFIG_DIR": str(home.config_dir),
        "PWD": NEUTRAL_DIRECTORY,
        "NO_COLOR": "1",
    }
