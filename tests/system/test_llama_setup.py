"""`scripts/llama-setup` where nothing can be compiled, and where a wheel is already there."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SETUP = ROOT / "scripts/llama-setup"


@pytest.fixture(autouse=True)
def _in_its_own_environment():
    if not (ROOT / ".venv/bin/python").exists():
        pytest.skip("these tests do not run in the environment that the scripts make")


def run(cache, command, **more):
    return subprocess.run(
        ["bash", "-c", command],
        env={"PATH": os.environ["PATH"], "HOME": str(cache), "XDG_CACHE_HOME": str(cache), **more},
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


def test_without_a_compiler_it_names_the_packages_to_install(tmp_path):
    done = run(tmp_path, str(SETUP), CXX="/nowhere/c++")
    assert (done.returncode, done.stdout) == (69, "")
    assert "there is no C++ compiler" in done.stderr
    assert "apt-get install build-essential" in done.stderr


def test_the_tests_of_a_fresh_clone_compile_nothing():
    assert "llama" not in (ROOT / "scripts/test").read_text(encoding="utf-8")
    lock = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8").splitlines()
    assert any(line.startswith("diskcache==") for line in lock)  # llama-cpp-python needs it
    assert not any(line.startswith("llama") for line in lock)
