"""Tiny models that an engine really loads, and embedders whose workers are real processes."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from fakes.local_models import ENGINES, write_model
from fakes.onnx_models import write_embedder
from providers.local.embedder import LocalEmbedder, LocalSpec, Patience, Supervisor
from providers.local.model import Wishes

QUICK = Patience(beat_s=0.05, silence_s=20.0, idle_s=60.0, first_pause_s=0.01, open_s=30.0)
BOUND_S = 120.0


if "llama.cpp" not in ENGINES:
    collect_ignore = ["test_llama.py"]


@pytest.fixture(params=ENGINES)
def model(request, tmp_path) -> Path:
    return write_model(request.param, tmp_path / "tiny")


@pytest.fixture
def greedy_model(tmp_path) -> Path:
    """A model for which a text of more than 64 tokens takes more memory than there is, which ends the worker."""
    return write_embedder(tmp_path / "greedy/model.onnx", greedy_from=64, seed=2)


@asynccontextmanager
async def _running(part: Any) -> AsyncIterator[Any]:
    with anyio.fail_after(BOUND_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(part.run)
            yield part
            tasks.cancel_scope.cancel()


@pytest.fixture
def embedding(tmp_path) -> Callable[..., AbstractAsyncContextManager[LocalEmbedder]]:
    """An embedder at work: `async with embedding(path) as embedder`; keywords are wishes."""

    def make(
        reference: Path | str, *, patience: Patience = QUICK, **wishes: Any
    ) -> AbstractAsyncContextManager[LocalEmbedder]:
        spec = LocalSpec(
            str(reference), str(reference), tmp_path / "models", Wishes(**wishes), os.environ
        )
        return _running(LocalEmbedder(spec, patience=patience))

    return make


@pytest.fixture
def supervising() -> Callable[..., AbstractAsyncContextManager[Supervisor]]:
    def make(patience: Patience = QUICK, **others: Any) -> AbstractAsyncContextManager[Supervisor]:
        return _running(Supervisor(os.environ, patience=patience, **others))

    return make


async def _until(condition: Callable[[], Any]) -> None:
    """Waits for a condition, within the limit of the running test."""
    while not condition():
        await anyio.sleep(0.01)


@pytest.fixture
def until() -> Callable[[Callable[[], Any]], Any]:
    return _until
