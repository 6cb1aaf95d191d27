"""`scripts/clients-setup`: its messages without npm, without a name, and about an existing installation."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fakes.clients import SETUP, install_client

PATIENCE_S = 120
COMMANDS = {
    "claude-code": ("2.1.330", "claude"),
    "codex": ("0.169.0", "codex"),
    "gemini-cli": ("0.61.0", "gemini"),
    "copilot": ("1.0.102", "copilot"),
}


def run(*names: str, tools: Path, npm: bool) -> subprocess.CompletedProcess[str]:
    for tool in ("bash", "dirname", "uname"):
        (tools / tool).symlink_to(f"/usr/bin/{tool}")
    if npm:
        (tools / "npm").symlink_to("/usr/bin/false")
    environment = {"PATH": str(tools), "HOME": "/", "XDG_CACHE_HOME": str(tools)}
    return subprocess.run(
        [str(SETUP), *names], env=environment, capture_output=True, encoding="utf-8",
        timeout=PATIENCE_S, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("client", COMMANDS)
def test_without_npm_the_set_up_says_in_one_sentence_what_is_missing(tmp_path, client):
    done = run(client, tools=tmp_path, npm=False)
    assert (done.returncode, done.stdout) == (69, "")
    assert done.stderr == "npm was not found; install Node.js with npm first.\n"


@pytest.mark.parametrize("client", COMMANDS)
def test_an_installation_that_is_there_is_only_named(tmp_path, client):
    version, command = COMMANDS[client]
    program = tmp_path / f"memory-gateway/{client}/{version}/node_modules/.bin/{command}"
    program.parent.mkdir(parents=True)
    program.touch(0o755)
    done = run(client, tools=tmp_path, npm=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{program}\n", "")


@pytest.mark.parametrize("names", [(), ("emacs",)])
def test_a_client_that_it_does_not_know_is_answered_with_those_it_knows(tmp_path, names):
    done = run(*names, tools=tmp_path, npm=True)
    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr == "usage: clients-setup claude-code | codex | gemini-cli | copilot\n"


@pytest.mark.parametrize("client", COMMANDS)
def test_what_it_installs_is_the_pinned_release(tmp_path, client):
    program = Path(install_client(client))
    environment = {
        "PATH": f"{program.parent}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "DISABLE_AUTOUPDATER": "1",
    }
    done = subprocess.run(
        [str(program), "--version"], env=environment, capture_output=True, encoding="utf-8",
        timeout=PATIENCE_S, check=True,
    )  # fmt: skip
    assert COMMANDS[client][0] in done.stdout
