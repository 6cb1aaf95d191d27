"""A small memory behind the methods of the pipe, called as the pipe calls them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from fakes.settings import make_settings
from gateway.agent.memory import Memory, open_memory
from gateway.agent.reloading import Reloader
from gateway.methods import build_registry
from gateway.rpc.registry import RequestContext, Session, decode_params

NOTE = "# Home\n\n- The boiler is serviced by Hartmann.\n- The pump is in the cellar.\n"
STATELESS = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}

Ask = Callable[..., Awaitable[Any]]


class Desk:
    """A client: `await desk.ask("tools/call", name=..., arguments=...)`; the notifications are in `heard`."""

    def __init__(self, registry: Any, memory: Memory) -> None:
        self.registry = registry
        self.memory = memory
        self.session = Session()
        self.heard: list[tuple[str, Any]] = []

    async def ask(self, method: str, **params: Any) -> Any:
        found = self.registry.find(method)
        context = RequestContext(
            session=self.session,
            request_id="1",
            notify=lambda name, content: self.heard.append((name, content)),
        )
        decoded = decode_params(method, found.params, msgspec.json.encode(params))
        return msgspec.to_builtins(await found.handler(decoded, context))

    async def stateless(self, method: str, **params: Any) -> Any:
        return await self.ask(method, _meta=STATELESS | params.pop("meta", {}), **params)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "workspace/memory").mkdir(parents=True)
    (tmp_path / "workspace/memory/a.md").write_text(NOTE, encoding="utf-8")
    return tmp_path


@pytest.fixture
async def desk(workspace: Path) -> AsyncIterator[Desk]:
    settings = make_settings(workspace, search={"provider": "none"})
    async with open_memory(settings, background=False) as memory:
        reloader = Reloader(memory, lambda: settings)
        yield Desk(build_registry(memory, anyio.Event().set, reloader.reload), memory)
