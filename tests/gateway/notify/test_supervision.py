"""A service is ready when its index can answer, and not before."""

from __future__ import annotations

import anyio
import pytest
from msgspec.structs import replace

from config.settings import StoreSettings
from fakes.settings import make_settings
from gateway.agent.memory import open_memory
from gateway.notify import Notifier, supervised

pytestmark = pytest.mark.anyio


async def until(heard: list[str], start: str) -> None:
    with anyio.fail_after(30):
        while not any(message.startswith(start) for message in heard):
            await anyio.sleep(0.01)


async def test_ready_waits_for_an_index_that_cannot_answer_yet(tmp_path):
    settings = make_settings(tmp_path, search={"provider": "none"})
    store = StoreSettings(path=tmp_path / "state" / "main.sqlite")
    settings = replace(settings, search=replace(settings.search, store=store))
    heard: list[str] = []
    async with open_memory(settings, background=False) as memory:
        await memory.health()
        store.path.parent.rename(tmp_path / "away")
        store.path.parent.write_text("in the way", encoding="utf-8")
        async with supervised(Notifier(heard.append), memory):
            await until(heard, "STATUS=Cannot answer yet")
            assert "READY=1" not in heard
            store.path.parent.unlink()
            (tmp_path / "away").rename(store.path.parent)
            await until(heard, "READY=1")
            await until(heard, "STATUS=Agent main: ok")


async def test_where_nobody_listens_nothing_is_supervised(tmp_path):
    settings = make_settings(tmp_path, search={"enabled": False})
    async with open_memory(settings) as memory, supervised(Notifier(), memory):
        assert (await memory.health()).status == "ok"
