"""The ids of the chat gateway's providers: those that speak OpenAI's wire format, their addresses and keys."""

import json

import anyio
import pytest

from config.paths import auth_profile_paths
from config.settings import ModelProviderSettings, Secret, SettingOrigin
from config.vendors import KEY_VARIABLES, OPENAI, VENDORS
from fakes.settings import make_settings, remote
from fakes.vendors import FakeVendor
from providers.choosing import choose, open_embeddings, open_predecessor, provider
from providers.provider_interface import ProviderRequest

pytestmark = pytest.mark.anyio

KEYS = {name: Secret(f"key-of-{name}") for name in KEY_VARIABLES}
IDS = [name for name, row in VENDORS.items() if row.wire == OPENAI]
"""All ids of this wire; what each is to be stands in the tests."""


def entry(base_url=None, key=None, api=None, problem=None, **headers):
    return ModelProviderSettings(
        api=api,
        base_url=base_url,
        api_key=Secret(key) if key else None,
        api_key_problem=problem,
        headers=headers,
    )


@pytest.fixture
def settings_for(tmp_path):
    def make(name, entries=None, **changes):
        search = {"provider": name, **changes.pop("search", {})}
        return make_settings(tmp_path, search=search, model_providers=entries or {}, **changes)

    return make


@pytest.fixture
def assess(settings_for):
    def make(name, entries=None, role="primary", **changes):
        request = ProviderRequest(settings_for(name, entries, **changes), role)
        return provider(name).assess(request)

    return make


async def embed(settings, name, role="primary"):
    embedder = provider(name).create(ProviderRequest(settings, role))
    try:
        return embedder, await embedder.embed_query("tea")
    finally:
        await embedder.aclose()


@pytest.mark.parametrize(
    ("name", "url", "model", "source"),
    [
        ("mistral", "https://api.mistral.ai/v1", "mistral-embed", "MISTRAL_API_KEY"),
        (
            "deepinfra",
            "https://api.deepinfra.com/v1/openai",
            "BAAI/bge-m3",
            "DEEPINFRA_API_KEY",
        ),
        ("ollama", "http://127.0.0.1:11434/v1", "nomic-embed-text", None),
        (
            "lmstudio",
            "http://localhost:1234/v1",
            "text-embedding-nomic-embed-text-v1.5",
            "LM_API_TOKEN",
        ),
    ],
)
def test_the_defaults_of_an_id_are_those_of_the_chat_gateway(assess, name, url, model, source):
    assert name in IDS
    found = assess(name, environment_keys=KEYS)
    assert (found.usable, found.endpoint, found.model) == (True, url, model)
    assert found.key_source == (source and f"environment variable {source}")


@pytest.mark.parametrize("name", [name for name in IDS if VENDORS[name].model])
async def test_each_id_is_asked_over_openais_wire_with_the_key_of_its_own_entry(settings_for, name):
    with FakeVendor(name) as host:
        settings = settings_for(name, {name: entry(host.base_url, host.key)}, environment_keys=KEYS)
        embedder, vector = await embed(settings, name)
    assert len(vector) == host.dimensions
    (seen,) = host.requests
    assert seen.headers["authorization"] == f"Bearer {host.key}"
    assert (embedder.fingerprint.provider, embedder.fingerprint.endpoint) == (name, host.base_url)


@pytest.mark.parametrize(
    ("name", "api"),
    [
        ("openai-compatible", None),
        ("gpu-box", "openai-completions"),
        ("gpu-box", "openai-responses"),
        ("GPU-Box", None),
    ],
)
async def test_a_server_of_the_users_own_takes_model_key_and_headers_from_its_entry(
    settings_for, name, api
):
    with FakeVendor("openai", models=("bge",)) as host:
        settings = settings_for(
            name.lower(),
            {name: entry(host.base_url, host.key, api, x_team="a")},
            environment_keys=KEYS,
            search={"model": f"{name.lower()}/bge"},
        )
        embedder, _ = await embed(settings, name.lower())
    (seen,) = host.requests
    assert (seen.headers["authorization"], seen.headers["x_team"]) == (f"Bearer {host.key}", "a")
    assert (embedder.fingerprint.provider, embedder.fingerprint.model) == (name.lower(), "bge")


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/"])
@pytest.mark.parametrize(("name", "api"), [("ollama", None), ("ollama-5080", "ollama")])
async def test_ollama_is_found_with_and_without_v1_in_its_address(settings_for, path, name, api):
    with FakeVendor("ollama") as host:
        settings = settings_for(name, {name: entry(host.origin + path, api=api)})
        embedder, _ = await embed(settings, name)
    assert host.requests[0].path == "/v1/embeddings"
    assert embedder.fingerprint.endpoint == f"{host.origin}/v1"


