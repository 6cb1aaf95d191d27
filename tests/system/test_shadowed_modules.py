"""Modules of others with the names of ours are never run, however the gateway is started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gateway.client import GATEWAY_COMMAND
from gateway.version import VERSION
from providers.local.embedder import COMMAND as WORKER_COMMAND

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("config", "providers", "backends", "gateway", "msgspec", "anyio")


@pytest.fixture
def theirs(tmp_path):
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text(
            f"raise SystemExit('{name} of somebody else')\n", encoding="utf-8"
        )
    return tmp_path


def started(command, theirs, home):
    return subprocess.run(
        command, cwd=theirs, env=home.environment | {"PYTHONPATH": str(theirs)},
        capture_output=True, encoding="utf-8", check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.mark.parametrize(
    "command",
    [
        (sys.executable, "memory-gateway"),
        GATEWAY_COMMAND[:-1],
        (str(ROOT / "scripts/run"),),
    ],
    ids=["the installed command", "what a client starts", "scripts/run"],
)
def test_the_command_line_is_ours(theirs, home, command):
    script = theirs / "memory-gateway"  # the installed program, beside none of our modules
    script.write_text("from memory_gateway import main\nraise SystemExit(main())\n", "utf-8")
    done = started([*command, "--version"], theirs, home)
    assert VERSION in done.stdout, done


@pytest.mark.parametrize("command", ["search boiler", "setup", "connect", "serve", "--version"])
def test_where_the_working_directory_is_gone_the_installed_command_says_so(tmp_path, home, command):
    (script := tmp_path / "memory-gateway").write_text(
        "from memory_gateway import main\nraise SystemExit(main())\n", encoding="utf-8"
    )
    (gone := tmp_path / "gone").mkdir()
    shell = f'rmdir "{gone}"; exec "{sys.executable}" "{script}" {command}'
    done = started(["sh", "-c", shell], gone, home)
    expected = VERSION if command == "--version" else "working directory does not exist any more"
    assert expected in done.stdout + done.stderr
    assert "fault" not in done.stderr and "Traceback" not in done.stderr


def test_python_m_gateway_runs_ours_where_only_the_name_of_a_floor_below_is_taken(theirs, home):
    (theirs / "gateway.py").unlink()
    done = started([sys.executable, "-m", "gateway", "config", "check"], theirs, home)
    assert "somebody else" not in done.stdout + done.stderr


def test_the_worker_for_local_embeddings_is_ours(theirs, home):
    done = started(WORKER_COMMAND, theirs, home)
    assert "somebody else" not in done.stdout + done.stderr
