"""`scripts/llama-setup` where nothing can be compiled, and where a wheel is kept already."""

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


def test_without_a_compiler_the_other_tests_still_run(tmp_path):
    script = "root=$PWD; . scripts/environment.sh; venv=$VENV; ensure_llama; echo went on"
    done = run(tmp_path, script, CXX="/nowhere/c++", VENV=str(tmp_path))
    assert done.stdout == "went on\n"
    assert "its tests will be skipped" in done.stderr


def test_an_environment_that_has_it_is_left_alone(tmp_path):
    lock = (ROOT / "requirements-llama.lock").read_bytes()
    (tmp_path / "requirements-llama.lock").write_bytes(lock)
    script = ". scripts/environment.sh; venv=$VENV; ensure_llama"
    assert run(tmp_path, script, VENV=str(tmp_path)).stderr == ""
