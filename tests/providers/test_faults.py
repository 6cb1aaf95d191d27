"""All ways in which a host misbehaves: the result, the number of requests, and the recovery.

Sockets and the vendors' own libraries are real; only waiting between attempts takes no time.
"""

from __future__ import annotations

import logging
import socket
import ssl
import subprocess
import threading
from urllib.parse import urlsplit

import anyio
import httpx2
import pytest

from config.errors import ErrorKind
from config.vendors import VENDORS
from fakes.faults import (
    Fault,
    fault,
    gemini_quota,
    openai_quota,
    rate_limited,
    status,
    voyage_quota,
)
from fakes.hopeless import TEXTS, fails
from fakes.settings import make_settings, remote
from fakes.vendors import FakeVendor
from providers import provider_interface, proxies
from providers.remote.http_client import typed_errors
from providers.remote.spec import resolve_spec
from providers.resilience import SINGLE

pytestmark = pytest.mark.anyio

QUOTA = {"openai": openai_quota(), "gemini": gemini_quota("Day"), "voyage": voyage_quota()}
IMPATIENT = {"timeout_s": 1.0}


async def recovers(host, service, clock, collected):
    """Checks that the host has recovered: after the cooldown everything is embedded, in one request."""
    host.heal()
    clock.advance(4000)
    asked = len(host.requests)
    await service.embed_documents(TEXTS, on_batch=collected)
    assert sorted(collected.vectors) == [0, 1, 2]
    assert len(host.requests) == asked + 1
    assert service.state().status == "ready"


@pytest.mark.parametrize(
    ("fault_", "kind", "asked"),
    [
        (status(401), provider_interface.ProviderAuthError, 1),
        (status(403), provider_interface.ProviderAuthError, 1),
        (status(404), provider_interface.ProviderUnavailableError, 1),
        (status(402), provider_interface.ProviderQuotaError, 1),
        (status(500), provider_interface.ProviderTransientError, 4),
        (status(503), provider_interface.ProviderTransientError, 4),
        (status(503, retry_after="7"), provider_interface.ProviderTransientError, 4),
        (status(429, retry_after="3600"), provider_interface.ProviderRateLimitError, 1),
        (fault("reset"), provider_interface.ProviderTransientError, 4),
        (fault("invalid-json"), provider_interface.ProviderBadResponseError, 4),
        (fault("html"), provider_interface.ProviderBadResponseError, 4),
        (
            status(200, {"error": {"message": "odd"}}),
            provider_interface.ProviderBadResponseError,
            4,
        ),
        (
            status(200, {"data": [], "embeddings": []}),
            provider_interface.ProviderBadResponseError,
            4,
        ),
    ],
    ids=lambda value: f"{value.kind}-{value.status}" if isinstance(value, Fault) else "",
)
async def test_a_failing_host(
    host, service_for, collected, clock, assert_secret, fault_, kind, asked
):
    service = service_for(host)
    host.misbehave(fault_)
    error = await fails(service, collected)
    cause = getattr(error, "cause", error)
    assert type(cause) is kind
    assert len(host.requests) == asked
    assert "127.0.0.1" in cause.message
    assert_secret(host.key, error=error, also=(service.state(), collected.items))
    assert_secret(*TEXTS, error=error, level=logging.INFO)
    await recovers(host, service, clock, collected)


async def test_a_used_up_account_is_not_asked_again(host, service_for, collected, clock):
    service = service_for(host)
    host.misbehave(QUOTA[host.vendor])
    error = await fails(service, collected)
    assert type(error) is provider_interface.ProviderQuotaError
    assert "keywords" in error.remedy
    with pytest.raises(provider_interface.CircuitOpenError):
        await service.embed_documents(TEXTS, on_batch=collected)
    assert len(host.requests) == 1
    await recovers(host, service, clock, collected)


