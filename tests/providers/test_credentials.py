"""The key that wins, where it may be sent, and the headers sent with it."""

import pytest

from config.settings import ModelProviderSettings, Secret
from config.vendors import VENDORS
from fakes.each import each
from providers.endpoints import Endpoint
from providers.provider_interface import ProviderAuthError, ProviderUnavailableError
from providers.remote.credentials import (
    KeySources,
    Profile,
    ProfileStore,
    find_key,
    is_secret,
    merge,
    without_secrets,
)

OPENAI, GEMINI = VENDORS["openai"], VENDORS["gemini"]


def sources(vendor=OPENAI, base_url=None, **changes):
    endpoint = Endpoint.parse(base_url or vendor.base_url)
    return KeySources(vendor=vendor, endpoint=endpoint, **changes)


def profile(id_="openai:work", value="sk-profile", **changes):
    secret = Secret(value) if value else None
    fields = {"provider": "openai", "type": "api_key", "secret": secret, **changes}
    return Profile(id=id_, **fields)


def store(*profiles):
    return ProfileStore(profiles={one.id: one for one in profiles})


def settings(key="sk-models", base_url=None):
    return ModelProviderSettings(api_key=Secret(key) if key else None, base_url=base_url)


ALL = {
    "remote_key": Secret("sk-remote"),
    "profiles": store(profile()),
    "variables": {"OPENAI_API_KEY": Secret("sk-env")},
    "provider": settings(),
}


@each(
    ("without", "key", "source"),
    [
        ((), "sk-remote", "remote.apiKey"),
        (("remote_key",), "sk-profile", "auth profile openai:work"),
        (("remote_key", "profiles"), "sk-env", "environment variable OPENAI_API_KEY"),
        (
            ("remote_key", "profiles", "variables"),
            "sk-models",
            "models.providers.openai.apiKey",
        ),
    ],
)
def test_sources_are_asked_in_the_documented_order(without, key, source):
    left = {name: value for name, value in ALL.items() if name not in without}
    found = find_key(sources(**left))
    assert (found.secret.reveal(), found.source) == (key, source)


def test_without_any_key_every_source_is_named_with_its_reason():
    with pytest.raises(ProviderAuthError) as caught:
        find_key(sources(profiles=store(profile(value=None))))
    text = str(caught.value)
    assert text.startswith('No API key found for provider "openai".')
    for part in (
        "remote.apiKey: not set",
        "auth profile openai:work: it holds no key",
        "environment variable OPENAI_API_KEY: not set",
        "models.providers.openai.apiKey: not set",
        "Set OPENAI_API_KEY",
    ):
        assert part in text


def test_a_blank_key_is_no_key_and_line_ends_are_trimmed():
    found = find_key(
        sources(remote_key=Secret("  \n"), variables={"OPENAI_API_KEY": Secret(" sk-env\r\n")})
    )
    assert found.secret.reveal() == "sk-env"


def test_a_key_that_http_cannot_carry_is_passed_over_without_being_shown():
    with pytest.raises(ProviderAuthError) as caught:
        find_key(sources(remote_key=Secret("sk-\u200bhidden")))
    assert "characters that HTTP forbids" in str(caught.value)
    assert "hidden" not in str(caught.value)


def test_expired_and_oauth_profiles_are_passed_over():
    found = find_key(
        sources(
            profiles=store(
                profile("a", type="oauth", value=None),
                profile("b", type="token", expires_ms=5),
                profile("c"),
            ),
            now_ms=10,
        )
    )
    assert found.source == "auth profile c"


def test_a_codex_login_is_said_plainly_to_serve_no_embeddings():
    login = profile("openai-codex:me", provider="openai-codex", type="oauth", value=None)
    with pytest.raises(ProviderAuthError) as caught:
        find_key(sources(profiles=store(login)))
    assert "Codex OAuth login, but it gives no access to embeddings" in str(caught.value)


def test_an_unreadable_profiles_file_is_a_reason():
    broken = ProfileStore(problems=("auth-profiles.json cannot be read: it is not valid JSON",))
    with pytest.raises(ProviderAuthError, match="cannot be read"):
        find_key(sources(profiles=broken))


@pytest.mark.parametrize("variable", ["GOOGLE_API_KEY", "GEMINI_API_KEY"])
def test_gemini_takes_the_name_of_a_variable_for_its_value(variable):
    found = find_key(
        sources(GEMINI, remote_key=Secret(variable), variables={variable: Secret("AIza-x")})
    )
    assert found.secret.reveal() == "AIza-x"
    assert variable in found.source
    assert "remote.apiKey" in found.source


def test_the_name_of_an_unset_variable_is_not_sent_as_a_key():
    with pytest.raises(ProviderAuthError, match="GOOGLE_API_KEY"):
        find_key(sources(GEMINI, remote_key=Secret("GOOGLE_API_KEY")))


