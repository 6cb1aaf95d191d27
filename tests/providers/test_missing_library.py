"""What is said when a vendor's library is not installed."""

import sys

import pytest

from config.settings import Secret
from fakes.settings import make_settings
from providers.choosing import choose
from providers.installing import install_remedy
from providers.provider_errors import ProviderUnavailableError

KEYS = {
    "OPENAI_API_KEY": Secret("sk-x"),
    "GEMINI_API_KEY": Secret("AIza-x"),
    "VOYAGE_API_KEY": Secret("pa-x"),
}
LIBRARIES = [("openai", "openai"), ("gemini", "google.genai"), ("voyage", "voyageai")]


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


@pytest.mark.parametrize(("vendor", "module"), LIBRARIES)
def test_choosing_names_the_command_that_installs_it(tmp_path, hide, vendor, module):
    hide(module)
    settings = make_settings(tmp_path, search={"provider": vendor}, environment_keys=KEYS)
    (candidate,) = choose(settings).candidates
    assert not candidate.usable
    assert f"needs the library {module}, which is not installed" in candidate.reason
    assert candidate.remedy == install_remedy(vendor)


def test_an_automatic_choice_goes_on_to_a_vendor_whose_library_is_there(tmp_path, hide):
    hide("openai")
    choice = choose(make_settings(tmp_path, environment_keys=KEYS))
    assert choice.primary.provider == "gemini"


def test_keys_whose_library_is_missing_are_named_where_nothing_else_answers(tmp_path, hide):
    for _, module in LIBRARIES:
        hide(module)
    choice = choose(make_settings(tmp_path, environment_keys=KEYS))
    assert choice.primary is None
    assert [one.provider for one in choice.keys_in_vain] == ["openai", "gemini", "voyage"]
    assert "OPENAI_API_KEY" in choice.keys_in_vain[0].key_source


def test_without_keys_there_is_none_in_vain(tmp_path, hide):
    hide("openai")
    assert choose(make_settings(tmp_path, environment_keys={})).keys_in_vain == ()


@pytest.mark.anyio
async def test_a_library_that_goes_missing_later_is_a_typed_error(
    embedder_for, openai_host, hide, monkeypatch
):
    embedder = embedder_for(openai_host)
    monkeypatch.delitem(sys.modules, "providers.remote.openai", raising=False)
    hide("openai")
    with pytest.raises(ProviderUnavailableError) as caught:
        await embedder.embed_documents(["a note"])
    assert "pip install 'numpy>=2.2' 'openai>=" in caught.value.remedy


@pytest.mark.anyio
async def test_so_is_what_a_query_needs(embedder_for, openai_host, hide, monkeypatch):
    embedder = embedder_for(openai_host)
    for name in ("query_wire", "http_client"):
        monkeypatch.delitem(sys.modules, f"providers.remote.{name}", raising=False)
    hide("httpx2")
    with pytest.raises(ProviderUnavailableError) as caught:
        await embedder.embed_query("q")
    assert "needs the library httpx2" in caught.value.message
