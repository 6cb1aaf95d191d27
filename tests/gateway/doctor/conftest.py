"""A memory that another user can reach, and access to the findings about it."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from backends.interface import SyncRequest
from fakes.settings import make_settings
from gateway.agent.memory import open_memory


@pytest.fixture
def root():
    """A folder that another user can reach, unlike those of pytest."""
    base = Path(tempfile.mkdtemp())
    base.chmod(0o755)
    (base / "workspace/memory").mkdir(parents=True)
    (base / "workspace/memory/a.md").write_text("# Home\n\n- The boiler.\n", encoding="utf-8")
    yield base
    for directory, _, _ in os.walk(base):
        Path(directory).chmod(0o755)
    shutil.rmtree(base)


@pytest.fixture
def settings(root):
    return make_settings(root, search={"provider": "none"})


@pytest.fixture
def with_search():
    """Returns settings with other `memorySearch.*`."""

    def change(settings, **changes):
        return replace(settings, search=replace(settings.search, **changes))

    return change


@pytest.fixture
def index(settings):
    """The path of a filled index."""

    async def fill():
        async with open_memory(settings, background=False) as memory:
            await memory.sync(SyncRequest())

    anyio.run(fill)
    return settings.search.store.path


@pytest.fixture
def worst():
    """Returns the only finding that is not fine; it names its place and the remedy."""

    def pick(findings):
        (one,) = [one for one in findings if one.severity != "ok"]
        assert one.place
        assert one.fix
        return one

    return pick


@pytest.fixture
def severities():
    return lambda findings: [one.severity for one in findings]
