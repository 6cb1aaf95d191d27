"""Faults of what lies on the disk: damaged pages, and side files that belong to another index."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final

from gateway.client import GatewayGoneError
from torturing.faults.base import Fault
from torturing.scene import ANSWER_S, Scene

PAGE: Final = 4096
HEADER: Final = 100


def _truncate(index: Path, rng: Random) -> None:
    with index.open("r+b") as file:
        file.truncate(PAGE * rng.randrange(1, max(2, _pages(index))))


def _cut_a_page(index: Path, rng: Random) -> None:
    with index.open("r+b") as file:
        file.truncate(max(1, index.stat().st_size - rng.randrange(1, PAGE)))


def _flip_bits(index: Path, rng: Random) -> None:
    """One bit each of three pages."""
    for _ in range(3):
        place = PAGE * rng.randrange(_pages(index)) + rng.randrange(PAGE)
        old = _read(index, max(place, HEADER), 1)
        _write(index, max(place, HEADER), bytes([old[0] ^ (1 << rng.randrange(8))]))


def _zero_a_page(index: Path, rng: Random) -> None:
    _write(index, PAGE * rng.randrange(1, _pages(index)), bytes(PAGE))


def _garbage_in_a_page(index: Path, rng: Random) -> None:
    _write(index, PAGE * rng.randrange(1, _pages(index)), rng.randbytes(PAGE))


def _swap_pages(index: Path, rng: Random) -> None:
    """A lost write: a page holds what belongs to another."""
    one, other = (PAGE * rng.randrange(1, _pages(index)) for _ in range(2))
    _write(index, one, _read(index, other, PAGE))


def _garbage_header(index: Path, rng: Random) -> None:
    _write(index, 16, rng.randbytes(44))


def _empty(index: Path, _rng: Random) -> None:
    index.write_bytes(b"")


def _spoil_log(index: Path, rng: Random) -> None:
    """A write-ahead log that a killed process left, with a garbled frame."""
    log = _beside(index, "-wal")
    if log.exists() and log.stat().st_size > 2 * PAGE:
        _write(log, rng.randrange(32, log.stat().st_size - 64), rng.randbytes(64))


DAMAGES: Final[tuple[Callable[[Path, Random], None], ...]] = (
    _flip_bits, _truncate, _garbage_in_a_page, _empty, _zero_a_page, _garbage_header, _swap_pages,
    _cut_a_page, _spoil_log,
)  # fmt: skip


class DamagedIndex(Fault):
    """The gateway is killed, or ends in order, and its file is not what it was."""

    name = "damage"
    about = "pages cut off, flipped, zeroed, garbled, exchanged; a garbage header; 0 bytes; a garbled log"
    tolerates_damaged = True
    kills_gateway = True
    runs = 3 * len(DAMAGES)

    async def strike(self, scene: Scene) -> None:
        await end(scene)
        index = scene.subject.index
        if index.exists() and index.stat().st_size > PAGE:
            DAMAGES[scene.number % len(DAMAGES)](index, scene.rng)


class StaleSidecars(Fault):
    """What an earlier index left is found beside another one, or without any."""

    name = "sidecars"
    about = "-wal, -shm and -journal of an earlier index beside a new one, beside an older one, or alone"
    tolerates_damaged = True
    kills_gateway = True
    runs = 8

    async def before(self, scene: Scene) -> None:
        """An index of an earlier time, and the log of a process that was killed then."""
        aside = _aside(scene)
        aside.mkdir(exist_ok=True)
        async with scene.started() as client:
            await client.call("sync", timeout_s=ANSWER_S)
            scene.subject.edit()
            await client.call("sync", timeout_s=ANSWER_S)
            scene.kill()
            await client.process.wait()
        for file in scene.subject.index.parent.glob(f"{scene.subject.index.name}*"):
            if not file.name.endswith(".lock"):
                shutil.copy(file, aside)

    async def strike(self, scene: Scene) -> None:
        await end(scene)
        index, aside = scene.subject.index, _aside(scene)
        match scene.number % 4:
            case 0:
                index.unlink(missing_ok=True)
            case 1:
                _replace(aside / f"{index.name}-wal", index)
                _beside(index, "-shm").unlink(missing_ok=True)
            case 2:
                _replace(aside / index.name, index)
            case 3:
                shutil.copy(aside / index.name, _beside(index, "-journal"))
                _beside(index, "-shm").write_bytes(scene.rng.randbytes(32768))

    async def after(self, scene: Scene) -> None:
        shutil.rmtree(_aside(scene), ignore_errors=True)


async def end(scene: Scene) -> None:
    """The gateway is killed, or ends in order and leaves no log."""
    if scene.rng.random() < 0.5:
        scene.kill()
    elif scene.is_alive:
        with suppress(GatewayGoneError):
            await scene.gateway.call("shutdown", timeout_s=ANSWER_S)
    await scene.gateway.process.wait()


def _aside(scene: Scene) -> Path:
    return scene.subject.root / "earlier"


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
