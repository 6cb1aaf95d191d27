"""The remains of earlier gateways in a home, and a full disk."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from backends.qmd.backend import open_qmd
from backends.qmd.process import QmdHome, end_orphans, owner_variables
from backends.qmd.sidecar import home_of
from fakes.qmd import answered, processes_in, qmd_settings, until, wrapper

pytestmark = pytest.mark.anyio

_REPOSITORY = Path(__file__).resolve().parents[3]
_GATEWAY = """
import anyio, sys
from pathlib import Path
sys.path.insert(0, "tests")
from backends.qmd.backend import open_qmd
from fakes.qmd import answered, clean_environment, qmd_settings

async def main():
    root, command = Path(sys.argv[1]), sys.argv[2]
    settings = qmd_settings(root, command)
    async with open_qmd(settings, clean_environment(root / "user-home")) as backend:
        await answered(backend, "boiler")
        print("answered", flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


@pytest.fixture
def home(tmp_path) -> QmdHome:
    made = QmdHome(tmp_path / "qmd")
    made.prepare({})
    return made


def sleeper(home: QmdHome, owner: dict[str, str]) -> subprocess.Popen[bytes]:
    """A process that looks like a QMD of this home, which a gateway has started."""
    variables = {"QMD_CONFIG_DIR": str(home.config_dir), **owner}
    process = subprocess.Popen(["/bin/sleep", "60"], env=variables, start_new_session=True)
    # The parent may continue a moment before the system shows the variables of the new program.
    for _ in range(6000):
        if Path(f"/proc/{process.pid}/environ").read_bytes():
            return process
        time.sleep(0.01)
    raise AssertionError("the process never showed its variables")


def of_a_gateway_that_is_gone() -> dict[str, str]:
    """Its process number is in use again, by a process that began later."""
    return {name: f"{value}0" for name, value in owner_variables().items()}


async def test_a_server_that_a_killed_gateway_left_is_ended_by_the_next(
    tmp_path, notes, environment, qmd_command
):
    # Its launcher is not ours, so that it does not notice the end of the gateway by itself.
    command = wrapper(tmp_path / "qmd", qmd_command)
    settings = qmd_settings(tmp_path, command)
    config_dir = home_of(settings).config_dir
    argv = [sys.executable, "-c", _GATEWAY, str(tmp_path), command]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=_REPOSITORY) as gateway:
        assert gateway.stdout is not None
        said = any(line == b"answered\n" for line in gateway.stdout)
        left = processes_in(config_dir)
        gateway.kill()
    assert said
    assert left
    assert set(left) <= set(processes_in(config_dir))
    async with open_qmd(settings, environment) as backend:
        await answered(backend, "boiler")

        async def ended() -> bool:
            return not set(left) & set(processes_in(config_dir))

        assert await until(ended, "the former server is gone")


async def test_what_a_living_gateway_has_started_is_left_alone(home):
    with sleeper(home, owner_variables()) as process:
        assert end_orphans(home) == []
        assert process.poll() is None
        process.kill()


async def test_what_a_person_has_started_is_left_alone(home):
    with sleeper(home, {}) as process:
        assert end_orphans(home) == []
        assert process.poll() is None
        process.kill()


async def test_what_belongs_to_another_home_is_left_alone(home, tmp_path):
    with sleeper(QmdHome(tmp_path / "other"), of_a_gateway_that_is_gone()) as process:
        assert end_orphans(home) == []
        assert process.poll() is None
        process.kill()


async def test_what_is_ours_and_nobodys_any_more_is_ended(home):
    with sleeper(home, of_a_gateway_that_is_gone()) as process:
        assert end_orphans(home) == [process.pid]
        assert process.wait(60) == -signal.SIGKILL


async def test_a_full_disk_is_said_and_the_index_fills_when_there_is_room(
    tmp_path, notes, environment, qmd_command, monkeypatch
):
    monkeypatch.setattr("backends.qmd.engine.SECOND_PAUSE_S", 1.0)
    full = tmp_path / "full"
    full.touch()
    # No file may grow beyond 32 KiB: QMD's database does not fit.
    before = f'[ -e {full} ] && [ "$1" != --version ] && [ "$1" != status ] && ulimit -f 32'
    command = wrapper(tmp_path / "qmd", qmd_command, before=before)
    settings = qmd_settings(tmp_path, command)
    async with open_qmd(settings, environment) as backend:

        async def failed() -> str | None:
            return backend.engine and backend.engine.schedule.last_error

        assert "failed" in await until(failed, "an update without room fails")
        assert any("failed" in one for one in (await backend.status()).issues)
        full.unlink()
        assert (await answered(backend, "boiler")).hits[0].path == "MEMORY.md"