@pytest.mark.parametrize("path", ["", "/v1", "/api/v1"])
async def test_lm_studio_is_found_by_every_address_that_the_chat_gateway_takes(settings_for, path):
    with FakeVendor("lmstudio") as host:
        settings = settings_for("lmstudio", search={"remote": remote(host.origin + path)})
        await embed(settings, "lmstudio")
    assert host.requests[0].path == "/v1/embeddings"


@pytest.mark.parametrize("name", [*IDS, "gpu-box"])
def test_a_server_on_this_machine_needs_no_key(assess, name):
    url = "http://127.0.0.1:9/v1"
    found = assess(name, {name: entry(url)}, search={"model": "m"})
    assert (found.usable, found.key_source) == (True, None)
    assert found.reason == "It is used without a key."


def test_unasked_nothing_is_chosen_for_standing_on_this_machine(settings_for):
    entries = {"openai": entry("http://127.0.0.1:9/v1"), "ollama": entry("http://127.0.0.1:9")}
    choice = choose(settings_for("auto", entries))
    assert choice.primary is None
    assert [one.provider for one in choice.candidates] == ["local", "openai", "gemini", "voyage"]


@pytest.mark.parametrize("name", ["openai", "mistral", "deepinfra"])
def test_a_vendor_on_the_network_needs_one_and_says_where_it_may_stand(assess, name):
    found = assess(name)
    assert not found.usable
    assert f'No API key found for provider "{name}"' in found.reason
    assert f"{name.upper()}_API_KEY" in found.remedy


@pytest.mark.parametrize("name", ["openai-compatible", "gpu-box", "ollama", "lmstudio"])
async def test_no_key_of_a_vendor_and_no_entry_of_another_id_goes_to_a_users_server(
    settings_for, name
):
    with FakeVendor("ollama", models=("m",)) as host:
        entries = {
            "openai": entry(key="sk-of-openai"),
            "mistral": entry("https://mistral.example/v1", "sk-of-mistral"),
            name: entry(host.base_url),
        }
        keys = {one: secret for one, secret in KEYS.items() if one != "LM_API_TOKEN"}
        settings = settings_for(name, entries, environment_keys=keys, search={"model": "m"})
        await embed(settings, name)
    assert "authorization" not in host.requests[0].headers


def test_the_key_of_ollamas_cloud_goes_there_and_nowhere_else(assess, settings_for, tmp_path):
    cloud = {"ollama": entry("https://ollama.com")}
    assert assess("ollama", cloud, environment_keys=KEYS).key_source.endswith("OLLAMA_API_KEY")
    for url in ("http://10.0.0.7:11434", "https://ollama.example", None):
        found = assess("ollama", {"ollama": entry(url)}, environment_keys=KEYS)
        assert (found.usable, found.key_source) == (True, None)
    (path, *_) = auth_profile_paths(tmp_path, tmp_path)
    path.parent.mkdir(parents=True, exist_ok=True)
    profile = {"type": "api_key", "provider": "ollama", "key": "cloud"}
    path.write_text(json.dumps({"profiles": {"ollama:default": profile}}), encoding="utf-8")
    assert assess("ollama").key_source is None
    assert assess("ollama", cloud).key_source == "auth profile ollama:default"


def test_an_entrys_key_stays_with_the_entrys_address(assess):
    entries = {"gpu-box": entry("https://gpu.example/v1", "sk-gpu", x_api_key="hidden")}
    at_home = assess("gpu-box", entries, search={"model": "m"})
    assert at_home.key_source == "models.providers.gpu-box.apiKey"
    elsewhere = {"model": "m", "remote": remote("https://other.example/v1")}
    assert assess("gpu-box", entries, search=elsewhere).key_source is None
    entries["mistral"] = entry("https://gpu.example/v1", "sk-gpu")
    found = assess("mistral", entries, search=elsewhere)
    assert "belongs to gpu.example and is not sent to other.example" in found.reason


def test_a_configured_key_that_cannot_be_read_is_never_left_out_in_silence(assess):
    problem = "refers to the environment variable GPU_KEY, which is not set"
    entries = {"gpu-box": entry("http://127.0.0.1:9/v1", problem=problem)}
    found = assess("gpu-box", entries, search={"model": "m"})
    assert not found.usable
    assert "models.providers.gpu-box.apiKey is configured and cannot be read" in found.reason


