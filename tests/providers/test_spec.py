"""Putting one remote provider together from the settings."""

import json

import pytest

from config.paths import auth_profile_paths
from config.settings import ModelProviderSettings, Secret
from config.vendors import VENDORS
from fakes.settings import make_settings, remote
from providers.provider_interface import ProviderAuthError, ProviderUnavailableError
from providers.remote.spec import resolve_spec


@pytest.fixture
def resolve(tmp_path):
    def make(vendor="openai", role="primary", **changes):
        settings = make_settings(tmp_path, **changes)
        return resolve_spec(settings, VENDORS[vendor], role)

    return make


KEYS = {
    "OPENAI_API_KEY": Secret("sk-env"),
    "GEMINI_API_KEY": Secret("AIza-env"),
    "VOYAGE_API_KEY": Secret("pa-env"),
}
LOCAL = "http://127.0.0.1:4000/v1"


@pytest.mark.parametrize(
    ("vendor", "url", "model"),
    [
        ("openai", "https://api.openai.com/v1", "text-embedding-3-small"),
        (
            "gemini",
            "https://generativelanguage.googleapis.com/v1beta",
            "gemini-embedding-001",
        ),
        ("voyage", "https://api.voyageai.com/v1", "voyage-4-large"),
    ],
)
def test_with_nothing_but_a_key_the_documented_defaults_hold(resolve, vendor, url, model):
    spec = resolve(vendor, environment_keys=KEYS)
    assert (spec.endpoint.base_url, spec.model, spec.official) == (url, model, True)
    assert spec.dimensions is None


@pytest.mark.parametrize(
    ("vendor", "model", "bare"),
    [
        ("openai", "openai/text-embedding-3-large", "text-embedding-3-large"),
        ("openai", "nomic/embed", "nomic/embed"),
        ("gemini", "models/gemini-embedding-001", "gemini-embedding-001"),
        ("gemini", "models/google/gemini-embedding-2", "gemini-embedding-2"),
        ("gemini", "gemini/gemini-embedding-001", "gemini-embedding-001"),
        ("voyage", "voyage/voyage-3.5", "voyage-3.5"),
        ("voyage", "", "voyage-4-large"),
        ("voyage", "  ", "voyage-4-large"),
    ],
)
def test_a_models_prefix_is_stripped(resolve, vendor, model, bare):
    assert resolve(vendor, environment_keys=KEYS, search={"model": model}).model == bare


def test_remote_base_url_wins_over_that_of_models_providers(resolve):
    providers = {"openai": ModelProviderSettings(base_url="http://127.0.0.1:1/v1")}
    spec = resolve(environment_keys=KEYS, model_providers=providers)
    assert spec.endpoint.base_url == "http://127.0.0.1:1/v1"
    search = {"remote": remote(LOCAL + "/")}
    spec = resolve(environment_keys=KEYS, model_providers=providers, search=search)
    assert spec.endpoint.base_url == LOCAL


def test_gemini_is_configured_under_the_name_google_and_cut_at_openai(resolve):
    url = "http://127.0.0.1:1/v1beta/openai/"
    spec = resolve(
        "gemini",
        model_providers={"google": ModelProviderSettings(base_url=url, api_key=Secret("AIza"))},
    )
    assert spec.endpoint.base_url == "http://127.0.0.1:1/v1beta"
    assert spec.key_source == "models.providers.google.apiKey"


def test_headers_merge_without_regard_to_case_and_remote_wins(resolve):
    provider = ModelProviderSettings(headers={"X-Team": "models", "X-Region": "eu"})
    spec = resolve(
        environment_keys=KEYS,
        model_providers={"openai": provider},
        search={"remote": remote(LOCAL, x_team="remote", AUTHORIZATION="Bearer other")},
    )
    assert spec.outgoing == {
        "authorization": "Bearer other",
        "x-region": "eu",
        "x-team": "remote",
    }


@pytest.mark.parametrize(
    ("vendor", "header", "value"),
    [
        ("openai", "authorization", "Bearer sk-env"),
        ("gemini", "x-goog-api-key", "AIza-env"),
        ("voyage", "authorization", "Bearer pa-env"),
    ],
)
def test_each_vendor_has_its_own_header_for_the_key(resolve, vendor, header, value):
    assert resolve(vendor, environment_keys=KEYS).outgoing == {header: value}


