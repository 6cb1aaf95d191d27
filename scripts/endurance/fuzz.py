"""Searches for inputs on which a parser fails, guided by coverage: `./scripts/fuzz TARGET ... --seconds N`.

Starts from the stored corpus, adds inputs that reach new lines, and keeps those that fail, made as small as possible.
The fuzzer is atheris, which is libFuzzer for Python.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import importlib.util
import pkgutil
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

from rich.console import Console

Run = Callable[[bytes], None]


class Target(NamedTuple):
    function: str
    """Its name in `endurance.fuzz_targets`, which is imported only after a fuzzer watches imports."""
    watched: tuple[str, ...]
    """Modules and packages of the gateway."""
    longest: int = 4096
    """The most bytes of an input that the fuzzer generates."""

    def load(self) -> Run:
        run: Run = getattr(importlib.import_module("endurance.fuzz_targets"), self.function)
        return run


_REMOTE: Final = ("providers.remote",)

TARGETS: Final[dict[str, Target]] = {
    "protocol": Target("protocol", ("gateway.rpc.wire",)),
    "configuration": Target("configuration", ("config",), 2048),
    "markdown": Target(
        "markdown",
        ("backends.chunking", "backends.text", "backends.ranking", "backends.builtin.syncing.preparing",
         "backends.qmd.answering"),
    ),
    "transcripts": Target("transcripts", ("backends.transcripts", "backends.redaction")),
    "host-events": Target("host_events", ("backends.transcripts.host_database", "backends.transcripts.turns"), 2048),
    "client-files": Target("client_files", ("gateway.connect.entries", "config.source.json5"), 1024),
    "openai": Target("openai", _REMOTE, 1024),
    "gemini": Target("gemini", _REMOTE, 1024),
    "voyage": Target("voyage", _REMOTE, 1024),
    "refusals": Target("refusals", ("providers.remote.answers", "config.secrets")),
    "batches": Target("batches", (
        "providers.batch.openai_jobs", "providers.batch.result_files", "providers.remote.embedder")),
    "qmd-answer": Target("qmd_answer", ("backends.qmd.server",)),
    "qmd-server": Target("qmd_server", ("backends.qmd.server",), 1024),
    "gguf": Target("gguf", ("providers.local.model",)),
    "worker-frames": Target("frames", ("config.runtime.worker", "providers.local.worker"), 1024),
}  # fmt: skip


CORPORA: Final = Path(__file__).parents[2] / "tests/corpora"
FOUND: Final = "found-"


def directory(name: str) -> Path:
    return CORPORA / name


def inputs(place: Path) -> list[bytes]:
    """Returns the inputs in a directory, the smallest first."""
    if not place.is_dir():
        return []
    return sorted(
        (path.read_bytes() for path in place.iterdir()), key=lambda data: (len(data), data)
    )


def keep_found(name: str, data: bytes) -> Path:
    path = directory(name) / f"{FOUND}{_mark(data)}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def distil(name: str, target: Target, candidates: Iterable[bytes]) -> Lines:
    """Keeps the inputs that reach a line which no smaller one reaches; returns all lines reached."""
    place = directory(name)
    place.mkdir(parents=True, exist_ok=True)
    kept: dict[str, bytes] = {}
    reached: set[tuple[str, int, int]] = set()
    for data in sorted({*candidates, *inputs(place)}, key=lambda data: (len(data), data)):
        new = lines_reached(target, data) - reached
        if new:
            reached |= new
            kept[_mark(data)] = data
    for path in place.iterdir():
        if not path.name.startswith(FOUND):
            path.unlink()
    for mark, data in kept.items():
        if not (place / f"{FOUND}{mark}").exists():
            (place / mark).write_bytes(data)
    return frozenset(reached)


def _mark(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]


Lines = frozenset[tuple[str, int, int]]
"""File, previous line, line: steps from line to line, so that both ways of a branch count."""


_steps: set[tuple[str, int, int]] = set()
"""The steps of the current run. One set for all runs: threads that a target keeps are traced from their start."""


def lines_reached(target: Target, data: bytes) -> Lines:
    """Returns the steps of one run, even if it fails."""
    run, tracer = target.load(), _tracer(target.watched)
    _steps.clear()
    threading.settrace(tracer)
    sys.settrace(tracer)
    try:
        with contextlib.suppress(Exception):
            run(data)
    finally:
        sys.settrace(None)
    return frozenset(_steps)


@cache
def _tracer(watched: tuple[str, ...]) -> Callable[[FrameType, str, Any], Any]:
    files = watched_files(watched)

    def enter(frame: FrameType, _event: str, _arg: Any) -> Any:
        name = frame.f_code.co_filename
        if name not in files:
            return None
        before = 0

        def step(frame: FrameType, event: str, _arg: Any) -> Any:
            nonlocal before
            if event == "line":
                _steps.add((name, before, frame.f_lineno))
                before = frame.f_lineno
            return step

        return step

    return enter


def share(target: Target, steps: Lines) -> tuple[int, int]:
    """Returns the number of lines in functions that were reached, and of all lines in functions."""
    lines = {(file, line) for file, _, line in steps}
    everything = {
        (file, line) for file in watched_files(target.watched) for line in _lines_of(file)
    }
    return len(lines & everything), len(everything)


@cache
def watched_files(watched: tuple[str, ...]) -> frozenset[str]:
    return frozenset(file for name in watched for file in _files(name))


def _files(name: str) -> Iterator[str]:
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    yield spec.origin
    for module in pkgutil.walk_packages(spec.submodule_search_locations or [], f"{name}."):
        inner = importlib.util.find_spec(module.name)
        assert inner is not None
        assert inner.origin is not None
        yield inner.origin


@cache
def _lines_of(file: str) -> frozenset[int]:
    module = compile(Path(file).read_text("utf-8"), file, "exec")
    return frozenset(line for code in _functions(module) for line in _own_lines(code))


def _functions(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_flags & 0x2:  # CO_NEWLOCALS: a function, not the body of a class
                yield constant
            yield from _functions(constant)


def _own_lines(code: CodeType) -> Iterator[int]:
    for _, _, line in code.co_lines():
        if line is not None and line != code.co_firstlineno:
            yield line


def shrink(data: bytes, fails: Callable[[bytes], bool]) -> bytes:
    """Cuts out ever smaller pieces (delta debugging, A. Zeller, 1999) until no single byte can be removed."""
    size = max(1, len(data) // 2)
    while True:
        start, is_smaller = 0, False
        while start < len(data):
            shorter = data[:start] + data[start + size :]
            if fails(shorter):
                data, is_smaller = shorter, True
            else:
                start += size
        if size == 1 and not is_smaller:
            return data
        size = max(1, size // 2)


SLOW_S = 20
"""The seconds after which one input counts as a failure."""
_EXECUTED = re.compile(r"stat::number_of_executed_units:\s+(\d+)")


@dataclass(frozen=True)
class Ran:
    executions: int
    found: Path | None
    words: str
    """The end of the fuzzer's output if it found something or failed."""
    reached: int
    lines: int