def test_a_key_that_is_the_name_of_the_ids_variable_means_that_variable(assess):
    entries = {"mistral": entry(key="MISTRAL_API_KEY")}
    found = assess("mistral", entries)
    assert not found.usable
    assert "environment variable MISTRAL_API_KEY (named by models.providers" in found.reason


def test_a_key_that_http_cannot_carry_is_not_left_out_in_silence(assess):
    search = {"model": "m", "remote": remote("http://127.0.0.1:9/v1", "sk-\u200bhidden")}
    found = assess("openai-compatible", search=search)
    assert not found.usable
    assert "remote.apiKey: it holds characters that HTTP forbids" in found.reason


def with_profile(root, **profile):
    (path, *_) = auth_profile_paths(root, root)
    path.parent.mkdir(parents=True, exist_ok=True)
    profile = {"type": "api_key", "provider": "gpu-box", "key": "sk-saved", **profile}
    path.write_text(json.dumps({"profiles": {"gpu-box:default": profile}}), encoding="utf-8")


async def test_an_entrys_key_may_be_the_name_of_an_auth_profile(settings_for, tmp_path):
    with_profile(tmp_path)
    with FakeVendor("openai", key="sk-saved", models=("m",)) as host:
        entries = {"gpu-box": entry(host.base_url, "gpu-box:default")}
        await embed(settings_for("gpu-box", entries, search={"model": "m"}), "gpu-box")
    assert host.requests[0].answered == 200


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        ({"provider": "openai"}, 'it is one of "openai"'),
        ({"type": "token", "token": "t", "expires": 5}, "it has expired"),
        ({"key": ""}, "it holds no key"),
    ],
)
def test_a_profile_that_is_named_and_cannot_serve_is_said(assess, tmp_path, profile, reason):
    with_profile(tmp_path, **profile)
    entries = {"gpu-box": entry("http://127.0.0.1:9/v1", "gpu-box:default")}
    found = assess("gpu-box", entries, search={"model": "m"})
    assert not found.usable
    assert f'it names the auth profile "gpu-box:default", and {reason}' in found.reason


@pytest.mark.parametrize("name", ["openai-compatible", "gpu-box"])
def test_where_no_model_is_known_the_key_to_set_is_named(assess, name):
    found = assess(name, {name: entry("http://127.0.0.1:9/v1")})
    assert not found.usable
    assert found.reason == f"No model is named for {name}, which has no default of its own."
    assert "Set model" in found.remedy


def test_where_no_address_is_known_the_keys_to_set_are_named(assess):
    found = assess("openai-compatible", search={"model": "m"})
    assert found.reason == "openai-compatible has no address."
    assert "remote.baseUrl or models.providers.openai-compatible.baseUrl" in found.remedy
    fallback = assess(
        "openai-compatible",
        role="fallback",
        search={"model": "m", "remote": remote("http://127.0.0.1:9/v1", "sk")},
    )
    assert "a fallback does not take remote" in fallback.remedy


PLACE = {
    "provider": SettingOrigin(kind="file", detail="memory.search.provider, line 4"),
    "models.providers.claude.api": SettingOrigin(
        kind="file", detail="models.providers.claude.api, line 9"
    ),
}


@pytest.mark.parametrize(
    ("name", "cause", "remedy"),
    [
        ("bedrock", "Amazon Bedrock has a wire", ", ".join(VENDORS)),
        ("github-copilot", "GitHub Copilot is reached by a login", "openai-completions"),
        ("some-plugin", "No provider of this id is known here", "openai-completions"),
        ("google", "No provider of this id is known here", 'Write "gemini"'),
        (
            "claude",
            'models.providers.claude.api, line 9 is "anthropic-messages", a wire that has no',
            "openai-completions",
        ),
        ("hollow", "models.providers.hollow has neither an api nor a baseUrl", "lmstudio"),
    ],
)
def test_an_id_that_cannot_serve_leaves_keywords_with_place_cause_and_remedy(
    settings_for, name, cause, remedy
):
    entries = {
        "claude": entry("https://api.anthropic.com", "sk", "anthropic-messages"),
        "hollow": entry(key="sk"),
        "github-copilot": entry("https://api.githubcopilot.com", "sk", "openai-responses"),
    }
    choice = choose(settings_for(name, entries, origins=PLACE, environment_keys=KEYS))
    assert choice.primary is None
    assert f"{name} cannot be used: {cause}" in choice.reason
    assert f'(memory.search.provider, line 4: "{name}")' in choice.reason
    assert remedy in choice.remedy


