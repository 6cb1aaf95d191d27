"""The requests to each vendor's host and the reading of its answers, over real sockets."""

import numpy as np
import pytest

from config.settings import ModelProviderSettings, Secret
from config.vendors import GEMINI, OPENAI, VENDORS, VOYAGE
from fakes.each import each
from fakes.faults import fault
from fakes.settings import make_settings, remote
from fakes.vendors import FakeVendor
from fakes.wire import embedding
from providers.choosing import provider
from providers.endpoints import Endpoint
from providers.provider_interface import ItemError, ProviderRequest
from providers.remote.credentials import Credential
from providers.remote.spec import RemoteSpec
from providers.remote.wires import Wire

pytestmark = pytest.mark.anyio

TEXTS = ["alpha beta", "gamma", "delta epsilon"]


def expected(texts, dimensions=64):
    return [np.array(embedding(text, dimensions)) / 3.0 for text in texts]


@pytest.fixture
async def embedder(host, embedder_for):
    made = embedder_for(host)
    yield made
    await made.aclose()


async def test_documents_come_back_in_order_as_unit_vectors(host, embedder):
    batch = await embedder.embed_documents(TEXTS)
    for item, wanted in zip(batch.items, expected(TEXTS), strict=True):
        assert item.typecode == "f"
        np.testing.assert_allclose(item, wanted, atol=1e-6)
    assert len(host.requests) == 1
    assert embedder.dimensions == 64
    assert batch.tokens == (0 if host.vendor == "gemini" else 9)


async def test_a_query_comes_back_as_one_unit_vector(embedder):
    vector = await embedder.embed_query("alpha beta")
    np.testing.assert_allclose(vector, expected(["alpha beta"])[0], atol=1e-6)


HEADERS_OF_A_REQUEST = {"content-type", "authorization", "x-goog-api-key", "x-team"}


@pytest.mark.parametrize(
    "search",
    [
        {},
        {"output_dimensionality": 16},
        {"query_input_type": "ask"},
        {"output_dimensionality": 16, "query_input_type": "ask", "document_input_type": "keep"},
    ],
)
@pytest.mark.parametrize(
    ("vendor", "model"),
    [
        ("openai", "text-embedding-3-small"),
        ("gemini", "gemini-embedding-001"),
        ("gemini", "gemini-embedding-2"),
        ("voyage", "voyage-4-large"),
    ],
)
@pytest.mark.parametrize("official", [False, True])
@pytest.mark.parametrize("purpose", ["query", "document"])
async def test_texts_are_sent_as_the_vendors_library_sends_them(
    vendor, model, search, official, purpose, embedder_for, monkeypatch
):
    from fakes.vendor_libraries import send  # they take seconds to import

    monkeypatch.setattr(RemoteSpec, "official", official)
    with FakeVendor(vendor, models=(model,)) as host:
        block = remote(host.base_url, host.key, x_team="ours")
        made = embedder_for(host, model=model, remote=block, **search)
        texts = ["Where is \u201cthe key\u201d \U0001f511\n?"] + ["of a note"] * (
            purpose == "document"
        )
        wire = Wire(made._spec)
        await wire.send(texts, purpose)
        await wire.aclose()
        await send(made._spec, texts, purpose)
        ours, library = host.requests
    assert (ours.method, ours.path, ours.body) == (library.method, library.path, library.body)
    for name in HEADERS_OF_A_REQUEST:
        assert ours.headers.get(name) == library.headers.get(name), name
    assert set(ours.headers) <= set(library.headers) | {"content-length"}


BODIES = {
    "openai": {
        "document": {"model": "text-embedding-3-small", "input": ["a", "b"]},
        "query": {"model": "text-embedding-3-small", "input": ["q"]},
    },
    "voyage": {
        "document": {"model": "voyage-4-large", "input": ["a", "b"], "input_type": "document"},
        "query": {"model": "voyage-4-large", "input": ["q"], "input_type": "query"},
    },
    "gemini": {
        purpose: {
            "requests": [
                {
                    "model": "models/gemini-embedding-001",
                    "content": {"parts": [{"text": text}]},
                    "taskType": f"RETRIEVAL_{purpose.upper()}",
                }
                for text in texts
            ]
        }
        for purpose, texts in (("document", ["a", "b"]), ("query", ["q"]))
    },
}


