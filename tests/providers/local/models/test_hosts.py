"""The hosts that see the token, and the treatment of each refusal."""

from __future__ import annotations

import logging
import socket

import pytest

from config.settings import Secret
from fakes.each import each
from providers.local.models.references import (
    Hub,
    ModelAccessError,
    ModelHostError,
    ModelNotFoundError,
    ModelReferenceError,
)
from providers.provider_interface import ProviderRateLimitError, ProviderTransientError

pytestmark = pytest.mark.anyio

TOKEN = "hf_0123456789abcdef"


def hub_at(endpoint, token=TOKEN):
    return Hub.of({"HF_ENDPOINT": endpoint, "HF_TOKEN": token})


async def test_the_token_goes_to_the_hub_and_not_to_where_it_redirects(fetch, hub, data):
    hub.token = TOKEN
    assert (await fetch(HF_TOKEN=f" {TOKEN}\n")).read_bytes() == data
    assert [(seen.host, seen.headers.get("authorization")) for seen in hub.requests] == [
        ("127.0.0.1", f"Bearer {TOKEN}"),
        ("localhost", None),
    ]


async def test_the_token_does_not_go_to_an_address_at_another_host(fetch, hub):
    await fetch(f"http://localhost:{hub.port}/org/repo/resolve/main/m.gguf", HF_TOKEN=TOKEN)
    assert TOKEN not in str(hub.requests)


@each(
    ("endpoint", "url", "sent"),
    [
        ("https://huggingface.co", "https://huggingface.co/a", True),
        ("https://huggingface.co", "https://huggingface.co:443/a", True),
        ("https://huggingface.co", "http://huggingface.co/a", False),
        ("https://huggingface.co", "https://cdn.huggingface.co/a", False),
        ("https://huggingface.co", "https://huggingface.co.example.com/a", False),
        ("http://mirror.example.com", "http://mirror.example.com/a", False),
        ("http://192.168.0.2:8080", "http://192.168.0.2:8080/a", True),
    ],
)
def test_the_token_belongs_to_one_origin_and_never_goes_in_clear(endpoint, url, sent):
    assert hub_at(endpoint).token_for(url) == (Secret(TOKEN) if sent else None)


def test_nothing_set_means_the_public_hub_without_a_token():
    assert Hub.of({"HF_TOKEN": " "}) == Hub(
        endpoint="https://huggingface.co", token=None, offline=False
    )


@each("endpoint", ["nonsense", "ftp://host", "https://u:hush@host", "http://h:x"])
def test_an_endpoint_that_is_no_address_is_named_but_not_repeated(endpoint):
    with pytest.raises(ModelReferenceError, match="HF_ENDPOINT") as caught:
        hub_at(endpoint)
    assert "hush" not in str(caught.value)


async def test_a_file_that_the_hub_does_not_have_is_not_found(fetch):
    with pytest.raises(ModelNotFoundError, match=r"hf:org/repo/other\.gguf") as caught:
        await fetch("hf:org/repo/other.gguf")
    assert (caught.value.status, caught.value.final) == (404, True)


async def test_a_gated_repository_names_the_page_and_the_variable(fetch, hub):
    hub.token = TOKEN
    with pytest.raises(ModelAccessError) as caught:
        await fetch()
    assert f"{hub.origin}/org/repo" in caught.value.remedy
    assert "HF_TOKEN" in caught.value.remedy


async def test_a_token_that_is_refused_is_said_to_have_been_sent_and_not_shown(
    fetch, hub, assert_secret
):
    hub.redirects = False
    hub.misbehave("status", status=403)
    with pytest.raises(ModelAccessError) as caught:
        await fetch(HF_TOKEN=TOKEN)
    assert "HF_TOKEN was sent" in caught.value.remedy
    assert_secret(TOKEN, error=caught.value)


async def test_an_unknown_repository_is_not_found_although_the_hub_says_401(fetch, hub):
    hub.redirects = False
    hub.misbehave("status", status=401, x_error_code="RepoNotFound")
    with pytest.raises(ModelNotFoundError, match="no public repository org/repo"):
        await fetch()


@pytest.mark.parametrize(
    ("status", "error"), [(503, ProviderTransientError), (429, ProviderRateLimitError)]
)
async def test_a_host_in_trouble_is_asked_again_and_then_given_up(fetch, hub, data, status, error):
    hub.misbehave("status", status=status, times=2, retry_after="1")
    assert (await fetch()).read_bytes() == data
    hub.files["org/repo/n.gguf"] = data
    hub.misbehave("status", status=status, times=None)
    with pytest.raises(error):
        await fetch("hf:org/repo/n.gguf")


async def test_a_host_that_wants_a_long_pause_is_not_waited_for(fetch, hub):
    hub.misbehave("status", status=429, times=None, retry_after="3600")
    with pytest.raises(ProviderRateLimitError):
        await fetch()
    assert len(hub.bodies()) == 1


async def test_an_unexpected_status_is_final(fetch, hub):
    hub.misbehave("status", status=400, times=None)
    with pytest.raises(ModelHostError, match="400"):
        await fetch()
    assert len(hub.bodies()) == 1


async def test_a_loop_of_redirects_ends(fetch, hub):
    hub.misbehave("circle", times=None)
    with pytest.raises(ModelHostError, match=r"redirects .* in a loop"):
        await fetch()


async def test_a_redirect_to_anything_but_the_web_is_not_followed(fetch, hub):
    hub.misbehave("status", status=302, location="file:///etc/passwd", times=None)
    with pytest.raises(ModelHostError, match="no https address"):
        await fetch()


async def test_a_host_that_is_not_there_is_a_passing_fault(fetch):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(ProviderTransientError, match="cannot be reached") as caught:
            await fetch(HF_ENDPOINT=endpoint)
    assert "HTTPS_PROXY" in caught.value.remedy


async def test_the_signature_of_an_address_does_not_reach_logs_as_they_are_set_up_or_errors(
    fetch, hub, assert_secret
):
    hub.misbehave("status", status=400)
    with pytest.raises(ModelHostError) as caught:
        await fetch()
    assert any("hush" in seen.path for seen in hub.requests)
    assert_secret("hush", error=caught.value, level=logging.WARNING)