@pytest.mark.parametrize("kind", ["hang", "drip"])
@pytest.mark.promises_seconds
async def test_a_host_that_does_not_come_to_an_end(
    host, service_for, collected, clock, options, kind
):
    service = service_for(host, options=options(**IMPATIENT))
    host.misbehave(fault(kind))
    error = await fails(service, collected)
    assert type(error) is provider_interface.ProviderTimeoutError
    # Once with all three texts, twice with the first alone, in case the size was the reason.
    assert [len(seen.texts) for seen in host.requests] == [3, 1, 1]
    host.heal()
    await service.embed_documents(TEXTS, on_batch=collected)
    assert sorted(collected.vectors) == [0, 1, 2]


async def test_a_rate_limit_is_waited_out_as_long_as_the_host_asks(
    host, service_for, collected, clock
):
    service = service_for(host)
    host.misbehave(rate_limited("7"), times=3)
    await service.embed_documents(TEXTS, on_batch=collected)
    assert sorted(collected.vectors) == [0, 1, 2]
    assert len(host.requests) == 4
    assert clock.sleeps == [7.0] * 3
    assert service.state().statistics.retries == 3


async def test_a_rate_limit_without_a_wish_is_backed_off_from(host, service_for, collected, clock):
    service = service_for(host)
    host.misbehave(rate_limited(), times=3)
    await service.embed_documents(TEXTS, on_batch=collected)
    assert clock.sleeps == [0.5, 1.0, 2.0]


async def test_geminis_minutely_quota_is_waited_out(service_for, collected, clock):
    with FakeVendor("gemini") as host:
        host.misbehave(gemini_quota("Minute", "37s"), times=1)
        await service_for(host).embed_documents(TEXTS, on_batch=collected)
    assert clock.sleeps == [37.0]
    assert sorted(collected.vectors) == [0, 1, 2]


async def test_a_rate_limit_that_never_ends_is_given_up(host, service_for, collected):
    service = service_for(host)
    host.misbehave(rate_limited())
    error = await fails(service, collected)
    assert type(error) is provider_interface.ProviderRateLimitError
    assert [len(seen.texts) for seen in host.requests] == [3] * 6 + [1] * 6
    assert service.state().status == "ready"


async def test_a_short_answer_loses_no_text_silently(host, service_for, collected):
    host.misbehave(fault("short"), times=1)
    service = service_for(host)
    await service.embed_documents(TEXTS, on_batch=collected)
    assert len(host.requests) == 1
    # Gemini's rows have no index, so the missing text cannot be known.
    assert sorted(collected.errors) == ([0, 1, 2] if host.vendor == "gemini" else [2])
    assert "no vector" in collected.errors[2].message


@pytest.mark.parametrize("vendor", ["openai", "voyage"])
async def test_a_row_that_is_no_embedding_is_an_error_of_its_text(vendor, service_for, collected):
    rows = [{"index": at, "embedding": raw} for at, raw in enumerate(([1.0, 2.0], 3, [2.0, 1.0]))]
    with FakeVendor(vendor) as host:
        host.misbehave(status(200, {"data": rows, "usage": {"total_tokens": 3}}))
        await service_for(host).embed_documents(TEXTS, on_batch=collected)
    assert sorted(collected.errors) == [1]


@pytest.mark.parametrize("kind", ["wrong-dimension", "nan", "zero"])
@pytest.mark.parametrize("position", [0, 1])
async def test_a_spoilt_vector_is_an_error_of_its_text(
    host, service_for, collected, kind, position
):
    host.misbehave(fault(kind, position))
    service = service_for(host)
    await service.embed_documents(TEXTS, on_batch=collected)
    assert sorted(collected.errors) == [position]
    assert collected.errors[position].kind is ErrorKind.PROVIDER_BAD_RESPONSE
    assert len(host.requests) == 1
    assert service.state().statistics.item_errors == 1
    assert service.dimensions == 64


async def test_a_host_that_changes_its_dimensions_is_found_out(openai_host, service_for, collected):
    service = service_for(openai_host)
    await service.embed_query("first")
    openai_host.dimensions = 32
    await service.embed_documents(TEXTS, on_batch=collected)
    assert sorted(collected.errors) == [0, 1, 2]
    assert "32 dimensions instead of 64" in collected.errors[0].message


@pytest.fixture
async def expecting(embedder_for, openai_host):
    """An embedder of a host whose stored vectors have 64 dimensions."""
    embedder = embedder_for(openai_host)
    embedder.expect(64)
    yield embedder
    await embedder.aclose()


