"""MCP clients from npm for tests: installed once, each with a home and a model server of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

import pytest

from fakes.client_models import ClientModel

SETUP: Final = Path(__file__).resolve().parents[2] / "scripts/clients-setup"
_PATIENCE_S: Final = 180
"""The longest that a turn may take; the machine may be busy."""


def install_client(name: Literal["claude-code", "codex", "gemini-cli", "copilot"]) -> str:
    """Returns the path of this client's command; skips the test where it cannot be installed."""
    if shutil.which("npm") is None:
        pytest.skip(f"npm is not installed, so the real {name} cannot be")
    done = subprocess.run(
        [str(SETUP), name], capture_output=True, encoding="utf-8", timeout=900, check=False
    )
    if done.returncode:
        pytest.skip(f"{name} could not be installed: {done.stderr.strip()[-300:]}")
    return done.stdout.strip()


class McpClient:
    """A real client with a home of its own, asked one question at a time; nothing leaves this machine."""

    name: str
    """The client's name for `connect`."""
    model: ClientModel

    def __init__(self, command: str, root: Path) -> None:
        self.command = command
        self.variables: dict[str, str] = {}
        """Further variables of its environment."""
        self.home = root / "home"
        self.work = self.home / "work"
        self.work.mkdir(parents=True)
        self.config = self.home / self.place()
        self.config.parent.mkdir(exist_ok=True)

    def place(self) -> str:
        raise NotImplementedError

    def begin(self, model: ClientModel) -> None:
        """Writes the smallest configuration with which it asks this model."""
        raise NotImplementedError

    def turn(self, question: str) -> list[str]:
        """Returns the arguments of one turn without a person."""
        raise NotImplementedError

    def be_patient(self) -> None:
        """Makes it wait for the server as long as a busy machine may take; call it once it is connected."""

    @property
    def kept(self) -> Path:
        """The place where the client may keep what it prepares for its next start, whatever its home."""
        return Path(self.command).parents[2]

    def environment(self) -> dict[str, str]:
        """Returns variables without the user's own; the client's Node.js is first, and keeps what it compiles."""
        programs = Path(self.command).parent
        return {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.home),
            "TMPDIR": str(self.home),
            "NODE_COMPILE_CACHE": str(self.kept / "compiled"),
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
            **self.variables,
        }

    def ask(self, question: str) -> subprocess.CompletedProcess[str]:
        return self.run(self.command, *self.turn(question))

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end, and ends all of its children. Raises TimeoutExpired."""
        with subprocess.Popen(
            argv, cwd=self.work, env=self.environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", start_new_session=True,
        ) as process:  # fmt: skip
            try:
                out, err = process.communicate(timeout=_PATIENCE_S)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        return subprocess.CompletedProcess(argv, process.returncode, out, err)


class ClaudeCode(McpClient):
    name = "claude-code"

    def place(self) -> str:
        return ".claude.json"

    def begin(self, model: ClientModel) -> None:
        self.model = model
        self.config.write_text('{"numStartups": 3,\n "mcpServers": {"x": {"command": "true"}}}')

    def environment(self) -> dict[str, str]:
        return super().environment() | {
            "ANTHROPIC_BASE_URL": self.model.base_url,
            "ANTHROPIC_API_KEY": self.model.key,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "MCP_TIMEOUT": str(_PATIENCE_S * 1000),
        }

    def turn(self, question: str) -> list[str]:
        return ["-p", question, "--allowedTools", "mcp__memory-gateway__memory_search"]


class Codex(McpClient):
    name = "codex"

    def place(self) -> str:
        return ".codex/config.toml"

    def begin(self, model: ClientModel) -> None:
        self.model = model
        self.config.write_text(
            "# mine\nmodel = 'listener'\nmodel_provider = 'loop'\n\n"
            "[model_providers.loop]   # this machine\nname = 'loop'\nwire_api = 'responses'\n"
            f"base_url = '{model.base_url}/v1'\nenv_key = 'LOOP_KEY'\n\n"
            "[mcp_servers.x]\ncommand = 'true'\nenabled = false\n"
        )

    def environment(self) -> dict[str, str]:
        return super().environment() | {"LOOP_KEY": self.model.key}

    def be_patient(self) -> None:
        text = self.config.read_text("utf-8")
        patience = f"required = true\nstartup_timeout_sec = {_PATIENCE_S}\n"
        self.config.write_text(text + patience, "utf-8")

    def turn(self, question: str) -> list[str]:
        return ["exec", "--skip-git-repo-check", question]


class GeminiCli(McpClient):
    name = "gemini"

    def place(self) -> str:
        return ".gemini/settings.json"

    def begin(self, model: ClientModel) -> None:
        self.model = model
        self.config.write_text(
            '{\n    // mine\n    "security": { "auth": { "selectedType": "gemini-api-key" } },\n'
            '    "privacy": { "usageStatisticsEnabled": false }\n}'
        )

    def environment(self) -> dict[str, str]:
        """Keeps it from restarting itself for more memory; it collects garbage more rarely."""
        return super().environment() | {
            "GEMINI_API_KEY": self.model.key,
            "GOOGLE_GEMINI_BASE_URL": self.model.base_url,
            "GEMINI_CLI_NO_RELAUNCH": "true",
            "NODE_OPTIONS": "--max-semi-space-size=64",
        }

    def turn(self, question: str) -> list[str]:
        return ["-p", question, "--skip-trust", "--approval-mode", "yolo"]


class CopilotCli(McpClient):
    name = "copilot"

    def place(self) -> str:
        return ".copilot/mcp-config.json"

    def begin(self, model: ClientModel) -> None:
        self.model = model
        self.config.write_text('{"mcpServers": {"x": {"type": "local", "command": "true"}}}')

    def environment(self) -> dict[str, str]:
        """Keeps the 240 MB that it unpacks at its start in its caches."""
        return super().environment() | {
            "COPILOT_CACHE_HOME": str(self.kept / "unpacked"),
            "COPILOT_OFFLINE": "true",
            "COPILOT_PROVIDER_TYPE": "anthropic",
            "COPILOT_PROVIDER_BASE_URL": self.model.base_url,
            "COPILOT_PROVIDER_API_KEY": self.model.key,
            "COPILOT_MODEL": "claude-sonnet-4",
        }

    def turn(self, question: str) -> list[str]:
        return ["-p", question, "--allow-all-tools"]
