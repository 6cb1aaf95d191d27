"""Faults of the services that a gateway uses: the host of its embeddings, the hub of its model, QMD, OpenClaw."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Final

from anyio import to_thread

from benchmarks.qmd_home import qmd_processes
from endurance.agent import ANSWER_S
from endurance.faults.base import Fault, Impossible, Lasting
from endurance.run import Run
from fakes import faults
from fakes.hub import FakeHub, Misbehaviour
from fakes.openclaw_command import make_openclaw

KINDS: Final = (
    faults.status(500), faults.status(503), faults.status(401), faults.rate_limited(),
    faults.rate_limited("1"), faults.openai_quota(), faults.fault("hang"), faults.fault("drip"),
    faults.fault("reset"), faults.redirect("http://localhost:1/elsewhere"),
    faults.fault("invalid-json"), faults.fault("html"), faults.fault("huge"), faults.fault("short"),
    faults.fault("reordered"), faults.fault("wrong-dimension"), faults.fault("nan"), faults.fault("zero"),
)  # fmt: skip
HUB_KINDS: Final[tuple[Misbehaviour, ...]] = (
    "drop", "stall", "status", "html", "wrong-bytes", "wrong-size", "no-ranges", "circle",
)  # fmt: skip
_ANEW: Final = ("wrong-bytes", "wrong-size", "no-ranges")
"""The kinds after which a file has to be fetched again: once before the hub works, and once after."""
_HUB_BYTES: Final = 200_000
"""The number of bytes sent of an answer that breaks off, stops or is cut."""


class Provider(Lasting):
    """Search by keywords works all the time, and no vector from a bad answer may be stored.

    If a model is fetched, the hub misbehaves instead.
    """

    name = "provider"
    about = (
        f"{len(KINDS)} ways in which the host of the embeddings misbehaves, for a second; "
        f"{len(HUB_KINDS)} of the hub of a model"
    )
    hold_s = 1.0
    needs_host = True
    runs = len(KINDS)

    async def before(self, run: Run) -> None:
        """Leaves some texts without a vector, so that the host is asked."""
        run.agent.edit()

    async def inject(self, run: Run) -> None:
        assert run.agent.host is not None
        if run.agent.hub is not None:
            kind = HUB_KINDS[run.number % len(HUB_KINDS)]
            _spoil(run.agent.hub, kind)
            run.refetched = 2 * (kind in _ANEW)
        else:
            run.agent.host.misbehave(KINDS[run.number % len(KINDS)])

    async def remove(self, run: Run) -> None:
        assert run.agent.host is not None
        run.agent.host.heal()
        if run.agent.hub is not None:
            run.agent.hub.heal()
            run.agent.hub.hang_up()


BOMBS: Final = ("bomb", "nested-bomb", "rows", "values")
_MOST_RESIDENT: Final = 700 << 20
"""The most resident memory of the gateway: several times an answer of 64 MiB and what it expands to."""


class Bombs(Fault):
    """An answer of a host is measured by what it expands to, before that is kept."""

    name = "bombs"
    about = (
        f"the host of the embeddings sends {faults.BOMB_BYTES >> 20} MiB compressed once or thrice, twelve million "
        "empty rows, or a row of sixteen million numbers"
    )
    hold_s = 3.0
    needs_host = True
    runs = len(BOMBS)
    impossible: ClassVar = {
        "download": "a hub is asked for files as they are, and what it compresses is not decompressed",
    }

    async def before(self, run: Run) -> None:
        """Leaves some texts without a vector, so that the host is asked."""
        run.agent.edit()

    async def inject(self, run: Run) -> None:
        assert run.agent.host is not None
        run.agent.host.misbehave(faults.fault(BOMBS[(run.number + run.column) % len(BOMBS)]))

    async def remove(self, run: Run) -> None:
        assert run.agent.host is not None
        run.agent.host.heal()
        if run.is_alive:
            status = Path(f"/proc/{run.pid}/status").read_text(encoding="ascii")
            most = int(status.partition("VmHWM:")[2].split()[0]) << 10
            if most > _MOST_RESIDENT:
                run.fail(f"{most >> 20} MiB were resident")

    async def after(self, run: Run) -> None:
        assert run.agent.host is not None
        run.agent.host.heal()


def _spoil(hub: FakeHub, kind: Misbehaviour) -> None:
    """Breaks off the answer under way; those that follow are of this kind."""
    hub.misbehave(kind, times=None, after=_HUB_BYTES, status=503)
    hub.hang_up()


_SETUP: Final = Path(__file__).resolve().parents[2] / "qmd-setup"
_SETUP_S: Final = 600
_BROKEN: Final = (
    "exit 1",
    "exec sleep 60",
    "echo '{nonsense'",
    "kill -9 $$",
    "yes | head -c 20000000",
)
_VARIANTS: Final = ("kill", "stop", *_BROKEN)


class Qmd(Fault):
    """The builtin engine answers, whatever QMD does."""

    name = "qmd"
    about = "QMD is killed, stopped, or a program that fails, hangs, dies, floods or talks nonsense"
    hold_s = 1.0
    runs = len(_VARIANTS)
    impossible: ClassVar = {
        "batch": "QMD embeds with its own model: there are no batch jobs",
        "download": "QMD fetches its model itself: the gateway has none",
    }

    def require(self) -> None:
        if shutil.which("npm") is None:
            raise Impossible("npm, which installs QMD, is not there")

    async def before(self, run: Run) -> None:
        done = subprocess.run(
            [str(_SETUP)], capture_output=True, encoding="utf-8", timeout=_SETUP_S, check=True
        )
        variant = self._variant(run)
        program = _program(run)
        _install(program, f'exec {done.stdout.strip()} "$@"', Path(done.stdout.strip()).parent)
        qmd = {"command": str(program), "searchMode": "search", "update": {"interval": "1s"}}
        run.agent.configure(memory={"backend": "qmd", "qmd": qmd})
        run.params = {"sessionKey": "agent:main:main"}
        if variant in _BROKEN and run.rng.random() < 0.5:
            _install(program, variant, None)

    async def inject(self, run: Run) -> None:
        match self._variant(run):
            case "kill":
                self._signal(run, signal.SIGKILL)
            case "stop":
                self._signal(run, signal.SIGSTOP)
            case body:
                _install(_program(run), body, None)

    async def remove(self, run: Run) -> None:
        self._signal(run, signal.SIGCONT)

    async def after(self, run: Run) -> None:
        for pid, _ in qmd_processes(run.agent.state):
            run.fail(f"QMD process {pid} was left behind")
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(run.agent.state / "memory-gateway/main/qmd", ignore_errors=True)

    def _variant(self, run: Run) -> str:
        return _VARIANTS[run.number % len(_VARIANTS)]

    def _signal(self, run: Run, number: signal.Signals) -> None:
        for pid, _ in list(qmd_processes(run.agent.state)):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
                run.kills += number == signal.SIGKILL


class PluginInstalled(Fault):
    """OpenClaw rewrites the configuration that the gateway reads; in the end it is the same byte for byte."""

    name = "openclaw"
    about = (
        "OpenClaw (a stand-in) gets the plugin and loses it again, in every other run after an `install` was killed; "
        "its configuration has comments, `plugins.allow` and mode 0640"
    )
    runs = 2

    async def inject(self, run: Run) -> None:
        await to_thread.run_sync(self._install_and_uninstall, run)

    def _install_and_uninstall(self, run: Run) -> None:
        config, programs = run.agent.config, run.agent.root / "programs"
        make_openclaw(programs)
        content = json.loads(config.read_text("utf-8")) | {"plugins": {"allow": ["notes"]}}
        draft = config.with_suffix(".draft")  # a gateway that starts now reads one or the other
        draft.write_text(f"// by hand\n{json.dumps(content, indent=1)}\n", "utf-8")
        draft.chmod(_BY_HAND)
        draft.replace(config)
        before = config.read_bytes()
        if run.number % 2:
            with _commanding(run, "install") as process:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(run.rng.uniform(0.2, _INSTALL_S))
                with suppress(ProcessLookupError):  # on a fast machine it has ended
                    os.killpg(process.pid, signal.SIGKILL)
                    run.kills += 1
        for command in ("install", "uninstall"):
            with _commanding(run, command) as process:
                said, _ = process.communicate(timeout=ANSWER_S)
            if process.returncode:
                run.fail(f"openclaw {command} ended with {process.returncode}: {said}")
            elif command == "install" and '"memory-gateway"' not in config.read_text("utf-8"):
                run.fail("OpenClaw was not told of the plugin")
        if config.read_bytes() != before:
            run.fail(f"uninstall left {config.read_text('utf-8')[:300]}")
        if (mode := config.stat().st_mode & 0o777) != _BY_HAND:
            run.fail(f"uninstall left mode {mode:o}")


_BY_HAND: Final = 0o640
_INSTALL_S: Final = 1.5
"""The approximate seconds that an installation takes with the stand-in."""


def _commanding(run: Run, command: str) -> subprocess.Popen[str]:
    """Starts one of our two commands, in a process group of its own with what it runs."""
    places = ("--config", str(run.agent.config), "--state-dir", str(run.agent.state))
    programs = run.agent.root / "programs"
    path = os.pathsep.join((str(programs), run.agent.environment["PATH"]))
    return subprocess.Popen(
        (sys.executable, "-m", "gateway", "openclaw", command, "--yes", *places),
        env=run.agent.environment | {"PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        start_new_session=True,
    )


def _program(run: Run) -> Path:
    return run.agent.root / "qmd"


def _install(program: Path, body: str, path: Path | None) -> None:
    before = f"PATH={path}:$PATH\n" if path else ""
    draft = program.with_suffix(".new")
    draft.write_text(f"#!/bin/sh\n{before}{body}\n", encoding="utf-8")
    draft.chmod(0o755)
    draft.replace(program)
