"""Installs the wheel in dist/ as its users do, each on an empty home, asks a question, and uninstalls it again.

Libraries are the newest that the package index has, so that a release of theirs which breaks ours is noticed; `lowest`
takes the oldest that pyproject.toml allows, and `lock` those of requirements.lock, with a pip as old as any that is
still used.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from publishing.packages import ROOT

EXTRAS: Final = "remote,local,postgres"
OLD_PIP: Final = "23.1.2"
"""The oldest pip that runs on all of these Pythons; Debian 12 and Ubuntu 22.04 have even older ones."""
_PATIENCE_S: Final = 900
_STAYING_PATIENCE_S: Final = 30
"""The time limit for a gateway that a hook started to begin, and to end once its index is gone."""
_LOOK_S: Final = 0.1
_NOTE: Final = "The boiler is serviced each October.\n"
_QUESTION: Final = "When is the boiler serviced?"
Result = TypeVar("Result")


class Place(NamedTuple):
    """An empty home, and what is installed there."""

    home: Path
    python: str
    wheel: Path

    def run(self, *command: str | Path, given: str = "") -> str:
        """Returns what the command printed. If it fails, shows its output and raises CalledProcessError."""
        passed = {name: value for name, value in os.environ.items() if not _is_ours(name)}
        done = subprocess.run(
            command, cwd=self.home, env={**passed, "HOME": str(self.home), "PYTHONWARNINGS": "ignore"},
            input=given, capture_output=True, encoding="utf-8", timeout=_PATIENCE_S, check=False,
        )  # fmt: skip
        if done.returncode:
            print(done.stdout[-2000:], done.stderr[-4000:], sep="\n", file=sys.stderr)
            done.check_returncode()
        return done.stdout

    def venv(self) -> Path:
        """Makes an environment; returns its Python."""
        self.run(self.python, "-m", "venv", "venv")
        return self.home / "venv/bin/python"

    def venv_of_uv(self, *options: str) -> Path:
        """Makes an environment that uv fills; returns the program."""
        self.run("uv", "venv", "--quiet", "--python", self.python, "venv")
        program = self.home / "venv/bin/memory-gateway"
        self.run(
            "uv", "pip", "install", "--quiet", "--python", program.with_name("python"), *options
        )
        return program


def _is_ours(name: str) -> bool:
    return name.startswith(("XDG_", "MEMORY_GATEWAY_", "OPENCLAW_")) or name in (
        "PYTHONPATH",
        "VIRTUAL_ENV",
    )


def _uv_tool(place: Place) -> Path:
    place.run("uv", "tool", "install", "--quiet", "--python", place.python, place.wheel)
    return place.home / ".local/bin/memory-gateway"


def _pipx(place: Place) -> Path:
    place.run(
        "uv", "tool", "run", "--quiet", "pipx", "install", "--python", place.python, place.wheel
    )
    return place.home / ".local/bin/memory-gateway"


def _pip(place: Place) -> Path:
    python = place.venv()
    place.run(python, "-m", "pip", "install", "--quiet", place.wheel)
    return python.with_name("memory-gateway")


def _extras(place: Place) -> Path:
    return place.venv_of_uv(f"{place.wheel}[{EXTRAS}]")


def _lowest(place: Place) -> Path:
    return place.venv_of_uv("--resolution", "lowest-direct", f"{place.wheel}[{EXTRAS}]")


def _lock(place: Place) -> Path:
    """Installs as scripts/environment.sh does it in a clone."""
    python, lock = place.venv(), ROOT / "requirements.lock"
    pip = (python, "-m", "pip", "install", "--quiet")
    place.run(*pip, f"pip=={OLD_PIP}")
    place.run(*pip, "--require-hashes", "--requirement", lock, "--constraint", lock)
    place.run(*pip, "--no-deps", place.wheel)
    return python.with_name("memory-gateway")


class Way(NamedTuple):
    install: Callable[[Place], Path]
    """Installs the wheel; returns the program."""
    uninstall: tuple[str, ...] = ()
    """The command; if empty, the environment is a folder of its own, which is removed."""


WAYS: Final = {
    "uv": Way(_uv_tool, ("uv", "tool", "uninstall", "--quiet", "memory-gateway")),
    "pipx": Way(_pipx, ("uv", "tool", "run", "--quiet", "pipx", "uninstall", "memory-gateway")),
    "pip": Way(_pip),
    "extras": Way(_extras),
    "lowest": Way(_lowest),
    "lock": Way(_lock),
}


class Tried(NamedTuple):
    installed_s: float
    megabytes: float
    """The size of the home, without the caches of installers."""
    first_s: float
    """From the command to its answer, the first index included."""
    second_s: float
    left: list[str]
    """The files that were left after the removal, without the caches of installers."""


def try_way(way: Way, python: str, wheel: Path) -> Tried:
    """Installs, asks, and uninstalls. Raises CalledProcessError; SystemExit if the note is not found."""
    with tempfile.TemporaryDirectory(prefix="memory-gateway-") as root:
        place = Place(Path(root) / "home", python, wheel)
        notes = Path(root) / "notes"
        for one in (place.home, notes):
            one.mkdir()
        (notes / "house.md").write_text(_NOTE, encoding="utf-8")
        installed_s, program = _timed(lambda: way.install(place))
        megabytes = sum(one.lstat().st_size for one in _files(place.home)) / 1e6
        ask = (program, "search", "--notes", notes, "--json", _QUESTION)
        first_s, answer = _timed(lambda: place.run(*ask))
        second_s, _ = _timed(lambda: place.run(*ask))
        if [hit["path"] for hit in json.loads(answer)["results"]] != ["house.md"]:
            raise SystemExit(f"The note was not found: {answer}")
        staying = _run_hook(place, program, notes)
        place.run(program, "setup", "--undo")
        if way.uninstall:
            place.run(*way.uninstall)
        else:
            shutil.rmtree(place.home / "venv")
        shutil.rmtree(place.home / ".local/share/memory-gateway")  # all as docs/installing.md says
        for one in (".local/state", ".cache", ".config"):
            shutil.rmtree(place.home / one / "memory-gateway", ignore_errors=True)
        (notes / "later.md").write_text(_NOTE, encoding="utf-8")
        _await(lambda: not _runs(staying), "The gateway that the hook started still runs")
        assert (notes / "house.md").read_text(encoding="utf-8") == _NOTE
        left = sorted(str(one.relative_to(place.home)) for one in _files(place.home))
        return Tried(installed_s, megabytes, first_s, second_s, left)


def _run_hook(place: Place, program: Path, notes: Path) -> int:
    """Runs a hook, as clients do before each prompt, until there is a gateway; returns its process once it answers.

    On a busy machine a hook may end before it has started one, and a gateway that still starts would write what is
    being removed.
    """
    event = {"hook_event_name": "UserPromptSubmit", "session_id": "1", "prompt": _QUESTION}

    def owner() -> int:
        place.run(
            program, "recall", "--hook", "claude-code", "--notes", notes, given=json.dumps(event)
        )
        locks = (place.home / ".local/share/memory-gateway").rglob("*.lock")
        records = filter(None, (one.read_text(encoding="utf-8").strip() for one in locks))
        return next((int(json.loads(one)["pid"]) for one in records), 0)

    process = _await(owner, "The hook started no gateway")
    place.run(program, "status", "--notes", notes)
    return process


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def _await(look: Callable[[], Result], otherwise: str) -> Result:
    """Returns the first result that counts as true. Raises SystemExit, which says what is otherwise, if none does."""
    ends = time.monotonic() + _STAYING_PATIENCE_S
    while not (found := look()):
        if time.monotonic() > ends:
            raise SystemExit(otherwise)
        time.sleep(_LOOK_S)
    return found


def _timed(act: Callable[[], Result]) -> tuple[float, Result]:
    began = time.monotonic()
    result = act()
    return time.monotonic() - began, result


def _files(home: Path) -> list[Path]:
    """Returns all files but those in the caches of installers."""
    found = [one for one in home.rglob("*") if one.is_symlink() or one.is_file()]
    caches, ours = home / ".cache", home / ".cache/memory-gateway"
    return [one for one in found if caches not in one.parents or ours in one.parents]


def main() -> None:
    parser = argparse.ArgumentParser(prog="./scripts/try_installs", description=__doc__)
    parser.add_argument(
        "--python", nargs="+", default=[sys.executable], help="this one alone if none is named"
    )
    parser.add_argument(
        "--way", nargs="+", default=list(WAYS), choices=WAYS, help="all if none is named"
    )
    asked = parser.parse_args()
    for python in asked.python:
        if shutil.which(python) is None:
            parser.error(f"--python {python}: there is no such program")
    wheels = list((ROOT / "dist").glob("*.whl"))
    if len(wheels) != 1:
        raise SystemExit("There is no wheel in dist/: ./scripts/build makes it")
    print(
        "| way | Python | installed in | takes | first answer | then | left |\n|---|---|---|---|---|---|---|"
    )
    failed = False
    for python in asked.python:
        version = subprocess.run(
            [python, "-V"], stdout=subprocess.PIPE, encoding="utf-8", check=True
        ).stdout.split()[1]
        for name in asked.way:
            row = f"| {name} | {version} |"
            try:
                one = try_way(WAYS[name], python, wheels[0])
            except (subprocess.SubprocessError, SystemExit) as error:
                failed = True
                print(f"{row} failed: {error} |", flush=True)
                continue
            figures = (
                f" {one.installed_s:.1f} s | {one.megabytes:.0f} MB | "
                f"{one.first_s:.1f} s | {one.second_s:.1f} s |"
            )
            print(f"{row}{figures} {', '.join(one.left) or 'nothing'} |", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
