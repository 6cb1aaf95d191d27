"""The answers to a probe: cheap, from known facts, and an error where the index cannot answer."""

from __future__ import annotations

import sys

import pytest

from backends.builtin.backend import open_builtin
from backends.interface import IndexUnavailableError, SyncRequest
from fakes.settings import make_settings

pytestmark = [pytest.mark.anyio, pytest.mark.every_store]

LISTED: list[object] = []
sys.addaudithook(
    lambda event, arguments: (
        LISTED.append(arguments) if event in {"os.listdir", "os.scandir"} else None
    )
)


@pytest.fixture
def settings(tmp_path):
    (tmp_path / "workspace/memory").mkdir(parents=True)
    (tmp_path / "workspace/memory/a.md").write_text("- The boiler.\n", encoding="utf-8")
    return make_settings(tmp_path, search={"provider": "none"})


async def test_asking_for_weaknesses_lists_no_directory(settings):
    async with open_builtin(settings) as backend:
        await backend.sync(SyncRequest())
        assert LISTED
        LISTED.clear()
        assert await backend.weaknesses() == ()
        assert LISTED == []


async def test_an_index_that_cannot_be_opened_any_more_is_an_error(settings, tmp_path):
    state = tmp_path / "state"
    moved = make_settings(state, search={"provider": "none"})
    async with open_builtin(moved) as backend:
        state.rename(tmp_path / "away")
        state.write_text("in the way", encoding="utf-8")
        with pytest.raises(IndexUnavailableError):
            await backend.weaknesses()