def test_for_other_vendors_a_placeholder_is_a_key_like_any_other():
    found = find_key(sources(remote_key=Secret("GEMINI_API_KEY")))
    assert found.secret.reveal() == "GEMINI_API_KEY"


FOREIGN = "https://embeddings.example.com/v1"


def test_the_remote_key_goes_wherever_remote_base_url_points():
    found = find_key(sources(base_url=FOREIGN, remote_key=Secret("sk-remote")))
    assert found.secret.reveal() == "sk-remote"


@each(
    "changes",
    [
        {"variables": {"OPENAI_API_KEY": Secret("sk-env")}},
        {"profiles": store(profile())},
        {"provider": settings()},
        {"provider": settings(base_url="https://other.example.com/v1")},
    ],
)
def test_a_vendors_key_is_not_sent_to_a_foreign_public_host(changes):
    with pytest.raises(ProviderAuthError) as caught:
        find_key(sources(base_url=FOREIGN, **changes))
    assert "is not sent to embeddings.example.com" in str(caught.value)
    assert "set remote.apiKey" in str(caught.value)


@pytest.mark.parametrize("base_url", ["http://127.0.0.1:4000/v1", "http://localhost/v1"])
def test_a_vendors_key_may_go_to_a_proxy_on_this_machine(base_url):
    found = find_key(sources(base_url=base_url, variables={"OPENAI_API_KEY": Secret("sk-env")}))
    assert found.secret.reveal() == "sk-env"


def test_a_vendors_key_may_go_where_models_providers_says_the_vendor_is():
    found = find_key(
        sources(
            base_url=FOREIGN,
            provider=settings(None, FOREIGN),
            variables={"OPENAI_API_KEY": Secret("sk-env")},
        )
    )
    assert found.secret.reveal() == "sk-env"


def test_the_key_of_models_providers_belongs_to_its_own_base_url_only():
    provider = settings(base_url="https://other.example.com/v1")
    with pytest.raises(ProviderAuthError):
        find_key(sources(provider=provider))
    assert find_key(sources(base_url="https://other.example.com/v1", provider=provider))


def test_where_models_providers_has_a_key_for_the_address_no_other_key_of_the_vendor_goes_there():
    url = "http://127.0.0.1:4000/v1"
    own = {"base_url": url, "provider": settings(base_url=url), "profiles": store(profile())}
    found = find_key(sources(variables={"OPENAI_API_KEY": Secret("sk-env")}, **own))
    assert found.source == "models.providers.openai.apiKey"


def test_a_source_that_may_not_serve_does_not_hide_one_that_may():
    found = find_key(
        sources(
            base_url=FOREIGN,
            variables={"OPENAI_API_KEY": Secret("sk-env")},
            provider=settings(base_url=FOREIGN),
        )
    )
    assert found.source == "models.providers.openai.apiKey"


def test_no_key_shows_in_a_repr():
    text = repr(sources(**ALL)) + repr(find_key(sources(**ALL)))
    assert "sk-" not in text


def test_a_configured_key_that_cannot_be_read_is_never_replaced_by_another():
    left = {name: value for name, value in ALL.items() if name != "remote_key"}
    with pytest.raises(ProviderAuthError, match=r"remote\.apiKey is configured and cannot be read"):
        find_key(sources(remote_problem="the variable MY_KEY is not set", **left))


def test_the_key_of_the_models_block_must_be_readable_when_its_turn_comes():
    unreadable = ModelProviderSettings(api_key_problem="the variable MY_KEY is not set")
    with pytest.raises(ProviderAuthError, match=r"models\.providers\.openai\.apiKey is configured"):
        find_key(sources(provider=unreadable))
    variables = {"OPENAI_API_KEY": Secret("sk-env")}
    found = find_key(sources(provider=unreadable, variables=variables))
    assert found.secret.reveal() == "sk-env"


def test_later_headers_win_whatever_their_case():
    merged = merge({"Authorization": "Bearer a", "X-Team": "one"}, {"authorization": "Bearer b"})
    assert merged == {"authorization": "Bearer b", "x-team": "one"}


def test_headers_that_frame_the_body_are_left_out():
    assert merge({"Content-Length": "3", "Transfer-Encoding": "x", "A": "b"}) == {"a": "b"}


@each("headers", [{"bad name": "x"}, {"": "x"}, {"x": "a\r\nEvil: yes"}, {"x": "snow ☃"}])
def test_a_header_that_http_cannot_carry_is_named_but_its_value_is_not(headers):
    with pytest.raises(ProviderUnavailableError) as caught:
        merge(headers)
    assert "Evil" not in str(caught.value)
    assert "remote.headers" in caught.value.remedy


@each("name", ["Authorization", "x-goog-api-key", "API-Key", "Cookie", "X-Token"])
def test_names_of_credentials_are_known(name):
    assert is_secret(name)
    assert without_secrets({name: "x", "x-region": "eu"}) == {"x-region": "eu"}
