"""The messages when a library that vendors need is not installed."""

import sys

import pytest

from config.settings import Secret
from fakes.settings import make_settings
from providers.batch import find_batch
from providers.choosing import choose
from providers.installing import install_remedy
from providers.provider_interface import ProviderUnavailableError

KEYS = {
    "OPENAI_API_KEY": Secret("sk-x"),
    "GEMINI_API_KEY": Secret("AIza-x"),
    "VOYAGE_API_KEY": Secret("pa-x"),
}


class Without:
    """An import finder in front of all others that hides one module."""

    def __init__(self, module):
        self.module = module

    def find_spec(self, name, path=None, target=None):
        if name == self.module:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.fixture
def hide(monkeypatch):
    def make(module):
        for name in [name for name in sys.modules if name.split(".")[:2] == module.split(".")[:2]]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setattr(sys, "meta_path", [Without(module), *sys.meta_path])

    return make


@pytest.mark.parametrize("module", ["httpx2", "numpy"])
@pytest.mark.parametrize("vendor", ["openai", "gemini", "voyage"])
def test_choosing_names_the_command_that_installs_it(tmp_path, hide, vendor, module):
    hide(module)
    settings = make_settings(tmp_path, search={"provider": vendor}, environment_keys=KEYS)
    (candidate,) = choose(settings).candidates
    assert not candidate.usable
    assert f"needs the library {module}, which is not installed" in candidate.reason
    assert candidate.remedy == install_remedy(vendor)


def test_keys_whose_library_is_missing_are_named_where_nothing_else_answers(tmp_path, hide):
    hide("httpx2")
    choice = choose(make_settings(tmp_path, environment_keys=KEYS))
    assert choice.primary is None
    assert [one.provider for one in choice.keys_in_vain] == ["openai", "gemini", "voyage"]
    assert "OPENAI_API_KEY" in choice.keys_in_vain[0].key_source
    assert "although there is a key for openai (" in choice.reason
    assert "needs the library httpx2" in choice.reason
    assert choice.remedy == install_remedy("openai")


def test_without_keys_there_is_none_in_vain(tmp_path, hide):
    hide("httpx2")
    assert choose(make_settings(tmp_path, environment_keys={})).keys_in_vain == ()


@pytest.mark.anyio
@pytest.mark.parametrize("purpose", ["query", "document"])
async def test_a_library_that_goes_missing_later_is_a_typed_error(
    purpose, embedder_for, openai_host, hide, monkeypatch
):
    embedder = embedder_for(openai_host)
    for name in ("wires", "http_client"):
        monkeypatch.delitem(sys.modules, f"providers.remote.{name}", raising=False)
    hide("httpx2")
    with pytest.raises(ProviderUnavailableError) as caught:
        await (embedder.embed_query("q") if purpose == "query" else embedder.embed_documents(["d"]))
    assert "needs the library httpx2" in caught.value.message
    assert "pip install 'httpx2>=2.12' 'numpy>=" in caught.value.remedy


def test_where_the_library_of_batch_jobs_is_missing_texts_go_in_requests(tmp_path, hide):
    hide("google.genai")
    settings = make_settings(tmp_path, search={"provider": "gemini"}, environment_keys=KEYS)
    choice = choose(settings)
    assert choice.primary.provider == "gemini"
    assert "needs the library google.genai, which is not installed" in find_batch(settings, choice)