async def test_one_odd_answer_after_a_start_is_not_taken_for_another_model(openai_host, expecting):
    openai_host.misbehave(fault("wrong-dimension"), times=1)
    (item,) = (await expecting.embed_documents(["boiler"])).items
    assert "65 dimensions instead of 64" in item.message
    assert expecting.dimensions == 64
    (item,) = (await expecting.embed_documents(["boiler"])).items
    assert len(item) == 64


async def test_a_host_that_insists_on_another_length_has_another_model(
    openai_host, expecting, monkeypatch
):
    monkeypatch.setattr("providers.remote.embedder._TIME_TO_BELIEVE_S", 0.0)
    openai_host.dimensions = 32
    for _ in range(2):
        with pytest.raises(
            provider_interface.ProviderBadResponseError, match="32 dimensions instead of 64"
        ):
            await expecting.embed_query("boiler")
    assert len(await expecting.embed_query("boiler")) == 32
    assert expecting.dimensions == 32


async def test_a_host_that_is_ill_for_a_while_is_not_taken_for_another_model(
    openai_host, expecting
):
    openai_host.misbehave(fault("wrong-dimension"))
    for _ in range(10):
        with pytest.raises(
            provider_interface.ProviderBadResponseError, match="65 dimensions instead of 64"
        ):
            await expecting.embed_query("boiler")
    openai_host.heal()
    assert len(await expecting.embed_query("boiler")) == 64


async def test_an_endless_answer_is_cut_off(openai_host, service_for, collected, options):
    service = service_for(openai_host, options=options(retry=SINGLE, timeout_s=60.0))
    openai_host.misbehave(fault("huge"))
    error = await fails(service, collected)
    assert "64 MiB" in error.message


@pytest.mark.parametrize("vendor", ["openai", "gemini", "voyage"])
async def test_a_host_that_is_not_there_is_transient(vendor, service_for, collected, clock):
    with FakeVendor(vendor) as gone:
        service = service_for(gone)
    error = await fails(service, collected)
    assert type(error) is provider_interface.ProviderTransientError
    assert "cannot be reached" in error.message
    assert error.remedy == "Start it on this machine, or check the port in its address."
    assert len(clock.sleeps) == 3


@pytest.fixture
def untrusted(tmp_path):
    """A certificate that no authority has signed."""
    command = ["openssl", "req", "-x509", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1"]
    command += ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    command += ["-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "certificate.pem")]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "certificate.pem", tmp_path / "key.pem")
    return context


@pytest.mark.parametrize("vendor", ["openai", "gemini", "voyage"])
async def test_a_certificate_that_is_not_trusted_is_final(
    vendor, service_for, collected, untrusted
):
    with FakeVendor(vendor, tls=untrusted) as host:
        service = service_for(host)
        error = await fails(service, collected)
        assert type(error) is provider_interface.ProviderUnavailableError
        assert "certificate" in error.message
        assert "SSL_CERT_FILE" in error.remedy
        assert not host.requests
        assert service.state().statistics.requests == 1


async def test_a_host_that_cannot_be_connected_to_in_time_is_slow(tmp_path):
    settings = make_settings(tmp_path, search={"remote": remote("https://host.example/v1", "key")})
    spec = resolve_spec(settings, VENDORS["openai"], "primary")
    with pytest.raises(provider_interface.ProviderTimeoutError), typed_errors(spec):
        raise httpx2.ConnectTimeout("text of the library")


async def test_what_is_meant_for_this_machine_passes_no_proxy(
    host, service_for, collected, monkeypatch
):
    with FakeVendor("openai") as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.origin)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        await service_for(host).embed_documents(TEXTS, on_batch=collected)
        assert proxy.requests == []
    assert sorted(collected.vectors) == [0, 1, 2]


@pytest.mark.parametrize(
    "spelling",
    [
        "0.0.0.0",
        "localhost.",
        "127.1",
        "0x7f.1",
        "2130706433",
        "127.0.0.1.",
        "[::ffff:127.0.0.1]",
        "a.name",
    ],
)
async def test_this_machine_is_known_by_what_its_name_resolves_to(
    spelling, host, service_for, collected, monkeypatch
):
    asked = []

    def resolve(name, *_args, **_options):
        asked.append(name)
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", urlsplit(host.origin).port))
        ]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    base_url = host.base_url.replace(urlsplit(host.origin).hostname, spelling)
    with FakeVendor("openai") as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.origin)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        await service_for(host, remote=remote(base_url, host.key)).embed_documents(
            TEXTS, on_batch=collected
        )
        assert proxy.requests == []
    assert sorted(collected.vectors) == [0, 1, 2]