@pytest.mark.parametrize("name", ["bedrock", "some-plugin", "auto", "openai-compatible"])
def test_a_fallback_that_cannot_serve_is_listed_and_does_not_stand_by(settings_for, name):
    search = {"fallback": name, "remote": remote("http://127.0.0.1:9/v1", "sk")}
    choice = choose(settings_for("openai", search=search))
    assert (choice.primary.provider, choice.fallback) == ("openai", None)
    assert choice.candidates[-1].provider == name
    assert choice.candidates[-1].remedy


async def test_a_fallback_of_the_users_own_takes_nothing_but_the_name_of_the_model(settings_for):
    with FakeVendor("ollama", models=("bge",)) as host:
        settings = settings_for(
            "bedrock",
            {"gpu-box": entry(host.base_url, api="openai-completions")},
            environment_keys=KEYS,
            search={
                "fallback": "gpu-box",
                "model": "bge",
                "output_dimensionality": 8,
                "remote": remote("https://elsewhere.example/v1", "sk-primary", x_team="primary"),
            },
        )
        choice = choose(settings)
        assert (choice.primary.provider, choice.fell_back.origin) == ("gpu-box", "bedrock")
        embeddings = open_embeddings(settings, choice)
        with anyio.fail_after(60):
            found = await embeddings.embed_query("tea", deadline_s=60)
        await embeddings.aclose()
    assert found.fingerprint.provider == "gpu-box"
    (seen,) = host.requests
    assert {"authorization", "x-team"}.isdisjoint(seen.headers)
    assert "dimensions" not in seen.body


def test_every_id_and_every_server_has_vectors_of_its_own(settings_for):
    def mark(name, url="http://127.0.0.1:9/v1"):
        settings = settings_for(name, {name: entry(url, "k")}, search={"model": "m"})
        made = provider(name).create(ProviderRequest(settings, "primary"))
        return made.fingerprint.digest()

    marks = [mark(name) for name in (*IDS, "box")] + [mark("box", "http://127.0.0.1:8/v1")]
    assert len(set(marks)) == len(marks)


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("openai", "3f89c605e38a9620"),
        ("gemini", "b94a70aa6ffc4638"),
        ("voyage", "c8f40d3ce11a40f1"),
    ],
)
def test_what_was_embedded_before_stays_valid(settings_for, name, digest):
    settings = settings_for(name, search={"remote": remote(None, "k")})
    made = provider(name).create(ProviderRequest(settings, "primary"))
    assert made.fingerprint.digest().hex()[:16] == digest


async def test_the_model_before_goes_on_reading_queries_while_its_entry_is_there(settings_for):
    entries = {"gpu-box": entry("http://127.0.0.1:9/v1")}
    settings = settings_for("gpu-box", entries, search={"model": "old"})
    before = provider("gpu-box").create(ProviderRequest(settings, "primary")).fingerprint
    now = settings_for("gpu-box", entries, search={"model": "new"})
    service = open_predecessor(now, choose(now), before)
    assert service.fingerprint == before
    await service.aclose()
    without = settings_for("openai")
    assert open_predecessor(without, choose(without), before) is None


async def test_the_model_before_is_found_again_when_no_model_is_named_any_more(settings_for):
    entries = {"gpu-box": entry("http://127.0.0.1:9/v1")}
    settings = settings_for("gpu-box", entries, search={"model": "old"})
    before = provider("gpu-box").create(ProviderRequest(settings, "primary")).fingerprint
    now = settings_for("openai", entries, environment_keys=KEYS)
    service = open_predecessor(now, choose(now), before)
    assert service.fingerprint == before
    await service.aclose()


async def test_the_key_of_the_provider_that_is_chosen_unasked_is_not_sent_to_the_one_before(
    settings_for,
):
    with FakeVendor("gemini") as host:
        entries = {"google": entry(host.base_url, host.key)}
        settings = settings_for("gemini", entries)
        before = provider("gemini").create(ProviderRequest(settings, "primary")).fingerprint
        now = settings_for("auto", entries, search={"remote": remote(None, "sk-of-openai")})
        choice = choose(now)
        assert choice.primary.provider == "openai"
        service = open_predecessor(now, choice, before)
        await service.embed_query("tea", deadline_s=60)
        await service.aclose()
    (seen,) = host.requests
    assert seen.headers["x-goog-api-key"] == host.key
