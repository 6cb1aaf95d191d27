"""The possible states of `memory.qmd.command`: missing, not yet there, under an old Node.js, noisy."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from backends.qmd.backend import open_qmd
from fakes.qmd import answered, failing, qmd_settings, until, wrapper, write

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("notes")]


async def test_a_missing_program_is_said_in_one_line_with_the_remedy(tmp_path, environment):
    async with open_qmd(qmd_settings(tmp_path, "no-such-qmd"), environment) as backend:

        async def judged() -> bool:
            return backend.failure.cause == "missing"

        await until(judged, "the program is found missing")
        error = await failing(backend)
        assert "no-such-qmd" in error.message
        assert "npm install -g @tobilu/qmd@2" in (error.remedy or "")
        assert "\n" not in str(error)
        status = await backend.status()
        assert status.details.qmd.available is False
        assert status.issues[0] == str(error)


async def test_a_program_that_appears_later_is_used_without_a_restart(
    tmp_path, environment, qmd_command
):
    place = tmp_path / "bin/qmd"
    async with open_qmd(qmd_settings(tmp_path, str(place)), environment) as backend:

        async def judged() -> bool:
            return backend.failure.cause == "missing"

        await until(judged, "the program is found missing")
        place.parent.mkdir()
        wrapper(place, qmd_command)
        assert (await answered(backend, "boiler")).hits


async def test_a_node_that_is_too_old_is_named(tmp_path, environment, qmd_command):
    old = old_node()
    launcher = tmp_path / "bin/qmd"
    write(launcher, f'#!/bin/sh\nexec "{old}" "{script_of(qmd_command)}" "$@"\n').chmod(0o755)
    (launcher.parent / "node").symlink_to(old)
    async with open_qmd(qmd_settings(tmp_path, str(launcher)), environment) as backend:

        async def judged() -> bool:
            return backend.failure.cause == "broken"

        await until(judged, "the program is found broken")
        assert "cannot open a database under Node.js v" in backend.failure.message
        assert "needs Node.js 22" in (backend.failure.remedy or "")


def script_of(qmd: str) -> Path:
    return Path(qmd).resolve().parents[1] / "dist/cli/qmd.js"


def old_node() -> str:
    """A Node.js of the machine on which QMD crashes."""
    for directory in os.environ["PATH"].split(os.pathsep):
        node = Path(directory) / "node"
        if node.is_file():
            said = subprocess.run([node, "--version"], capture_output=True, check=False).stdout
            if int(said.decode().strip("v\n").partition(".")[0]) < 22:
                return str(node)
    pytest.skip("this machine has no Node.js older than 22")


async def test_noise_of_a_program_costs_no_answer(tmp_path, environment, qmd_command):
    noisy = wrapper(
        tmp_path / "bin/qmd",
        qmd_command,
        before="echo '[node-llama-cpp] loading ['; echo '[1, 2]'; echo 'warn: {' >&2",
        after="echo 'done [ok]'",
    )
    async with open_qmd(qmd_settings(tmp_path, noisy), environment) as backend:
        assert (await answered(backend, "boiler")).hits[0].path == "MEMORY.md"


async def test_a_qmd_that_is_too_old_is_named_with_what_is_needed(tmp_path, environment):
    old = write(tmp_path / "bin/qmd", "#!/bin/sh\necho qmd 2.5.3\n")
    old.chmod(0o755)
    async with open_qmd(qmd_settings(tmp_path, str(old)), environment) as backend:

        async def judged() -> bool:
            return backend.failure.cause == "broken"

        await until(judged, "the program is found too old")
        error = await failing(backend)
        assert f"QMD 2.5.3 was found ({old}), but 2.8 or a later 2.x is needed" in error.message
        assert "npm install -g @tobilu/qmd@2" in (error.remedy or "")
        assert (await backend.status()).issues[0] == str(error)