async def test_what_is_not_this_machine_goes_through_the_proxy_unless_no_proxy_names_it(
    monkeypatch,
):
    monkeypatch.setattr(socket, "getaddrinfo", _unknown)
    with FakeVendor("openai") as proxy, FakeVendor("openai") as other:
        monkeypatch.setenv("http_proxy", proxy.origin)
        async with proxies.open_client() as client:
            await client.get("http://beyond.example/v1/models")
            assert len(proxy.requests) == 1
        monkeypatch.setenv("no_proxy", "beyond.example")
        async with proxies.open_client() as client:
            with pytest.raises(httpx2.ConnectError):
                await client.get("http://beyond.example/v1/models")
        assert (len(proxy.requests), other.requests) == (1, [])


@pytest.mark.parametrize(
    ("proxy", "words"),
    [
        ("socks5://me:secret@127.0.0.1:1", "takes a library"),
        ("socks://127.0.0.1:1", "none of an HTTP proxy"),
        ("http://me:secret:x", "none of an HTTP proxy"),
    ],
)
async def test_a_proxy_that_cannot_be_used_is_said_and_no_matter_of_this_machine(
    proxy, words, host, service_for, collected, monkeypatch
):
    monkeypatch.setattr(socket, "getaddrinfo", _unknown)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("all_proxy", proxy)
    async with proxies.open_client() as client:
        with pytest.raises(provider_interface.ProviderUnavailableError, match=words) as caught:
            await client.get("http://beyond.example/v1/models")
    assert "secret" not in str(caught.value)
    assert "ALL_PROXY" in caught.value.remedy
    await service_for(host).embed_documents(TEXTS, on_batch=collected)
    assert sorted(collected.vectors) == [0, 1, 2]


@pytest.mark.parametrize("content", [None, b"no certificate"])
def test_certificates_that_cannot_be_read_are_named(content, tmp_path, monkeypatch):
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    proxies.certificates.cache_clear()
    with pytest.raises(
        provider_interface.ProviderUnavailableError, match=r"ca\.pem \(SSL_CERT_FILE"
    ):
        proxies.open_client()


async def test_certificates_that_cannot_be_read_are_no_matter_of_this_machine(
    tmp_path, host, service_for, collected, monkeypatch
):
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "absent.pem"))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    proxies.certificates.cache_clear()
    await service_for(host).embed_documents(TEXTS, on_batch=collected)
    assert sorted(collected.vectors) == [0, 1, 2]


async def test_a_name_server_that_hangs_holds_nothing_up(monkeypatch):
    released = threading.Event()

    def hang(*_args, **_options):
        released.wait(30)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    try:
        with FakeVendor("openai") as proxy:
            monkeypatch.setenv("http_proxy", proxy.origin)
            async with proxies.open_client() as client:
                with anyio.fail_after(20):
                    await client.get("http://beyond.example/v1/models")
            assert len(proxy.requests) == 1
    finally:
        released.set()


def _unknown(name, *_args, **_options):
    if name == "127.0.0.1":
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (name, _args[0] if _args else 0))]
    raise socket.gaierror(socket.EAI_NONAME, "unknown")


async def test_a_wrong_key_is_refused_once_and_never_shown(
    host, service_for, collected, assert_secret
):
    service = service_for(host, key="zz-wrong-key-424242")
    error = await fails(service, collected)
    assert type(error) is provider_interface.ProviderAuthError
    assert "remote.apiKey" in error.remedy
    assert len(host.requests) == 1
    assert_secret("zz-wrong-key-424242", error=error, also=service.state())
