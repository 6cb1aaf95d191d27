"""Real processes in locales that are not UTF-8: names of files and texts are UTF-8 all the same."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.client import spawn_gateway
from tests.system.conftest import PATIENCE_S, Home

NOTE = "memory/grün茶.md"
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def latin1(root: Path) -> dict[str, str]:
    """A locale of ISO-8859-1, made for the test, since few machines have one."""
    if shutil.which("localedef") is None:
        pytest.skip("localedef is needed to make a locale of ISO-8859-1")
    made = subprocess.run(
        ["localedef", "-i", "de_DE", "-f", "ISO-8859-1", str(root / "de_DE.ISO-8859-1")],
        capture_output=True, check=False,
    )  # fmt: skip
    if not (root / "de_DE.ISO-8859-1").is_dir():
        pytest.skip(f"localedef cannot make it: {made.stderr[:200]!r}")
    return {"LOCPATH": str(root), "LC_ALL": "de_DE.ISO-8859-1"}


@pytest.fixture(params=["ascii", "latin1"])
def locale(request, tmp_path) -> dict[str, str]:
    return ASCII if request.param == "ascii" else latin1(tmp_path)


@pytest.fixture
def far(tmp_path) -> Home:
    home = Home(tmp_path / "hömé茶")
    home.write(NOTE, "# Grün\n\n- The zebra eats 茶.\n")
    return home


@pytest.mark.parametrize(
    "program", [["-m", "gateway"], [str(Path(sys.executable).parent / "memory-gateway")]]
)
def test_commands_find_and_print_names_as_they_are(far, locale, program):
    for command, expected in ((["search", "zebra", "--json"], NOTE), (["get", NOTE], "eats 茶")):
        done = subprocess.run(
            [sys.executable, *program, command[0], *far.arguments, *command[1:]],
            env={**far.environment, **locale}, capture_output=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done
        assert expected in done.stdout.decode()
    assert (far.state / "memory/main.memory-gateway.sqlite").exists()


@pytest.mark.anyio
async def test_serve_does_too(far, locale):
    environment = {**far.environment, **locale}
    async with spawn_gateway(
        far.arguments, environment=environment, patience_s=PATIENCE_S
    ) as client:
        await client.call("sync", timeout_s=PATIENCE_S)
        found = await client.call("memory_search", {"query": "zebra"}, timeout_s=PATIENCE_S)
        assert [hit["path"] for hit in found["results"]] == [NOTE]
        read = await client.call("memory_get", {"path": NOTE}, timeout_s=PATIENCE_S)
        assert "eats 茶" in read["text"]
        status = await client.call("status", timeout_s=PATIENCE_S)
        assert str(far.workspace) in json.dumps(status, ensure_ascii=False)
