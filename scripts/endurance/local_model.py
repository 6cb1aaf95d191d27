"""The local model of an agent: a small real one, the hub it comes from, and the checks of its cache.

The hub counts what it sends, so every byte that is fetched twice is noticed.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import anyio

from endurance.agent import ANSWER_S, MODEL, Agent
from endurance.oracle import texts
from endurance.run import Run
from fakes.hub import REPOSITORY, FakeHub
from fakes.onnx_models import write_embedder
from providers.local.models.references import ONNX

BYTES_PER_S: Final = 1_000_000
"""Two seconds for the whole model."""
LOST_BYTES: Final = 256 << 10
"""The most bytes lost with an answer that is broken off: 64 KiB not yet written, and what is in the
sockets while the machine does other work."""
_POSITIONS: Final = 16_384
"""They make up most of the file: two megabytes."""
_BEGIN_S: Final = 12.0
"""A download begins when notes stop changing, or after ten seconds. If none begins (its cache cannot be
written), the fault begins after this time."""
_VECTORS: Final = Path(__file__).with_name("model_vectors.py")
_POLL_S: Final = 0.01


def missing() -> str | None:
    """Returns why there can be no local model here, or None."""
    return f"{ONNX.missing} is not installed" if ONNX.missing else None


@cache
def files() -> Mapping[str, bytes]:
    """Returns the files of the model by name."""
    with tempfile.TemporaryDirectory(prefix="torture-model-") as name:
        directory = Path(name)
        write_embedder(directory / MODEL, context=_POSITIONS)
        found = (path for path in directory.rglob("*") if path.is_file())
        return {str(path.relative_to(directory)): path.read_bytes() for path in found}


def open_hub() -> FakeHub:
    contents = {f"{REPOSITORY}/{name}": data for name, data in files().items()}
    return FakeHub(contents, bytes_per_s=BYTES_PER_S)


def forget(agent: Agent) -> None:
    """Deletes the model, so that it has to be fetched again, and what the hub has counted."""
    hub = _hub(agent)
    hub.heal()
    hub.requests.clear()
    for file in _cached(agent):
        file.unlink()


async def midway(run: Run) -> None:
    """Waits until the hub has sent a random share of the model; one time in four all of it, so that faults
    meet its check and its publication."""
    hub, whole = _hub(run.agent), size()
    moment = min(whole, run.rng.randrange(whole * 4 // 3))

    async def is_midway() -> bool:
        return hub.sent() >= moment

    with anyio.move_on_after(_BEGIN_S):
        await _until(is_midway, run)


async def until_fetched(run: Run) -> None:
    """Waits until the gateway has fetched the model under its own name. Records a failure if that takes too long."""

    async def is_there() -> bool:
        return run.agent.model.is_file()

    await _or_fail(is_there, run, "the download does not go on")


async def until_embedded(run: Run) -> None:
    """Waits until every text has its vector. Records a failure if that takes too long."""

    async def is_embedded() -> bool:
        if "backfill" not in (found := await _vectors(run)):
            return False  # the provider is still being chosen
        coverage = found["backfill"]["coverage"]
        return bool(coverage["total"] == coverage["embedded"] > 0)

    await _or_fail(is_embedded, run, "not every text has a vector")


async def _until(condition: Callable[[], Awaitable[bool]], run: Run) -> None:
    """Waits for the condition, or until the gateway is gone."""
    while run.is_alive:
        if await condition():
            return
        await anyio.sleep(_POLL_S)


async def _or_fail(condition: Callable[[], Awaitable[bool]], run: Run, otherwise: str) -> None:
    with anyio.move_on_after(ANSWER_S) as scope:
        await _until(condition, run)
    if scope.cancelled_caught:
        run.fail(f"{otherwise} within {ANSWER_S:g} s: {await _vectors(run)}"[:1500])


async def _vectors(run: Run) -> dict[str, Any]:
    status = await run.gateway.call("status", timeout_s=ANSWER_S)
    found: dict[str, Any] = status["details"]["vector"]
    return found


def cache_faults(agent: Agent) -> Iterator[str]:
    """Yields the faults of the cache: at any time a file with its final name must be complete."""
    for name, data in files().items():
        path = agent.model.parent / name
        if path.exists() and _digest(path.read_bytes()) != _digest(data):
            yield f"what stands under the name {name} is not that file"


def faults_at_the_end(run: Run) -> Iterator[str]:
    """Yields what is wrong when the model is in use: in its cache, or in what the hub had to send for it."""
    agent = run.agent
    yield from cache_faults(agent)
    paths = [agent.model.parent / name for name in files()]
    usual = {*paths, *(path.with_name(f"{path.name}.json") for path in paths)}
    found = set(_cached(agent))
    if usual - found:
        yield f"not in the cache: {sorted(file.name for file in usual - found)}"
    if found - usual:
        yield f"left behind in the cache: {sorted(file.name for file in found - usual)}"
    bodies = [seen.sent for seen in _hub(agent).requests if seen.sent]
    most = size() * (1 + run.refetched) + LOST_BYTES * max(0, len(bodies) - len(files()))
    if sum(bodies) > most:
        yield f"fetched {sum(bodies):,} bytes, not {most:,} at most: {bodies}"


def expected(agent: Agent) -> Callable[[str], Sequence[float]]:
    """Returns the function from a text in the index to its vector, as the model computes it alone."""
    found = sorted(texts(agent.index))
    done = subprocess.run(
        [sys.executable, "-P", _VECTORS, agent.model],
        input=json.dumps(found).encode(),
        stdout=subprocess.PIPE,
        check=True,
    )
    vectors: dict[str, list[float]] = dict(zip(found, json.loads(done.stdout), strict=True))
    return vectors.__getitem__


def _hub(agent: Agent) -> FakeHub:
    assert agent.hub is not None
    return agent.hub


def _cached(agent: Agent) -> list[Path]:
    return [file for file in agent.models.rglob("*") if file.is_file()]


def size() -> int:
    return sum(map(len, files().values()))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
