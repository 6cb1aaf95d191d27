"""What CONTRIBUTING.md and the page about providers show works as it stands there."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from msgspec import structs

from backends import interface
from backends.builtin.backend import open_builtin
from backends.interface import SearchRequest
from fakes.loopback import LoopbackHandler, LoopbackHost, LoopbackServer
from fakes.settings import make_settings, remote
from fakes.vendors import FakeVendor
from providers.choosing import provider
from providers.interface import ProviderRequest
from providers.remote import vendors
from providers.remote.vendors import VENDORS, Vendor

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PROVIDER = (ROOT / "docs/add-a-provider.md").read_text(encoding="utf-8")
ROW, WIRE, BACKEND = re.findall(r"```python\n(.*?)```", PROVIDER + TEXT, re.DOTALL)


class AcmeHandler(LoopbackHandler):
    """A host that takes `POST /embed`, with the right key."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        may = self.headers["Authorization"] == "Bearer acme-key-of-the-test"
        vectors = [[float(len(text)), 1.0, 0.5] for text in asked["texts"]]
        body = json.dumps({"vectors": vectors} if asked["model"] == "acme-embed" else {}).encode()
        self.send_response(200 if may else 401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Acme(LoopbackHost[None]):
    def __init__(self):
        self.serve(LoopbackServer(AcmeHandler))


async def test_a_vendor_that_speaks_openais_wire_is_a_row(tmp_path, monkeypatch):
    monkeypatch.setitem(VENDORS, "acme", eval(ROW, {"Vendor": Vendor}))
    with FakeVendor("openai", models=("acme-embed",)) as host:
        search = {"provider": "acme", "remote": remote(host.base_url, host.key)}
        request = ProviderRequest(make_settings(tmp_path, search=search), "primary")
        assert provider("acme").assess(request).usable
        embedder = provider("acme").create(request)
        assert len(await embedder.embed_query("tea")) == host.dimensions
        await embedder.aclose()


async def test_another_wire_is_a_module_with_one_class(tmp_path, monkeypatch):
    module = ModuleType("providers.remote.acme")
    exec(WIRE, vars(module))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(vendors._LIBRARIES, "acme", "httpx2")
    monkeypatch.setitem(vendors._DEFAULT_TYPES, "acme", {})
    row = structs.replace(eval(ROW, {"Vendor": Vendor}), wire="acme")
    monkeypatch.setitem(VENDORS, "acme", row)
    with Acme() as host:
        address = f"http://127.0.0.1:{host.port}"
        search = {"provider": "acme", "remote": remote(address, "acme-key-of-the-test")}
        request = ProviderRequest(make_settings(tmp_path, search=search), "primary")
        assert provider("acme").assess(request).usable
        embedder = provider("acme").create(request)
        assert len(await embedder.embed_query("tea")) == 3
        batch = await embedder.embed_documents(["tea", "coffee"])
        assert len(batch.items) == 2
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
    for script in re.findall(r"\./scripts/([\w-]+)\b(?!\*)", TEXT + PROVIDER):
        assert script == "bench_" or (ROOT / "scripts" / script).is_file(), script
    for path, name in re.findall(r"(tests/\S+\.py)(?:::(\w+))?", TEXT + PROVIDER):
        assert name in (ROOT / path).read_text(encoding="utf-8")
