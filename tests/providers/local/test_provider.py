"""The provider `local` from the configuration."""

import pytest

from config.settings import LocalSettings
from fakes.gguf import write_embedder
from fakes.onnx_models import write_embedder as write_onnx
from fakes.settings import make_settings
from providers.choosing import provider
from providers.local.embedder import LocalSpec
from providers.local.model import Wishes, longest_text
from providers.local.models import configured_models
from providers.provider_interface import ProviderRequest

ADDRESS = "https://models.example/m.gguf?token=canary-5c1f"


@pytest.fixture
def request_for(tmp_path):
    def make(reference, role="primary", **search):
        local = LocalSettings(model_path=str(reference))
        settings = make_settings(tmp_path, search={"provider": "local", "local": local, **search})
        return ProviderRequest(settings, role)

    return make


def test_a_file_that_is_there_and_one_that_is_not_are_told_apart(request_for, tmp_path):
    there = write_onnx(tmp_path / "m.onnx")
    assert provider("local").assess(request_for(there)).reason == f"The model is {there}."
    missing = provider("local").assess(request_for(tmp_path / "n.onnx"))
    assert missing.usable
    assert missing.reason == missing.lacks == f"The model {tmp_path / 'n.onnx'} is not there."
    remote = provider("local").assess(request_for("hf:org/repo/n.onnx"))
    assert remote.lacks == "The model hf:org/repo/n.onnx is yet to be fetched."
    assert provider("local").assess(request_for(there)).lacks is None


def test_the_query_of_an_address_is_never_shown(request_for, assert_secret, tmp_path):
    request = request_for(ADDRESS)
    embedder = provider("local").create(request)
    seen = (provider("local").assess(request), embedder.fingerprint, embedder.report())
    models = configured_models(request.settings, {})
    spec = LocalSpec(models.reference, embedder.fingerprint.model, tmp_path, Wishes(), {})
    assert_secret("canary-5c1f", also=(seen, spec))
    assert embedder.fingerprint.model == "https://models.example/m.gguf"


def test_dimensions_and_prompts_are_those_of_the_primary_only(request_for, tmp_path):
    path = write_embedder(tmp_path / "m.gguf")
    wishes = {"output_dimensionality": 16, "document_input_type": "passage:"}
    primary = provider("local").create(request_for(path, **wishes))
    assert primary.dimensions == 16
    assert "document 'passage: '" in primary.fingerprint.variant
    fallback = provider("local").create(request_for(path, "fallback", **wishes))
    assert fallback.report().model.dimensions == 32
    assert "document ''" in fallback.fingerprint.variant


def test_models_are_kept_where_the_configuration_or_the_system_says(request_for, tmp_path):
    settings = request_for("m.gguf").settings
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": "relative"}
    kept = configured_models(settings, home).cache_dir
    assert kept == tmp_path / ".cache" / "memory-gateway" / "models"
    xdg = home | {"XDG_CACHE_HOME": str(tmp_path / "xdg")}
    kept = configured_models(settings, xdg).cache_dir
    assert kept == tmp_path / "xdg" / "memory-gateway" / "models"
    local = LocalSettings(model_path="m.gguf", model_cache_dir=tmp_path / "own")
    own = make_settings(tmp_path, search={"local": local})
    assert configured_models(own, home).cache_dir == tmp_path / "own"


def test_what_the_model_reads_is_known_without_loading_it(request_for, tmp_path):
    path = write_embedder(tmp_path / "m.gguf", context=256)
    assert longest_text(request_for(path).settings) == 256
    assert longest_text(request_for(tmp_path / "none.gguf").settings) is None
    path.write_bytes(b"<html>")
    assert longest_text(request_for(path).settings) is None