async def test_bodies_hold_what_is_documented_and_nothing_else(host, embedder):
    await embedder.embed_documents(["a", "b"])
    await embedder.embed_query("q")
    for seen, purpose in zip(host.requests, ("document", "query"), strict=True):
        body = {name: value for name, value in seen.body.items() if name != "encoding_format"}
        assert body == BODIES[host.vendor][purpose]


async def test_only_transport_headers_and_the_credential_are_sent(host, embedder, monkeypatch):
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(name, "from-the-environment")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Leak: from-the-environment")
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    await embedder.embed_query("q")
    (seen,) = host.requests
    transport = {"host", "connection", "content-length", "content-type", "accept"}
    transport |= {"accept-encoding", "user-agent"}
    secret = "x-goog-api-key" if host.vendor == "gemini" else "authorization"
    assert set(seen.headers) - transport == {secret}
    assert "from-the-environment" not in str(seen.headers)


async def test_configured_headers_are_merged_and_remote_wins(host, tmp_path):
    vendor = VENDORS[host.vendor]
    models = ModelProviderSettings(headers={"X-Team": "models", "X-Region": "eu"})
    settings = make_settings(
        tmp_path,
        search={"remote": remote(host.base_url, host.key, x_team="remote")},
        model_providers={vendor.config_key: models},
    )
    made = provider(host.vendor).create(ProviderRequest(settings, "primary"))
    await made.embed_query("q")
    await made.aclose()
    headers = host.requests[0].headers
    assert (headers["x-team"], headers["x-region"]) == ("remote", "eu")


async def test_a_configured_auth_header_replaces_the_key_and_is_sent_once(host, embedder_for):
    name = "X-Goog-Api-Key" if host.vendor == "gemini" else "AUTHORIZATION"
    value = host.key if host.vendor == "gemini" else f"Bearer {host.key}"
    block = remote(host.base_url, "wrong-key-000", **{name.replace("-", "_"): value})
    made = embedder_for(host, remote=block)
    await made.embed_query("q")
    await made.aclose()
    assert host.requests[0].answered == 200


async def test_output_dimensions_are_asked_for_only_when_configured(host, embedder_for):
    made = embedder_for(host, output_dimensionality=16)
    assert made.dimensions == 16
    assert len(await made.embed_query("q")) == 16
    await made.aclose()
    name = {
        "openai": "dimensions",
        "gemini": "outputDimensionality",
        "voyage": "output_dimension",
    }[host.vendor]
    body = host.requests[0].body
    assert body.get("requests", [body])[0][name] == 16


async def test_configured_input_types_are_sent(host, embedder_for):
    made = embedder_for(host, query_input_type="ask", document_input_type="keep")
    await made.embed_query("q")
    await made.embed_documents(["d"])
    await made.aclose()
    name = "taskType" if host.vendor == "gemini" else "input_type"
    bodies = [seen.body.get("requests", [seen.body])[0] for seen in host.requests]
    assert [body[name] for body in bodies] == ["ask", "keep"]
    assert made.fingerprint.input_type == "keep"


async def test_a_later_gemini_model_gets_prompts_and_one_vector_for_each_text(embedder_for):
    with FakeVendor("gemini", models=("gemini-embedding-2",)) as host:
        made = embedder_for(host, model="google/gemini-embedding-2")
        batch = await made.embed_documents(["one", "two"])
        await made.embed_query("three")
        await made.aclose()
    assert len(batch.items) == 2
    assert host.embedded() == [
        "title: none | text: one",
        "title: none | text: two",
        "task: search result | query: three",
    ]
    assert made.fingerprint.variant == ("title: none | text: ",)


