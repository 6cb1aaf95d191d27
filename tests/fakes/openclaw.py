"""The real OpenClaw for tests: installed once, with a state directory, a port and a model of its own.

    with FakeModel() as model:
        host = OpenClaw(install_openclaw(), tmp_path, model)
        with host.gateway() as running:
            assert "heron" in running.say("The heron nests at the mill pond.")
        assert host.run("doctor", "--non-interactive").returncode == 0

Nothing leaves this machine, and every process that was started has ended when a context or a call is left.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from fakes.openclaw_model import FakeModel

SETUP: Final = Path(__file__).resolve().parents[2] / "scripts/openclaw-setup"
_VALIDATE: Final = Path(__file__).with_name("openclaw_validate.mjs")
PATIENCE_S: Final = 300.0
"""The longest wait for anything; the machine may be busy."""
_COMMANDS_WITHIN: Final = 5
"""The most commands of the host that one of ours runs, each within that time."""
MAIN: Final = "agent:main:main"
"""The session key of the main agent's private conversation."""
_TOKEN: Final = "test-token-0123456789abcdef"
_PAUSE_S: Final = 0.05


def install_openclaw() -> str:
    """Returns the command of the real OpenClaw; skips the test where it cannot be installed."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed, so the real OpenClaw cannot be")
    done = subprocess.run(
        [str(SETUP)], capture_output=True, encoding="utf-8", timeout=900, check=False
    )
    if done.returncode:
        pytest.skip(f"OpenClaw could not be installed: {done.stderr.strip()[-300:]}")
    return done.stdout.strip()


class HostError(Exception):
    """The host refused, or did not do something in time; the message has its last output."""


class OpenClaw:
    """One installation: a state directory with a configuration, a workspace, and the commands on them."""

    def __init__(self, command: str, root: Path, model: FakeModel) -> None:
        self.root = root
        self.state = root / "state"
        self.workspace = root / "workspace"
        self.config = self.state / "openclaw.json"
        self.port = _free_port()
        self.command = command
        self._model = model
        for directory in (self.state, self.workspace, root / "tmp"):
            directory.mkdir(parents=True, exist_ok=True)
        self.state.chmod(0o700)
        self.configure({})

    def configure(self, changes: dict[str, Any]) -> None:
        """Writes the smallest configuration with which a gateway runs and answers, overlaid with these keys."""
        self.config.write_text(json.dumps(_laid_over(self._least(), changes), indent=2), "utf-8")
        self.config.chmod(0o600)

    def _least(self) -> dict[str, Any]:
        model = self._model
        provider = {
            "baseUrl": model.base_url,
            "apiKey": model.key,
            "api": "openai-completions",
            "models": [{"id": model.model, "name": model.model}],
        }
        return {
            "gateway": {
                "mode": "local",
                "bind": "loopback",
                "port": self.port,
                "auth": {"mode": "token", "token": _TOKEN},
                "controlUi": {"enabled": False},
                "http": {"endpoints": {"chatCompletions": {"enabled": True}}},
            },
            "agents": {
                "defaults": {
                    "workspace": str(self.workspace),
                    "skipBootstrap": True,
                    "model": {"primary": f"loopback/{model.model}"},
                    "heartbeat": {"every": "0m"},
                }
            },
            "models": {
                "mode": "replace",
                "providers": {"loopback": provider},
                "catalogRefresh": {"enabled": False},
            },
            "memory": {"search": {"provider": "none"}},
            "discovery": {"mdns": {"mode": "off"}},
            "update": {"checkOnStart": False},
            "logging": {"file": str(self.root / "host.log")},
        }

    @property
    def environment(self) -> dict[str, str]:
        """Variables without the user's own; the host's Node.js is first. What it compiles is kept for the next start,
        and its young generation has room: otherwise garbage collection takes a seventh of its time.
        """
        programs = Path(self.command).parent
        return {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.root),
            "OPENCLAW_STATE_DIR": str(self.state),
            "OPENCLAW_CONFIG_PATH": str(self.config),
            "NODE_COMPILE_CACHE": str(programs.parents[1] / "compiled"),
            "NODE_OPTIONS": "--max-semi-space-size=64",
            "TMPDIR": str(self.root / "tmp"),
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
        }

    def run(
        self, *arguments: str, patience_s: float = PATIENCE_S
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end. Raises HostError if it does not end in time."""
        return self._run(self.command, *arguments, patience_s=patience_s)

    def run_alone(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs a command likewise; raises HostError, too, if it leaves a process behind."""
        return self._run(self.command, *arguments, alone=True)

    def install_plugin(self) -> str:
        """Installs our plugin by our own command; returns its output."""
        done = self.memory_gateway("openclaw", "install", "--yes")
        if done.returncode:
            raise HostError(f"the plugin was not installed: {done.stdout}")
        return done.stdout

    def memory_gateway(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs a command of ours in the environment of the host."""
        argv = (sys.executable, "-P", "-m", "gateway", *arguments)
        return self._run(*argv, patience_s=_COMMANDS_WITHIN * PATIENCE_S)

    def accepts(self, files: Iterable[Path]) -> list[bool]:
        """Returns whether its `config validate` accepts each of these configurations."""
        programs = Path(self.command).parent
        package = str(programs.parent / "openclaw")
        done = self._run(str(programs / "node"), str(_VALIDATE), package, *map(str, files))
        accepted: list[bool] = json.loads(done.stdout.splitlines()[-1])
        return accepted

    def _run(
        self, *argv: str, patience_s: float = PATIENCE_S, alone: bool = False
    ) -> subprocess.CompletedProcess[str]:
        with _started(self, argv) as (process, printed):
            try:
                process.wait(patience_s)
            except subprocess.TimeoutExpired:
                raise HostError(f"{argv[:2]} did not end:\n{printed()[-3000:]}") from None
            if alone:
                _wait_until_gone(process.pid)
            return subprocess.CompletedProcess(argv, process.returncode, printed())

    def kill_memory_gateway(
        self, after_s: float, *arguments: str, whole_group: bool
    ) -> tuple[bool, float]:
        """Runs a command of ours and kills it, alone or with its children of the host; waits until all have ended.

        Returns whether it was still at work, and the seconds that it took.
        """
        argv = (sys.executable, "-P", "-m", "gateway", *arguments)
        started = time.monotonic()
        with _started(self, argv) as (process, _):
            try:
                process.wait(after_s)
            except subprocess.TimeoutExpired:
                if whole_group:
                    os.killpg(process.pid, signal.SIGKILL)
                else:
                    process.kill()
                process.wait()
                _wait_until_gone(process.pid)
                return True, time.monotonic() - started
            return False, time.monotonic() - started

    @contextmanager
    def gateway(self) -> Iterator[RunningHost]:
        """Runs `openclaw gateway run`: ready in the body, stopped afterwards, which has to be cleanly."""
        with _started(self, (self.command, "gateway", "run")) as (process, printed):
            running = RunningHost(self, process, printed)
            running.wait_until_ready()
            yield running
            if not running.was_killed:
                running.stop()

    def files(self, *, but: Callable[[str], bool] = lambda _name: False) -> dict[str, str]:
        """Returns kind, mode, inode and a hash of every entry of the state directory, by relative name."""
        entries = sorted(self.state.rglob("*"))
        names = {path: str(path.relative_to(self.state)) for path in entries}
        return {name: _described(path) for path, name in names.items() if not but(name)}


class RunningHost:
    """A gateway that is ready."""

    def __init__(
        self, host: OpenClaw, process: subprocess.Popen[bytes], printed: Callable[[], str]
    ) -> None:
        self._host = host
        self._process = process
        self._printed = printed
        self.was_killed = False

    @property
    def printed(self) -> str:
        """All its output so far, on standard output and error."""
        return self._printed()

    def say(self, text: str, session: str = MAIN) -> str:
        """Makes one turn of a conversation; returns the agent's answer."""
        agent = session.split(":")[1]
        body = {"model": f"openclaw/{agent}", "messages": [{"role": "user", "content": text}]}
        headers = {
            "Authorization": f"Bearer {_TOKEN}",
            "Content-Type": "application/json",
            "x-openclaw-session-key": session,
        }
        status, content = self._request("POST", "/v1/chat/completions", json.dumps(body), headers)
        if status != http.client.OK:
            raise HostError(f"a turn was answered with {status}: {content.decode()}")
        return str(json.loads(content)["choices"][0]["message"]["content"])

    @property
    def pid(self) -> int:
        return self._process.pid

    def invoke(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Calls a tool of the main agent without a turn; returns its result."""
        headers = {"Authorization": f"Bearer {_TOKEN}", "Content-Type": "application/json"}
        body = json.dumps({"tool": tool, "args": arguments, "sessionKey": MAIN})
        status, content = self._request("POST", "/tools/invoke", body, headers)
        if status != http.client.OK:
            raise HostError(f"{tool} was answered with {status}: {content.decode()}")
        result: dict[str, Any] = json.loads(content)["result"]
        return result

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not self._is_ready():
            if self._process.poll() is not None:
                raise HostError(
                    f"the gateway ended with {self._process.returncode}:\n{self.printed}"
                )
            if time.monotonic() > deadline:
                raise HostError(f"the gateway did not become ready:\n{self.printed}")
            time.sleep(_PAUSE_S)

    def _is_ready(self) -> bool:
        try:
            return self._request("GET", "/readyz")[0] == http.client.OK
        except OSError:
            return False

    def _request(self, *request: Any) -> tuple[int, bytes]:
        """Sends a request on a new connection: the host closes those that are idle for some seconds."""
        connection = http.client.HTTPConnection("127.0.0.1", self._host.port, timeout=PATIENCE_S)
        try:
            connection.request(*request)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Suspends all its processes while the body runs; open files and locks stay as they are."""
        os.killpg(self._process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(self._process.pid, signal.SIGCONT)

    def stop(self) -> None:
        """Sends SIGTERM; the end has to be clean: code 0, in time, and no child left."""
        self._process.terminate()
        try:
            code = self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise HostError(f"the gateway did not stop:\n{self.printed[-3000:]}") from None
        if code:
            raise HostError(f"the gateway stopped with {code}:\n{self.printed[-3000:]}")
        _wait_until_gone(self._process.pid)

    def kill(self) -> float:
        """Kills the host with its launcher and the launcher's processes, but none of ours.

        Returns how many seconds later the last process of its group was gone.
        """
        self.was_killed = True
        ours = self.children()
        for pid in self._group():
            if pid not in ours:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._process.wait()
        killed = time.monotonic()
        _wait_until_gone(self._process.pid)
        return time.monotonic() - killed

    def children(self) -> dict[int, list[str]]:
        """Returns the arguments of our processes that it runs now, by pid."""
        found = {}
        for pid in self._group():
            with suppress(OSError):
                argv = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]
                if "serve" in argv and "--agent" in argv:
                    found[pid] = argv
        return found

    def _group(self) -> Iterator[int]:
        """Yields the live processes in the group of the one that was started."""
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError, IndexError):
                status = (place / "stat").read_text().rpartition(")")[2].split()
                if int(status[2]) == self._process.pid and status[0] != "Z":
                    yield int(place.name)


def _wait_until_gone(group: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while _group_lives(group):
        if time.monotonic() > deadline:
            raise HostError("a process was left behind")
        time.sleep(_PAUSE_S)


@contextmanager
def _started(
    host: OpenClaw, argv: tuple[str, ...]
) -> Iterator[tuple[subprocess.Popen[bytes], Callable[[], str]]]:
    """Yields a process in a group of its own, ended afterwards, and a function that returns its output so far."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            argv,
            env=host.environment,
            cwd=host.root,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield process, lambda: _read_whole(output.fileno())
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _read_whole(descriptor: int) -> str:
    """Reads a file without moving the position at which the process continues to write."""
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode("utf-8", "replace")


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _laid_over(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _laid_over(merged[key], value) if both else value
    return merged


def _described(path: Path) -> str:
    found = path.lstat()
    content = b""
    if path.is_symlink():
        content = os.fsencode(path.readlink())
    elif path.is_file():
        content = path.read_bytes()
    inode = 0 if path.is_dir() else found.st_ino
    return f"{found.st_mode:o} {inode} {hashlib.sha256(content).hexdigest()}"
