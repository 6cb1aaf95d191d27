"""Faults of the disk and of its files: full, failing, read only; damaged pages, foreign side files."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Final

import anyio

from config.errors import ErrorKind, MemoryGatewayError
from endurance.agent import ANSWER_S
from endurance.faults.base import Fault, Impossible, Lasting, require_root
from endurance.run import Run
from fakes import hung_disk
from fakes.hung_disk import HungDisk
from gateway.client import GatewayGoneError, RemoteError

WRITES: Final = 200
"""The number of writes of which each fails once, counted from the first."""
_SIZE: Final = "24m"
_SIZE_WITH_MODEL: Final = "112m"
"""A download leaves 64 MiB free."""
_COLUMNS: Final = 7
"""The number of activities that write to the index: in a whole row each write fails once."""
_MODEL_WRITES: Final = 33
"""The number of 64 KiB pieces of a model; with a stride coprime to it, the runs reach all of them."""
_STRIDE: Final = 7
_BLOCK: Final = b"\0" * 65536
_DETACH_S: Final = 5.0


class FullDisk(Lasting):
    """State and index are on a file system of their own, which is filled while the gateway works."""

    name = "disk-full"
    about = f"a tmpfs of {_SIZE} (with a model {_SIZE_WITH_MODEL}) is filled to the last byte, later freed"
    hold_s = 0.6
    may_prevent_start = True

    def require(self) -> None:
        require_root()

    async def before(self, run: Run) -> None:
        """Moves the existing state to the small disk."""
        state = run.agent.state
        if os.path.ismount(state):
            return
        aside = state.with_name("aside")
        state.rename(aside)
        state.mkdir()
        size = _SIZE_WITH_MODEL if run.agent.hub else _SIZE
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", state], check=True)
        shutil.copytree(aside, state, dirs_exist_ok=True)
        shutil.rmtree(aside)

    async def inject(self, run: Run) -> None:
        fill(_filler(run))

    async def remove(self, run: Run) -> None:
        _filler(run).unlink(missing_ok=True)

    def clean(self, root: Path) -> None:
        if os.path.ismount(root / "state"):
            subprocess.run(["umount", "--lazy", root / "state"], check=True)


class FailingWrite(Fault):
    """strace makes the n-th write of each thread fail, in odd runs also all later ones."""

    name = "write-error"
    about = (
        f"ENOSPC at the n-th write, n from 1 to {WRITES} (to a model {_MODEL_WRITES}); "
        "in every other run at all that follow"
    )
    hold_s = 0.4
    runs = 1 + WRITES // _COLUMNS
    may_prevent_start = True

    def require(self) -> None:
        if shutil.which("strace") is None:
            raise Impossible("strace is not installed")

    async def before(self, run: Run) -> None:
        call, only, nth = self._target(run)
        when = f"{nth}+" if run.number % 2 else str(nth)
        run.launch.prefix = (
            "strace", "-D", "-f", "-I", "1", "-o", "/dev/null", *only, "-e", f"trace={call}",
            "-e", f"inject={call}:error=ENOSPC:when={when}", "--",
        )  # fmt: skip

    def _target(self, run: Run) -> tuple[str, tuple[str, ...], int]:
        """Returns the call, options that restrict it to a file, and n. If a model is fetched, the file is the model."""
        if run.agent.hub is None:
            nth = 1 + (run.number * _COLUMNS + run.column) % WRITES
            return "pwrite64", (), nth
        part = run.agent.model.with_name(f"{run.agent.model.name}.part")
        return "write", ("-P", str(part)), 1 + run.number * _STRIDE % _MODEL_WRITES

    async def remove(self, run: Run) -> None:
        """Ends the tracer, which then detaches from the gateway."""
        ends = time.monotonic() + _DETACH_S
        while run.is_alive and (tracer := _tracer(run.pid)):
            with suppress(ProcessLookupError):
                os.kill(tracer, signal.SIGTERM)
            if time.monotonic() > ends:
                run.fail("strace does not let go")
                return
            await anyio.sleep(0.02)


class ReadOnly(Lasting):
    """From before the start nothing can be created or written in the directories of index and model."""

    name = "read-only"
    about = "the directories of index and model cannot be written; later they can"
    may_prevent_start = True
    runs = 3

    async def before(self, run: Run) -> None:
        for place in run.agent.stores:
            place.mkdir(parents=True, exist_ok=True)
            if os.geteuid() == 0:
                subprocess.run(["mount", "--bind", place, place], check=True)
                subprocess.run(["mount", "-o", "remount,bind,ro", place], check=True)
            else:
                place.chmod(0o500)

    async def remove(self, run: Run) -> None:
        for place in run.agent.stores:
            if os.geteuid() != 0:
                place.chmod(0o700)
            else:  # a second call finds nothing mounted
                subprocess.run(["umount", "--lazy", place], capture_output=True, check=False)


def fill(filler: Path) -> None:
    """Writes to the file until its disk has no byte left."""
    for block in (_BLOCK, b"\0"):
        with suppress(OSError), filler.open("ab", buffering=0) as file:
            while file.write(block):
                pass


def _filler(run: Run) -> Path:
    return run.agent.state / "filler"


def _tracer(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith("TracerPid:"):
                return int(line.split()[1])
    return 0


PAGE: Final = 4096
HEADER: Final = 100


def _truncate(index: Path, rng: Random) -> None:
    with index.open("r+b") as file:
        file.truncate(PAGE * rng.randrange(1, max(2, _pages(index))))


def _cut_a_page(index: Path, rng: Random) -> None:
    with index.open("r+b") as file:
        file.truncate(max(1, index.stat().st_size - rng.randrange(1, PAGE)))


def _flip_bits(index: Path, rng: Random) -> None:
    """Flips one bit in each of three pages."""
    for _ in range(3):
        place = PAGE * rng.randrange(_pages(index)) + rng.randrange(PAGE)
        old = _read(index, max(place, HEADER), 1)
        _write(index, max(place, HEADER), bytes([old[0] ^ (1 << rng.randrange(8))]))


def _zero_a_page(index: Path, rng: Random) -> None:
    _write(index, PAGE * rng.randrange(1, _pages(index)), bytes(PAGE))


def _garbage_in_a_page(index: Path, rng: Random) -> None:
    _write(index, PAGE * rng.randrange(1, _pages(index)), rng.randbytes(PAGE))


def _swap_pages(index: Path, rng: Random) -> None:
    """Gives a page the content of another, as a misdirected write does."""
    one, other = (PAGE * rng.randrange(1, _pages(index)) for _ in range(2))
    _write(index, one, _read(index, other, PAGE))


def _garbage_header(index: Path, rng: Random) -> None:
    _write(index, 16, rng.randbytes(44))


def _empty(index: Path, _rng: Random) -> None:
    index.write_bytes(b"")


def _spoil_log(index: Path, rng: Random) -> None:
    """Garbles a frame of the write-ahead log that a killed process left."""
    log = _beside(index, "-wal")
    if log.exists() and log.stat().st_size > 2 * PAGE:
        _write(log, rng.randrange(32, log.stat().st_size - 64), rng.randbytes(64))


DAMAGES: Final[tuple[Callable[[Path, Random], None], ...]] = (
    _flip_bits, _truncate, _garbage_in_a_page, _empty, _zero_a_page, _garbage_header, _swap_pages,
    _cut_a_page, _spoil_log,
)  # fmt: skip


class DamagedIndex(Fault):
    """The gateway is killed or ends in order, and then its file is damaged."""

    name = "damage"
    about = "pages cut off, flipped, zeroed, garbled, exchanged; a garbage header; 0 bytes; a garbled log"
    tolerates_damaged = True
    kills_gateway = True
    runs = 3 * len(DAMAGES)

    async def inject(self, run: Run) -> None:
        await end(run)
        index = run.agent.index
        if index.exists() and index.stat().st_size > PAGE:
            DAMAGES[run.number % len(DAMAGES)](index, run.rng)


class StaleSidecars(Fault):
    """Side files of an earlier index are beside another index, or alone."""

    name = "sidecars"
    about = "-wal, -shm and -journal of an earlier index beside a new one, beside an older one, or alone"
    tolerates_damaged = True
    kills_gateway = True
    runs = 8

    async def before(self, run: Run) -> None:
        """Saves an earlier index and the log of a process that was killed then."""
        aside = _aside(run)
        aside.mkdir(exist_ok=True)
        async with run.started() as client:
            await client.call("sync", timeout_s=ANSWER_S)
            run.agent.edit()
            await client.call("sync", timeout_s=ANSWER_S)
            run.kill()
            await client.process.wait()
        for file in run.agent.index.parent.glob(f"{run.agent.index.name}*"):
            if not file.name.endswith(".lock"):
                shutil.copy(file, aside)

    async def inject(self, run: Run) -> None:
        await end(run)
        index, aside = run.agent.index, _aside(run)
        match run.number % 4:
            case 0:
                index.unlink(missing_ok=True)
            case 1:
                _replace(aside / f"{index.name}-wal", index)
                _beside(index, "-shm").unlink(missing_ok=True)
            case 2:
                _replace(aside / index.name, index)
            case 3:
                shutil.copy(aside / index.name, _beside(index, "-journal"))
                _beside(index, "-shm").write_bytes(run.rng.randbytes(32768))

    async def after(self, run: Run) -> None:
        shutil.rmtree(_aside(run), ignore_errors=True)


async def end(run: Run) -> None:
    """Kills the gateway, or has it end in order without leaving a log."""
    if run.rng.random() < 0.5:
        run.kill()
    elif run.is_alive:
        try:
            await run.gateway.call("shutdown", timeout_s=ANSWER_S)
        except GatewayGoneError:
            pass
        except RemoteError as error:
            if error.kind is not ErrorKind.SHUTTING_DOWN:  # somebody else had asked for it
                raise
    await run.gateway.process.wait()


def _aside(run: Run) -> Path:
    return run.agent.root / "earlier"


def _replace(source: Path, index: Path) -> None:
    if source.exists():
        shutil.copy(source, index.with_name(source.name))


def _beside(index: Path, suffix: str) -> Path:
    return index.with_name(index.name + suffix)


def _pages(index: Path) -> int:
    return index.stat().st_size // PAGE


def _read(file: Path, place: int, size: int) -> bytes:
    with file.open("rb") as opened:
        opened.seek(place)
        return opened.read(size)


def _write(file: Path, place: int, data: bytes) -> None:
    with file.open("r+b") as opened:
        opened.seek(place)
        opened.write(data)


class VanishedWorkspace(Lasting):
    """The workspace is renamed, later renamed back; answers meanwhile are stale."""

    name = "vanished"
    about = "the workspace is renamed for a second, then back: no row may leave the index"
    hold_s = 1.0
    impossible = dict.fromkeys(
        ("first-index", "re-sync", "rebuild", "batch", "download"),
        "it writes into the workspace, which is away meanwhile",
    ) | {"shutdown": "it forces a rebuild, by which somebody says that what is gone was deleted"}

    async def inject(self, run: Run) -> None:
        with suppress(
            MemoryGatewayError
        ):  # a workspace that no index knows is refused at the start
            await run.gateway.call("sync", timeout_s=ANSWER_S)
        run.agent.workspace.rename(_away(run))

    async def remove(self, run: Run) -> None:
        if _away(run).exists():
            _away(run).rename(run.agent.workspace)


def _away(run: Run) -> Path:
    return run.agent.workspace.with_name("workspace-away")


class _Hung(Lasting):
    hold_s = 3.0
    runs = 3
    impossible: ClassVar = {
        "download": "a model is loaded by a process of its own, which is not told apart",
    }

    def __init__(self) -> None:
        self._disk: HungDisk | None = None

    def require(self) -> None:
        if not hung_disk.is_possible():
            raise Impossible(hung_disk.NEEDS)

    def below(self, run: Run) -> tuple[Path, ...]:
        raise NotImplementedError

    async def before(self, run: Run) -> None:
        self._disk = HungDisk(run.agent.root, *self.below(run))
        run.launch.environment = self._disk.environment

    async def inject(self, _run: Run) -> None:
        assert self._disk is not None
        self._disk.hang()

    async def remove(self, _run: Run) -> None:
        if self._disk is not None:
            self._disk.answer()


class HungNotes(_Hung):
    name = "hung-notes"
    about = "the disk of notes and transcripts answers nothing for 3 s"

    def below(self, run: Run) -> tuple[Path, ...]:
        return (run.agent.workspace, run.agent.state / "agents")


class HungIndex(_Hung):
    name = "hung-index"
    about = "the disk of the index answers nothing for 3 s"

    def below(self, run: Run) -> tuple[Path, ...]:
        return (run.agent.index.parent,)


class SilentPipes(Lasting):
    """Nobody writes to the pipes: a request about one is answered all the same and delays no other request."""

    name = "fifos"
    about = (
        "pipes that deliver nothing in the place of .env, sessions.json, a note and a transcript"
    )
    hold_s = 1.0

    async def inject(self, run: Run) -> None:
        with suppress(MemoryGatewayError):
            await run.gateway.call(
                "health", timeout_s=ANSWER_S
            )  # it has started: while starting it refuses pipes
        for pipe in _pipes(run):
            if pipe.exists():
                pipe.rename(_kept(pipe))
            os.mkfifo(pipe)
        questions: tuple[tuple[str, dict[str, Any]], ...] = (
            ("reload", {}),
            ("memory_get", {"path": "memory/pipe.md"}),
            ("memory_flush", {"sessionKey": "agent:main:main"}),
        )
        async with anyio.create_task_group() as tasks:
            for method, params in questions:
                tasks.start_soon(self._ask, run, method, params)

    async def _ask(self, run: Run, method: str, params: dict[str, Any]) -> None:
        try:
            with anyio.fail_after(ANSWER_S):
                await run.gateway.call(method, params, timeout_s=2 * ANSWER_S)
        except TimeoutError:
            run.fail(f"{method} was not answered within {ANSWER_S:g} s")
        except MemoryGatewayError:
            pass  # the error names the pipe, or the process is ending

    async def remove(self, run: Run) -> None:
        for pipe in _pipes(run):
            if pipe.is_fifo():
                pipe.unlink()
            if _kept(pipe).exists():
                _kept(pipe).rename(pipe)


def _pipes(run: Run) -> tuple[Path, ...]:
    agent = run.agent
    return (
        agent.state / ".env",
        agent.sessions / "sessions.json",
        agent.sessions / "pipe.jsonl",
        agent.workspace / "memory/pipe.md",
    )


def _kept(pipe: Path) -> Path:
    return pipe.with_name(f"{pipe.name}.kept")


_HOSTILE: Final = "*a*a*a7b\n" * 50 + "[a-z]*" * 40 + "7\n" + "**/" * 300 + "x\n"
_LONG_NAMES: Final = 40


class HostilePatterns(Lasting):
    """An ignore file in a further place that is searched: it matches nothing and takes no time."""

    name = "patterns"
    about = f"an ignore file whose patterns would be tried for ever, beside {_LONG_NAMES} names of 240 letters"
    hold_s = 1.0

    async def before(self, run: Run) -> None:
        place = _hostile_place(run)
        place.mkdir(exist_ok=True)
        for number in range(_LONG_NAMES):
            (place / f"{number:02}{'a' * 235}.md").write_text(
                f"# Note {number}\n", encoding="utf-8"
            )
        run.agent.search_also(place)

    async def inject(self, run: Run) -> None:
        (_hostile_place(run) / ".gitignore").write_text(_HOSTILE, encoding="utf-8")

    async def remove(self, run: Run) -> None:
        (_hostile_place(run) / ".gitignore").unlink(missing_ok=True)


def _hostile_place(run: Run) -> Path:
    return run.agent.root / "place"
