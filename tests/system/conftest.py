"""A real workspace, an empty home, and gateways that are real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from config.errors import ErrorKind
from fakes.vendors import FakeVendor
from gateway.cli.entry import run
from gateway.client import RemoteError, SpawnedGateway, spawn_gateway

PATIENCE_S = 120
LATE = {ErrorKind.INDEX_UNAVAILABLE, ErrorKind.OVERLOADED}
_PAUSE_S = 0.02

NOTES = {
    "MEMORY.md": "# Memory\n\n- The boiler is serviced by Hartmann, every October.\n",
    "memory/2026-02-01.md": (
        "# 2026-02-01\n\n## 09:00\n\n- The greenhouse sensor reported minus four degrees.\n"
        "- Ordered a new membrane for the heating pump.\n"
    ),
    "memory/2026-02-02.md": "# 2026-02-02\n\n- 今天和供应商谈了茶叶的价格。\n- Тренировка перенесена на четверг.\n",
    "memory/projects/server.md": "# Server move\n\n- Commit `a828e60` fixes `memorySearch.query.hybrid`.\n",
}  # fmt: skip


class Home:
    """An isolated home with one workspace. Nothing of the machine's own configuration is visible."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.workspace = root / "workspace"
        self.state = root / "state"
        self.config = root / "openclaw.json"
        self.state.mkdir(parents=True)
        self.configure({})
        for path, text in NOTES.items():
            self.write(path, text)

    @property
    def environment(self) -> dict[str, str]:
        kept = {
            name: os.environ[name]
            for name in ("PATH", "LANG", "MEMORY_GATEWAY_PORTABLE")
            if name in os.environ
        }
        return {**kept, "HOME": str(self.root), "PYTHONDONTWRITEBYTECODE": "1"}

    @property
    def arguments(self) -> list[str]:
        return [
            "--config", str(self.config), "--workspace", str(self.workspace),
            "--state-dir", str(self.state),
        ]  # fmt: skip

    def configure(self, content: dict[str, object]) -> None:
        self.config.write_text(json.dumps(content), encoding="utf-8")

    def embed_with(self, host: FakeVendor, *, key: str | None = None, **search: object) -> None:
        """Configures a host that embeds, with its own key unless another is given."""
        access = {"baseUrl": host.base_url, "apiKey": key or host.key}
        block = {"provider": host.vendor, "remote": access, **search}
        self.configure({"agents": {"defaults": {"memorySearch": block}}})

    def write(self, path: str, text: str) -> Path:
        file = self.workspace / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    @asynccontextmanager
    async def gateway(self, *arguments: str) -> AsyncIterator[SpawnedGateway]:
        """The daemon on this home: `async with home.gateway() as client`."""
        async with spawn_gateway(
            [*self.arguments, *arguments], environment=self.environment, patience_s=PATIENCE_S
        ) as client:
            client.call = patient(client.call)  # type: ignore[method-assign]
            yield client

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs a command of the command line on this home to its end."""
        return subprocess.run(
            [sys.executable, "-m", "gateway", arguments[0], *self.arguments, *arguments[1:]],
            env=self.environment, capture_output=True, encoding="utf-8", timeout=PATIENCE_S, check=False,
        )  # fmt: skip

    def command(self, *arguments: str, until: Callable[[Any], bool] = bool) -> Any:
        """Returns the JSON that a command prints, once it is as expected; it is repeated till then."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            done = self.run(*arguments)
            found = json.loads(done.stdout)
            is_late = "error" in found and found["error"]["kind"] in LATE
            is_as_expected = not is_late and until(found)
            if is_as_expected or time.monotonic() > deadline:
                assert is_as_expected, done
                return found

    def health(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Returns the result of `health` as JSON, once it says more than that time ran out."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            done = self.run("health", "--json", *arguments)
            found = json.loads(done.stdout)
            if not ran_out_of_time(found) or time.monotonic() > deadline:
                return done

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.01)


def patient(call: Callable[..., Any]) -> Callable[..., Any]:
    """Repeats a call for some time while a stalling machine makes an answer stale, a health failing or an index
    unavailable.
    """

    async def asked_again(method: str, params: object = None, **options: Any) -> Any:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                result = await call(method, params, **{"timeout_s": PATIENCE_S, **options})
            except RemoteError as error:
                may_repeat = error.kind in LATE and method != "memory_append"
                if not may_repeat or time.monotonic() > deadline:
                    raise
                await anyio.sleep(_PAUSE_S)
                continue
            is_behind = method == "memory_search" and result.get("stale")
            has_stalled = method == "health" and ran_out_of_time(result)
            if not (is_behind or has_stalled) or time.monotonic() > deadline:
                return result
            await anyio.sleep(_PAUSE_S)

    return asked_again


def ran_out_of_time(health: Any) -> bool:
    """Returns whether the health fails since something did not answer in a fraction of a second."""
    return health["status"] == "failing" and any(
        words in reason for reason in health["reasons"] for words in ("did not answer", "silent")
    )


@pytest.fixture(scope="session")
def make_home() -> Callable[[Path], Home]:
    """Makes a home in a directory, for fixtures that outlive a test."""
    return Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def type_in(
    home: Home, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a command line in this process, in a home's directory, with the home's environment alone.

    Starting a process takes longer than most commands. Tests of the process itself use `home.run`.
    """

    def line(
        *words: str, environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        with monkeypatch.context() as patched:
            for name in list(os.environ):
                patched.delenv(name)
            for name, value in (environment or home.environment).items():
                patched.setenv(name, value)
            patched.chdir(home.root)
            capfd.readouterr()
            code = run(words)
        return subprocess.CompletedProcess(words, code, *capfd.readouterr())

    return line