@pytest.mark.parametrize("encoding", ["base64", "float"])
async def test_either_encoding_is_understood_whatever_was_asked(encoding, host, embedder_for):
    host.encoding = encoding
    made = embedder_for(host)
    batch = await made.embed_documents(TEXTS)
    await made.aclose()
    np.testing.assert_allclose(np.array(batch.items), expected(TEXTS), atol=1e-6)


async def test_compatible_hosts_are_asked_for_floats_and_the_vendors_own_for_base64(openai_host):
    class Official(RemoteSpec):
        official = True

    for kind, asked in ((RemoteSpec, "float"), (Official, "base64")):
        spec = kind(
            vendor=VENDORS["openai"],
            endpoint=Endpoint.parse(openai_host.base_url),
            model="text-embedding-3-small",
            credential=Credential(Secret(openai_host.key), "a test"),
        )
        wire = Wire(spec)
        await wire.send(["a"], "document")
        await wire.aclose()
        assert openai_host.requests[-1].body["encoding_format"] == asked


@pytest.mark.parametrize("vendor", ["openai", "voyage"])
async def test_reordered_rows_are_put_in_order(vendor, embedder_for):
    with FakeVendor(vendor) as host:
        host.misbehave(fault("reordered"))
        made = embedder_for(host)
        batch = await made.embed_documents(TEXTS)
        await made.aclose()
    np.testing.assert_allclose(np.array(batch.items), expected(TEXTS), atol=1e-6)


async def test_a_lone_surrogate_does_not_spoil_the_request(host, embedder):
    batch = await embedder.embed_documents(["broken \ud83d emoji", "whole 😀"])
    assert not any(isinstance(item, ItemError) for item in batch.items)
    assert host.embedded() == ["broken \ufffd emoji", "whole 😀"]


async def test_the_fingerprint_tells_endpoint_model_and_plain_headers_but_no_secrets(
    host, embedder_for
):
    def mark(**headers):
        block = remote(host.base_url, headers.pop("key", "k" * 20), **headers)
        return embedder_for(host, remote=block).fingerprint

    base = mark()
    assert base.endpoint == host.base_url
    assert mark(key="another-key-9999") == base
    assert mark(x_api_key="zzz-secret") == base
    assert mark(x_region="eu") != base


def spec_of(wire, model, query_type=None):
    vendor = next(one for one in VENDORS.values() if one.wire is wire)
    endpoint = Endpoint.parse("https://example.test/v1")
    return RemoteSpec(vendor, endpoint, model, credential=None, query_type=query_type)


@each(
    ("wire", "model", "query", "document"),
    [
        (OPENAI, "text-embedding-3-small", None, None),
        (GEMINI, "gemini-embedding-001", "RETRIEVAL_QUERY", "RETRIEVAL_DOCUMENT"),
        (GEMINI, "text-embedding-004", "RETRIEVAL_QUERY", "RETRIEVAL_DOCUMENT"),
        (VOYAGE, "voyage-4-large", "query", "document"),
    ],
)
def test_each_vendor_has_its_own_types(wire, model, query, document):
    assert spec_of(wire, model).input_type("query") == query
    assert spec_of(wire, model).input_type("document") == document
    assert spec_of(wire, model, "mine").input_type("query") == "mine"
    assert spec_of(wire, model).prompt("query") == ""


@pytest.mark.parametrize("model", ["gemini-embedding-2", "gemini-embedding-2-preview"])
def test_later_gemini_models_want_the_task_in_the_text(model):
    assert spec_of(GEMINI, model).input_type("document") is None
    assert spec_of(GEMINI, model).prompt("document") == "title: none | text: "
    assert spec_of(GEMINI, model).prompt("query") == "task: search result | query: "
    checking = spec_of(GEMINI, model, "fact checking")
    assert checking.prompt("query") == "task: fact checking | query: "
