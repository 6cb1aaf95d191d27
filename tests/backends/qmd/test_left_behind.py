"""What earlier gateways and other versions left in a home: processes, and an index of a later QMD."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from backends.qmd.backend import open_qmd
from backends.qmd.configuration import read_ledger, write_ledger
from backends.qmd.home import QmdHome
from backends.qmd.running import Running
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


def sleeper(home: QmdHome) -> subprocess.Popen[bytes]:
    """A process that looks like a QMD of this home."""
    variables = {"QMD_CONFIG_DIR": str(home.config_dir)}
    return subprocess.Popen(["/bin/sleep", "60"], env=variables, start_new_session=True)


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
        assert not set(left) & set(processes_in(config_dir))


async def test_what_a_living_gateway_has_started_is_left_alone(home):
    with sleeper(home) as process, Running(home).noted(process.pid):
        assert Running(home).reap() == []
        assert process.poll() is None
        process.kill()


async def test_a_stranger_with_the_noted_number_is_left_alone(home, tmp_path):
    other = QmdHome(tmp_path / "other")
    with sleeper(other) as process:
        with Running(home).noted(process.pid):
            disown(home)
            assert Running(home).reap() == []
        assert process.poll() is None
        process.kill()


async def test_what_is_ours_and_nobodys_any_more_is_ended(home):
    with sleeper(home) as process, Running(home).noted(process.pid):
        disown(home)
        assert Running(home).reap() == [process.pid]
        assert process.wait(10) == -signal.SIGKILL


async def test_an_index_of_a_later_version_is_set_aside(tmp_path, notes, environment, qmd_command):
    settings = qmd_settings(tmp_path, qmd_command)
    home = home_of(settings)
    async with open_qmd(settings, environment) as backend:
        await answered(backend, "boiler")
    ledger = read_ledger(home.ledger)
    assert ledger.version == "2.8.3"
    write_ledger(home.ledger, msgspec.structs.replace(ledger, version="2.99.0"))
    async with open_qmd(settings, environment) as backend:
        assert (await answered(backend, "boiler")).hits[0].path == "MEMORY.md"
    assert home.index.with_name("index.sqlite.damaged").exists()
    assert read_ledger(home.ledger).version == "2.8.3"


async def test_an_index_of_an_earlier_version_is_kept(tmp_path, notes, environment, qmd_command):
    settings = qmd_settings(tmp_path, qmd_command)
    home = home_of(settings)
    async with open_qmd(settings, environment) as backend:
        await answered(backend, "boiler")
    ledger = read_ledger(home.ledger)
    write_ledger(home.ledger, msgspec.structs.replace(ledger, version="2.5.3"))
    async with open_qmd(settings, environment) as backend:
        await answered(backend, "boiler")
    assert not home.index.with_name("index.sqlite.damaged").exists()


async def test_a_full_disk_is_said_and_the_index_fills_when_there_is_room(
    tmp_path, notes, environment, qmd_command, monkeypatch
):
    monkeypatch.setattr("backends.qmd.schedule.SECOND_PAUSE_S", 1.0)
    full = tmp_path / "full"
    full.touch()
    # No file may grow beyond 32 KiB: QMD's database does not fit.
    before = f'[ -e {full} ] && [ "$1" != --version ] && [ "$1" != status ] && ulimit -f 32'
    command = wrapper(tmp_path / "qmd", qmd_command, before=before)
    settings = qmd_settings(tmp_path, command, mode="cli")
    async with open_qmd(settings, environment) as backend:

        async def failed() -> str | None:
            return backend.engine and backend.engine.schedule.last_error

        assert "failed" in await until(failed, "an update without room fails")
        assert any("failed" in one for one in (await backend.status()).issues)
        full.unlink()
        assert (await answered(backend, "boiler")).hits[0].path == "MEMORY.md"


def disown(home: QmdHome) -> None:
    """As if the gateway that noted its processes were gone."""
    for file in (home.root / "running").glob("*.json"):
        note = msgspec.json.decode(file.read_bytes())
        note["owner_started"] -= 1
        file.write_bytes(msgspec.json.encode(note))
