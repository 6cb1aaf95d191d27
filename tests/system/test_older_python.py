"""The message to a user with an older Python: one sentence, however the program is started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
OLDER = "import sys; sys.version_info = (3, 10, 14, 'final', 0); sys.argv = ['memory-gateway', 'status']; "
NEEDED = (
    "import ast, pathlib, sys\n"
    "for name in sys.argv[1:]: ast.parse(pathlib.Path(name).read_text(), name, feature_version=(3, 8))"
)


@pytest.mark.parametrize(
    "start",
    [
        "import memory_gateway; memory_gateway.main()",
        "import runpy; runpy.run_module('gateway', run_name='__main__')",
    ],
)
def test_an_older_python_is_told_what_is_needed(start):
    done = subprocess.run(
        [sys.executable, "-c", OLDER + start], cwd=REPOSITORY, capture_output=True, encoding="utf-8",
        timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("memory-gateway needs Python 3.11 or later; this is 3.10, at ")
    assert "uv tool install" in done.stderr and "Traceback" not in done.stderr


def test_what_is_read_before_that_is_plain_enough_for_it():
    names = ["memory_gateway/__init__.py", "gateway/__init__.py", "gateway/__main__.py"]
    subprocess.run([sys.executable, "-c", NEEDED, *names], cwd=REPOSITORY, check=True, timeout=120)


def test_a_clone_says_it_before_it_sets_anything_up(tmp_path):
    (tmp_path / "bin").mkdir()
    for name in ("python3", "python3.11", "python3.12", "python3.13", "python3.14"):
        older = tmp_path / "bin" / name
        older.write_text(
            "#!/bin/sh\nexit 1\n", encoding="utf-8"
        )  # as `sys.exit(version < (3, 11))` does
        older.chmod(0o755)
    clone = tmp_path / "clone"
    (clone / "scripts").mkdir(parents=True)
    for name in ("run", "environment.sh"):
        (clone / "scripts" / name).write_bytes((REPOSITORY / "scripts" / name).read_bytes())
    for name in ("pyproject.toml", "requirements.lock"):
        (clone / name).write_bytes((REPOSITORY / name).read_bytes())
    done = subprocess.run(
        ["bash", "scripts/run", "status"], cwd=clone, capture_output=True, encoding="utf-8", timeout=120,
        env={"HOME": str(tmp_path), "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "No Python 3.11 or later was found. Install one, or name it: PYTHON=" in done.stderr
    assert "Traceback" not in done.stderr and not (clone / ".venv").exists()