def test_a_configured_auth_header_stands_in_for_a_key(resolve):
    spec = resolve(search={"remote": remote(LOCAL, authorization="Bearer own")})
    assert spec.credential is None
    assert spec.outgoing == {"authorization": "Bearer own"}
    assert spec.key_source == "a configured header"
    assert "own" in spec.secrets


def test_secret_headers_of_models_providers_stay_at_home(resolve):
    provider = ModelProviderSettings(headers={"Api-Key": "hidden", "X-Region": "eu"})
    spec = resolve(
        model_providers={"openai": provider},
        search={"remote": remote("https://foreign.example.com/v1", "sk-remote")},
    )
    assert spec.outgoing == {"authorization": "Bearer sk-remote", "x-region": "eu"}


def test_a_fallback_inherits_nothing_of_the_primary(resolve):
    spec = resolve(
        "voyage",
        "fallback",
        environment_keys=KEYS,
        search={
            "remote": remote(LOCAL, "sk-primary", x_team="primary"),
            "model": "text-embedding-3-large",
            "output_dimensionality": 256,
            "query_input_type": "q",
            "document_input_type": "d",
        },
    )
    assert spec.endpoint.base_url == "https://api.voyageai.com/v1"
    assert spec.model == "voyage-4-large"
    assert spec.outgoing == {"authorization": "Bearer pa-env"}
    assert spec.dimensions is None
    assert (spec.input_type("query"), spec.input_type("document")) == ("query", "document")


def test_a_fallback_without_a_key_of_its_own_has_none(resolve):
    with pytest.raises(ProviderAuthError):
        resolve("voyage", "fallback", search={"remote": remote(None, "sk-primary")})


def test_profiles_come_from_the_main_agent_and_the_agents_own_file(tmp_path):
    settings = make_settings(tmp_path, agent="writer")
    main, own = auth_profile_paths(settings.state_dir, settings.agent_dir)
    for path, key in ((main, "sk-main"), (own, "sk-own")):
        path.parent.mkdir(parents=True)
        profile = {"type": "api_key", "provider": "openai", "key": key}
        path.write_text(json.dumps({"profiles": {"openai:default": profile}}), encoding="utf-8")
    assert resolve_spec(settings, VENDORS["openai"], "primary").outgoing == {
        "authorization": "Bearer sk-own"
    }
    own.unlink()
    assert resolve_spec(settings, VENDORS["openai"], "primary").outgoing == {
        "authorization": "Bearer sk-main"
    }


def test_an_address_that_cannot_be_used_is_an_error(resolve):
    with pytest.raises(ProviderUnavailableError):
        resolve(environment_keys=KEYS, search={"remote": remote("nonsense")})


def test_limits_are_documented_ones_at_home_and_cautious_ones_elsewhere(resolve):
    home = resolve(environment_keys=KEYS).limits
    elsewhere = resolve(environment_keys=KEYS, search={"remote": remote(LOCAL)}).limits
    assert home.max_items == 2048
    assert elsewhere.max_items < home.max_items
    assert resolve("gemini", environment_keys=KEYS).limits.max_items == 100
    assert resolve("gemini", environment_keys=KEYS).limits.max_input_tokens == 2048
    voyage = resolve("voyage", environment_keys=KEYS, search={"model": "voyage-4-lite"}).limits
    assert (voyage.max_items, voyage.max_input_tokens) == (1000, 32_000)
    assert voyage.max_request_tokens > 800_000
    old = resolve(environment_keys=KEYS, search={"model": "text-embedding-ada-002"}).limits
    assert old.max_input_tokens == 8191


def test_no_secret_shows_in_a_repr(resolve):
    spec = resolve(
        search={"remote": remote(LOCAL, "sk-remote-hidden", x_api_token="header-hidden")}
    )
    assert "hidden" not in repr(spec)
    assert {"sk-remote-hidden", "header-hidden"} <= set(spec.secrets)


def test_an_address_that_cannot_be_read_is_not_replaced_by_the_vendors_own(resolve):
    unreadable = ModelProviderSettings(base_url_problem="its baseUrl cannot be read")
    with pytest.raises(ProviderUnavailableError, match="cannot be read") as caught:
        resolve(environment_keys=KEYS, model_providers={"openai": unreadable})
    assert "models.providers.openai.baseUrl" in caught.value.remedy
    search = {"remote": remote(LOCAL, "sk-local")}  # a readable one before it is another matter
    spec = resolve(search=search, model_providers={"openai": unreadable})
    assert spec.endpoint.base_url == LOCAL
