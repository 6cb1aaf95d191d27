"""Hosts that redirect: followed where it is safe, refused where the key and texts would go to another host."""

from __future__ import annotations

import pytest

from fakes.faults import redirect
from fakes.hopeless import TEXTS, fails
from fakes.vendors import FakeVendor
from providers import provider_interface

pytestmark = pytest.mark.anyio


async def test_a_redirect_elsewhere_is_refused_before_anything_is_sent(
    host, service_for, collected, assert_secret
):
    with FakeVendor(host.vendor, key=host.key) as other:
        service = service_for(host)
        host.misbehave(redirect(f"{other.base_url}/embeddings"))
        error = await fails(service, collected)
        assert type(error) is provider_interface.ProviderRedirectError
        assert other.origin.removeprefix("http://") in error.message
        assert "remote.baseUrl" in error.remedy
        assert not other.requests
        assert len(host.requests) == 1
    assert_secret(host.key, error=error, also=service.state())


@pytest.mark.parametrize("code", [301, 302, 303])
async def test_a_redirect_that_would_turn_the_request_into_another_is_refused(
    openai_host, service_for, collected, code
):
    service = service_for(openai_host)
    openai_host.misbehave(redirect("/v1/embeddings", code))
    assert type(await fails(service, collected)) is provider_interface.ProviderRedirectError
    assert len(openai_host.requests) == 1


async def test_a_redirect_on_the_same_host_is_followed(host, service_for, collected):
    service = service_for(host)
    path = "/v1/embeddings"
    if host.vendor == "gemini":
        path = "/v1beta/models/gemini-embedding-001:batchEmbedContents"
    host.misbehave(redirect(path), times=1)
    await service.embed_documents(TEXTS, on_batch=collected)
    assert sorted(collected.vectors) == [0, 1, 2]


async def test_a_redirect_in_a_circle_ends(openai_host, service_for, collected):
    service = service_for(openai_host)
    openai_host.misbehave(redirect("/v1/embeddings"))
    assert type(await fails(service, collected)) is provider_interface.ProviderRedirectError
    assert len(openai_host.requests) == 4
