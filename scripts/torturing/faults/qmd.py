"""Faults of QMD: killed, stopped, replaced by programs that fail, hang or talk nonsense."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Final

from benchmarks.qmd_home import qmd_processes
from torturing.faults.base import Fault, Impossible
from torturing.scene import Scene

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
    """The builtin engine answers whatever QMD does."""

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

    async def before(self, scene: Scene) -> None:
        done = subprocess.run(
            [str(_SETUP)], capture_output=True, encoding="utf-8", timeout=_SETUP_S, check=True
        )
        variant = self._variant(scene)
        program = _program(scene)
        _install(program, f'exec {done.stdout.strip()} "$@"', Path(done.stdout.strip()).parent)
        qmd = {"command": str(program), "searchMode": "search", "update": {"interval": "1s"}}
        scene.subject.configure(memory={"backend": "qmd", "qmd": qmd})
        scene.params = {"sessionKey": "agent:main:main"}
        if variant in _BROKEN and scene.rng.random() < 0.5:
            _install(program, variant, None)

    async def strike(self, scene: Scene) -> None:
        match self._variant(scene):
            case "kill":
                self._signal(scene, signal.SIGKILL)
            case "stop":
                self._signal(scene, signal.SIGSTOP)
            case body:
                _install(_program(scene), body, None)

    async def lift(self, scene: Scene) -> None:
        self._signal(scene, signal.SIGCONT)

    async def after(self, scene: Scene) -> None:
        for pid, _ in qmd_processes(scene.subject.state):
            scene.fail(f"QMD process {pid} was left behind")
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(scene.subject.state / "memory-gateway/main/qmd", ignore_errors=True)

    def _variant(self, scene: Scene) -> str:
        return _VARIANTS[scene.number % len(_VARIANTS)]

    def _signal(self, scene: Scene, number: signal.Signals) -> None:
        for pid, _ in list(qmd_processes(scene.subject.state)):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
                scene.kills += number == signal.SIGKILL


def _program(scene: Scene) -> Path:
    return scene.subject.root / "qmd"


def _install(program: Path, body: str, path: Path | None) -> None:
    before = f"PATH={path}:$PATH\n" if path else ""
    draft = program.with_suffix(".new")
    draft.write_text(f"#!/bin/sh\n{before}{body}\n", encoding="utf-8")
    draft.chmod(0o755)
    draft.replace(program)
