"""A loopback hub, a cache directory, and downloads that do not wait for real time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.clock import FakeClock
from fakes.hub import REPOSITORY, FakeHub, model_bytes
from providers.local.models import obtain

ROOT = Path(__file__).parents[4]
_CHILD = """
import os, sys
import anyio
from pathlib import Path
from providers.local.models import obtain

async def main():
    reference, cache = sys.argv[1:]
    print(await obtain(reference, Path(cache), environment=os.environ))

anyio.run(main)
"""


@pytest.fixture
def data() -> bytes:
    return model_bytes(1_000_000)


@pytest.fixture
def hub(data: bytes) -> Iterator[FakeHub]:
    with FakeHub({f"{REPOSITORY}/m.gguf": data}) as hub:
        yield hub


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture
def fetch(hub: FakeHub, cache: Path) -> Callable[..., Any]:
    """Obtains a model from the hub; keywords in capitals are variables of the environment."""

    async def fetch(reference: str = "hf:org/repo/m.gguf", **options: Any) -> Path:
        environment = {name: options.pop(name) for name in list(options) if name.isupper()}
        return await obtain(
            reference,
            cache,
            environment=hub.environment | environment,
            **{"clock": FakeClock(), **options},
        )

    return fetch


@pytest.fixture
def start_download(hub: FakeHub, cache: Path) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Starts processes that download the model and print where it is."""
    started: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", _CHILD, "hf:org/repo/m.gguf", str(cache)],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **hub.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def recorded(cache: Path) -> Callable[[], dict[str, Any]]:
    """Returns the record beside the one model in the cache."""

    def read() -> dict[str, Any]:
        (file,) = cache.rglob("*.json")
        return dict(json.loads(file.read_bytes()))

    return read
