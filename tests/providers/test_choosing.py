"""Choosing a provider from the configuration."""

import importlib.util

import anyio.to_thread
import msgspec
import pytest

from config.settings import LocalSettings, Secret
from fakes.onnx_models import write_embedder
from fakes.settings import make_settings, remote
from providers.choosing import choose, open_embeddings
from providers.local.models import SUGGESTED
from providers.local.models.cache import ModelFiles, ModelRecord, place_of

OPENAI = {"OPENAI_API_KEY": Secret("sk-openai-secret")}
GEMINI = {"GEMINI_API_KEY": Secret("AIza-gemini-secret")}
VOYAGE = {"VOYAGE_API_KEY": Secret("pa-voyage-secret")}


@pytest.fixture
def chosen(tmp_path):
    def make(keys=None, **search):
        return choose(make_settings(tmp_path, search=search, environment_keys=keys or {}))

    return make


NOT_INSTALLED = "Local embeddings are not installed (onnxruntime is missing)."


def reasons(choice):
    return {candidate.provider: candidate.reason for candidate in choice.candidates}


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (OPENAI | GEMINI | VOYAGE, "openai"),
        (GEMINI | VOYAGE, "gemini"),
        (VOYAGE, "voyage"),
    ],
)
def test_without_a_provider_the_first_key_in_the_documented_order_decides(chosen, keys, expected):
    choice = chosen(keys)
    assert choice.primary.provider == expected
    assert choice.requested == "auto"
    assert choice.primary.key_source.startswith("environment variable")


def test_with_nothing_at_all_search_goes_by_keywords_and_says_why_for_each_candidate(chosen):
    choice = chosen()
    assert choice.primary is None
    assert "keywords only" in choice.reason
    assert list(reasons(choice)) == ["local", "openai", "gemini", "voyage"]
    assert all(candidate.remedy for candidate in choice.candidates)
    assert "No API key found" in reasons(choice)["gemini"]
    assert "no model is downloaded unless it is asked for" in reasons(choice)["local"]


@pytest.fixture
def without_local(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name in ("llama_cpp", "onnxruntime") else real(name, *rest),
    )


def test_a_local_model_file_is_considered_first(chosen, tmp_path, without_local):
    model = tmp_path / "model.gguf"
    model.write_bytes(b"GGUF")
    local = LocalSettings(model_path=str(model))
    choice = chosen(OPENAI, local=local)
    assert choice.primary.provider == "openai"
    assert (
        "is a GGUF file, which takes llama-cpp-python (llama_cpp is missing)"
        in reasons(choice)["local"]
    )
    assert "scripts/llama-setup" in choice.candidates[0].remedy
    assert "`memory-gateway models suggest`, which needs no compiler" in choice.candidates[0].remedy


def test_with_the_library_a_local_model_file_is_used(chosen, tmp_path):
    model = write_embedder(tmp_path / "model.onnx")
    local = LocalSettings(model_path=str(model))
    choice = chosen(OPENAI, local=local)
    assert choice.primary.provider == "local"
    assert str(model) in choice.reason


@pytest.mark.parametrize("path", ["hf:org/repo/model.gguf", "https://example.com/m.gguf"])
def test_a_model_that_would_have_to_be_downloaded_is_not_chosen_unasked(chosen, path):
    local = LocalSettings(model_path=path)
    choice = chosen(local=local)
    assert "names no file" in reasons(choice)["local"]
    assert 'provider to "local"' in choice.candidates[0].remedy


def test_a_model_file_that_does_not_exist_is_named(chosen):
    local = LocalSettings(model_path="/nowhere/m.gguf")
    assert "/nowhere/m.gguf does not exist" in reasons(chosen(local=local))["local"]


@pytest.fixture
def suggested(tmp_path, monkeypatch):
    """Makes a small model take the place of the suggested one, as if it was downloaded."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    place = place_of(SUGGESTED.repository, cache / "memory-gateway/models")
    place.model.parent.mkdir(parents=True)
    write_embedder(place.model)
    (place.model.parent / "1_Pooling").rename(place.model.parent.parent / "1_Pooling")
    for name, sha256 in {**SUGGESTED.beside, SUGGESTED.repository.file: SUGGESTED.sha256}.items():
        there = place.model.parent.parent / name
        if name in ("tokenizer.json", "config.json"):
            (place.model.parent / name).rename(there)
        record = ModelRecord(
            reference=SUGGESTED.reference, bytes=there.stat().st_size, sha256=sha256
        )
        ModelFiles(there).write_record(record)
    return place


def test_without_a_key_the_suggested_model_is_used_once_it_was_downloaded(
    chosen, suggested, tmp_path
):
    choice = chosen()
    assert (choice.primary.provider, choice.primary.model) == ("local", SUGGESTED.reference)
    assert reasons(choice)["local"] == f"The model is {suggested.model}."
    opened = open_embeddings(make_settings(tmp_path), choice)
    assert opened.fingerprint.model == SUGGESTED.name


def test_a_key_comes_before_the_suggested_model(chosen, suggested):
    assert chosen(VOYAGE).primary.provider == "voyage"


def test_another_file_in_the_place_of_the_suggested_model_is_not_used(chosen, suggested):
    suggested.write_record(ModelRecord(reference=SUGGESTED.reference, sha256="0" * 64))
    choice = chosen()
    assert choice.primary is None
    assert "names no file" in reasons(choice)["local"]


def test_a_configured_model_or_provider_is_never_replaced_by_the_suggested_one(chosen, suggested):
    assert chosen(provider="none").primary is None
    other = LocalSettings(model_path="hf:org/repo/m.gguf")
    assert chosen(local=other).primary is None


def test_the_suggested_model_without_its_engine_leaves_keywords_and_says_what_is_missing(
    chosen, suggested, without_local
):
    choice = chosen()
    assert choice.primary is None
    assert reasons(choice)["local"] == NOT_INSTALLED


@pytest.mark.parametrize(
    ("has_llama", "expected"), [(True, "embeddinggemma"), (False, SUGGESTED.name)]
)
def test_local_without_a_model_is_the_suggested_one_unless_llama_cpp_is_there(
    chosen, monkeypatch, has_llama, expected
):
    """With llama.cpp it is OpenClaw's default, for which llama.cpp was installed."""
    real = importlib.util.find_spec
    found = real("json") if has_llama else None
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: found if name == "llama_cpp" else real(name, *rest),
    )
    assert expected in chosen(provider="local").primary.model


