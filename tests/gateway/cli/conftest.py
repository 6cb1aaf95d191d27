"""The command line called in this process, on a small workspace in a home of its own."""

from __future__ import annotations

import json
import sys
from typing import NamedTuple

import pytest

from config.runtime.standard_error import StandardError
from gateway.cli.entry import run

NOTES = {
    "MEMORY.md": "# Memory\n\n- The boiler is serviced by Hartmann, every October.\n",
    "memory/2026-02-01.md": (
        "# 2026-02-01\n\n- The greenhouse sensor reported minus four degrees.\n"
        "- Ordered a new membrane for the heating pump.\n"
    ),
    "memory/2026-02-02.md": "# 2026-02-02\n\n- 今天和供应商谈了茶叶的价格。\n",
    "memory/projects/server.md": "# Server move\n\n- Commit `a828e60` fixes the scanner.\n",
}


class Done(NamedTuple):
    code: int
    out: str
    err: str


class CommandLine:
    def __init__(self, home, capfd):
        self.home = home
        self.state = home / ".openclaw"
        self.config = self.state / "openclaw.json"
        self.workspace = self.state / "workspace"
        self._capfd = capfd
        for path, text in NOTES.items():
            self.write(path, text)

    def __call__(self, *arguments):
        """Returns the output of a command line and its exit code."""
        self._capfd.readouterr()
        code = run(arguments)
        if isinstance(sys.stderr, StandardError):
            sys.stderr.settle(60)  # as the program does at its end
        return Done(code, *self._capfd.readouterr())

    def json(self, *arguments, code=0):
        """Returns the output of a command with `--json`: one document, and nothing else anywhere.

        A search that finds nothing ends with 1.
        """
        done = self(*arguments, "--json")
        printed = json.loads(done.out)
        is_nothing = isinstance(printed, dict) and printed.get("outcome") == "empty"
        assert (done.code, done.err) == (1 if is_nothing else code, "")
        return printed

    def configure(self, content):
        self.config.write_text(json.dumps(content), encoding="utf-8")

    def write(self, path, text):
        file = self.workspace / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


@pytest.fixture
def cli(tmp_path, capfd, monkeypatch):
    for name in ("OPENCLAW_CONFIG_PATH", "OPENCLAW_STATE_DIR", "OPENCLAW_HOME", "OPENCLAW_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "stderr", sys.stderr)  # `serve` claims it
    return CommandLine(tmp_path, capfd)


@pytest.fixture
def indexed(cli):
    assert cli("index").code == 0
    return cli
