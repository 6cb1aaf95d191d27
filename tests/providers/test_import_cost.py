"""The modules that are loaded when nothing is embedded."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEAVY = {"openai", "google.genai", "voyageai", "numpy", "httpx2", "httpx", "aiohttp", "requests"}
SCRIPT = """
import json, sys
sys.path[:0] = sys.argv[2:]
from pathlib import Path
import providers
from providers.choosing import choose, open_embeddings
from config.settings import Secret
from fakes.settings import make_settings
for keys in ({}, {"OPENAI_API_KEY": Secret("sk-x")}):
    settings = make_settings(Path(sys.argv[1]), environment_keys=keys)
    choice = choose(settings)
    opened = open_embeddings(settings, choice)
    assert (opened is not None) is bool(keys)
    if opened is not None:
        opened.state()
print(json.dumps(sorted(sys.modules)))
"""

FIRST_QUERY = """
import sys
sys.path[:0] = sys.argv[2:]
from pathlib import Path
import threading
import anyio
from providers.choosing import choose, open_embeddings
from providers.provider_interface import ProviderTimeoutError
from fakes.settings import make_settings, remote
search = {"provider": "openai", "remote": remote("http://127.0.0.1:9/v1", "sk-x")}
settings = make_settings(Path(sys.argv[1]), search=search)

printed = threading.Event()

class Slow:
    # It is found when it was seen that nobody waits for it.
    def find_spec(self, name, path, target=None):
        if name == "httpx2":
            printed.wait(60)

async def main():
    service = open_embeddings(settings, choose(settings))
    sys.meta_path.insert(0, Slow())
    try:
        await service.embed_query("q", deadline_s=0.01)
    except ProviderTimeoutError:
        print("loaded" if hasattr(sys.modules.get("httpx2"), "AsyncClient") else "still loading")
    finally:
        printed.set()

anyio.run(main)
"""

ANSWERED = """
import json, sys
sys.path[:0] = sys.argv[2:]
from pathlib import Path
import anyio
from providers.choosing import choose, load_for_queries, open_embeddings
from fakes.settings import make_settings, remote
from fakes.vendors import FakeVendor
from providers import proxies

async def main():
    for name in ("openai", "gemini", "voyage"):
        with FakeVendor(name) as host:
            search = {"provider": name, "remote": remote(host.base_url, host.key)}
            settings = make_settings(Path(sys.argv[1]), search=search)
            choice = choose(settings)
            service = open_embeddings(settings, choice)
            load_for_queries(choice)
            assert "httpcore2" in sys.modules  # the client loads it when one is made
            vector = await service.embed_query("q", deadline_s=30)
            assert len(vector.vector) == host.dimensions
            await service.aclose()
    # None of these hosts has a certificate, and reading those of the authorities takes as long as an import.
    assert proxies.certificates.cache_info().misses == 0

anyio.run(main)
print(json.dumps(sorted(sys.modules)))
"""


def run(script, tmp_path):
    return subprocess.run(
        [sys.executable, "-I", "-c", script, str(tmp_path), str(ROOT), str(ROOT / "tests")],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
        timeout=60,
    ).stdout


def test_a_process_that_only_answers_loads_no_vendor_library_and_no_numpy(tmp_path):
    slow = {"openai", "google.genai", "voyageai", "numpy"}
    assert slow.isdisjoint(json.loads(run(ANSWERED, tmp_path)))


def test_a_query_does_not_wait_for_a_library_to_load(tmp_path):
    assert run(FIRST_QUERY, tmp_path) == "still loading\n"


def test_choosing_a_provider_imports_no_vendor_library_and_no_numpy(tmp_path):
    assert HEAVY.isdisjoint(json.loads(run(SCRIPT, tmp_path)))
