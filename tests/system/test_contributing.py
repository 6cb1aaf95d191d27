"""What CONTRIBUTING.md shows works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from backends import interface
from backends.builtin.backend import open_builtin
from backends.interface import SearchRequest
from fakes.settings import make_settings, remote
from fakes.vendors import FakeVendor
from providers.choosing import provider
from providers.interface import ProviderRequest
from providers.remote.vendors import VENDORS, Vendor

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
ROW, BACKEND = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


async def test_a_vendor_that_speaks_openais_wire_is_a_row(tmp_path, monkeypatch):
    monkeypatch.setitem(VENDORS, "acme", eval(ROW, {"Vendor": Vendor}))
    with FakeVendor("openai", models=("acme-embed",)) as host:
        search = {"provider": "acme", "remote": remote(host.base_url, host.key)}
        request = ProviderRequest(make_settings(tmp_path, search=search), "primary")
        assert provider("acme").assess(request).usable
        embedder = provider("acme").create(request)
        assert len(await embedder.embed_query("tea")) == host.dimensions
        await embedder.aclose()


async def test_a_backend_before_another_needs_only_what_it_changes(tmp_path):
    names = dict(vars(interface))
    exec(BACKEND, names)
    settings = make_settings(tmp_path, search={"provider": "none"})
    settings.workspace.mkdir()
    (settings.workspace / "MEMORY.md").write_text("The kettle is red.\n", encoding="utf-8")
    async with open_builtin(settings) as inner:
        backend = names["Counting"](inner)
        answer = await backend.search(SearchRequest(query="kettle"))
        assert [hit.path for hit in answer.hits] == ["MEMORY.md"]
        assert backend.searches == 1
        assert (await backend.status()).backend == "builtin"


def test_the_commands_it_names_are_there():
    for script in re.findall(r"\./scripts/([\w-]+)\b(?!\*)", TEXT):
        assert script == "bench_" or (ROOT / "scripts" / script).is_file(), script
    for path, name in re.findall(r"(tests/\S+\.py)(?:::(\w+))?", TEXT):
        assert name in (ROOT / path).read_text(encoding="utf-8")