def test_whoever_has_nothing_is_told_of_the_suggestion(chosen):
    assert chosen().remedy == (
        "Set a vendor's key, or `provider`; without a key: `memory-gateway models suggest`."
    )


def test_a_named_provider_is_taken_even_if_another_has_a_key(chosen):
    choice = chosen(OPENAI | VOYAGE, provider="voyage")
    assert choice.primary.provider == "voyage"
    assert list(reasons(choice)) == ["voyage"]


def test_a_named_provider_without_a_key_leaves_keywords_and_never_another_vendor(chosen):
    choice = chosen(OPENAI, provider="gemini")
    assert choice.primary is None
    assert "gemini cannot be used" in choice.reason
    assert choice.fell_back is None


def test_a_named_provider_that_cannot_be_made_is_replaced_by_its_fallback(chosen):
    choice = chosen(OPENAI, provider="gemini", fallback="openai")
    assert choice.primary.provider == "openai"
    assert choice.fell_back.origin == "gemini"
    assert "No API key found" in choice.fell_back.reason
    assert choice.fallback is None


def test_local_falls_back_to_openai(chosen, without_local):
    choice = chosen(OPENAI, provider="local", fallback="openai")
    assert choice.primary.provider == "openai"
    assert choice.fell_back.reason == NOT_INSTALLED


def test_when_neither_can_be_made_both_are_explained(chosen):
    choice = chosen(provider="gemini", fallback="voyage")
    assert choice.primary is None
    assert set(reasons(choice)) == {"gemini", "voyage"}


def test_a_usable_fallback_stands_by(chosen):
    choice = chosen(OPENAI | VOYAGE, provider="openai", fallback="voyage", model="custom")
    assert choice.fallback.provider == "voyage"
    assert choice.primary.model == "custom"
    assert choice.fallback.model == "voyage-4-large"


def test_an_unusable_fallback_is_listed_but_does_not_stand_by(chosen):
    choice = chosen(OPENAI, provider="openai", fallback="voyage")
    assert choice.primary.provider == "openai"
    assert choice.fallback is None
    assert "No API key found" in reasons(choice)["voyage"]


def test_a_fallback_to_itself_is_none(chosen):
    choice = chosen(OPENAI, provider="openai", fallback="openai")
    assert choice.fallback is None
    assert len(choice.candidates) == 1


def test_a_fallback_stands_by_for_an_automatic_choice_too(chosen):
    assert chosen(OPENAI | VOYAGE, fallback="voyage").fallback.provider == "voyage"


def test_none_is_keywords_only_on_purpose(chosen, tmp_path):
    choice = chosen(OPENAI, provider="none", fallback="openai")
    assert choice.primary is None
    assert choice.candidates == ()
    assert open_embeddings(make_settings(tmp_path), choice) is None


def test_an_unusable_address_is_a_reason_not_a_crash(chosen):
    choice = chosen(OPENAI, provider="openai", remote=remote("nonsense"))
    assert "not an http or https address" in reasons(choice)["openai"]


def test_a_model_is_handed_to_whichever_provider_wins(chosen):
    assert chosen(VOYAGE, model="voyage/voyage-3.5").primary.model == "voyage-3.5"


def test_no_secret_is_in_a_choice(chosen):
    choice = chosen(
        OPENAI | VOYAGE, provider="openai", fallback="voyage", remote=remote(None, "sk-remote-x")
    )
    assert "secret" not in repr(choice)
    assert "sk-remote-x" not in repr(choice)


@pytest.mark.anyio
async def test_what_is_opened_knows_its_place_and_what_was_learned_before(tmp_path):
    settings = make_settings(
        tmp_path,
        search={"provider": "openai", "fallback": "voyage"},
        environment_keys=OPENAI | VOYAGE,
    )
    choice = choose(settings)
    first = open_embeddings(settings, choice)
    learned = {first.fingerprint.digest(): {"items": {"accepted": 10, "refused": 11}}}
    again = await anyio.to_thread.run_sync(
        lambda: open_embeddings(settings, choice, learned=learned)
    )
    state = again.state()
    assert state.primary.provider == "openai"
    assert state.fallback.provider == "voyage"
    assert state.primary.learned_limits == {"items": {"accepted": 10, "refused": 11}}
    assert state.fallback.learned_limits == {}
    assert again.fingerprint.digest() in learned
    assert b"secret" not in msgspec.json.encode(state)
    await first.aclose()
    await again.aclose()