def fuzz(name: str, seconds: int, seed: int) -> Ran:
    target = TARGETS[name]
    with tempfile.TemporaryDirectory(prefix=f"fuzz-{name}-") as scratch:
        grown, failures = Path(scratch, "corpus"), Path(scratch, "failures")
        grown.mkdir()
        failures.mkdir()
        options = [
            str(grown), str(directory(name)), f"-artifact_prefix={failures}/", f"-max_total_time={seconds}",
            f"-max_len={target.longest}", f"-timeout={SLOW_S}", f"-seed={seed}", "-print_final_stats=1",
        ]  # fmt: skip
        directory(name).mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "endurance.fuzz", name, *options]
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", check=False
        )
        failed = inputs(failures)
        steps = distil(name, target, [] if failed else inputs(grown))
        found = keep_found(name, _smallest(target, failed[0])) if failed else None
    said = done.stdout + done.stderr
    executed = _EXECUTED.search(said)
    words = said[-3000:] if found or done.returncode else ""
    return Ran(int(executed[1]) if executed else 0, found, words, *share(target, steps))


def _smallest(target: Target, data: bytes) -> bytes:
    """Returns a smaller input that fails likewise. One that is only too slow stays: it cannot be tried often."""
    run = target.load()

    def way(tried: bytes) -> type[BaseException] | None:
        try:
            run(tried)
        except Exception as error:  # noqa: BLE001 - whatever the target raises is what is looked for
            return type(error)
        return None

    failure = way(data)
    return shrink(data, lambda tried: way(tried) is failure) if failure else data


def main(arguments: Sequence[str]) -> int:
    """Searches for inputs that a parser does not take, guided by coverage."""
    parser = argparse.ArgumentParser(prog="./scripts/fuzz", description=main.__doc__)
    parser.add_argument("targets", nargs="+", choices=[*TARGETS, "all"], metavar="TARGET")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    names = list(TARGETS) if "all" in options.targets else options.targets
    from benchmarks.running import figures  # noqa: PLC0415 - it imports the gateway
    from gateway.process.log_output import configure_logs  # noqa: PLC0415 - the engine watches its import

    configure_logs("error")
    table = figures(
        "What was found",
        "target | executions | corpus | bytes | found before | lines reached | found",
    )
    failed = False
    for name in names:
        ran = fuzz(name, options.seconds, options.seed)
        kept = list(directory(name).iterdir())
        before = sum(path.name.startswith(FOUND) for path in kept)
        table.add_row(
            name, f"{ran.executions:,}", str(len(kept)), f"{sum(len(p.read_bytes()) for p in kept):,}",
            str(before), f"{ran.reached:,} of {ran.lines:,}", ran.found.name if ran.found else "-",
        )  # fmt: skip
        failed |= bool(ran.words)
        print(ran.words, end="", file=sys.stderr)
    Console(width=120).print(table)
    return int(failed)


def _run_engine(name: str, arguments: Sequence[str]) -> None:
    """Runs the fuzzer, in its own process: the first failure ends it, and watched modules must not be loaded yet."""
    import atheris  # noqa: PLC0415 - only the fuzzer needs it, which installs it

    target = TARGETS[name]
    with atheris.instrument_imports(include=[*target.watched]):
        run = target.load()
    atheris.Setup(["fuzz", *arguments], run)
    atheris.Fuzz()


if __name__ == "__main__":
    _run_engine(sys.argv[1], sys.argv[2:])
