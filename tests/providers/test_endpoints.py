"""Base URLs, origins, and where credentials may go."""

import pytest

from fakes.each import each
from providers.endpoints import Endpoint, Origin, may_receive
from providers.provider_interface import ProviderUnavailableError


@each(
    ("raw", "cut", "expected"),
    [
        ("https://api.openai.com/v1", None, "https://api.openai.com/v1"),
        ("  https://api.openai.com/v1//  ", None, "https://api.openai.com/v1"),
        ("http://localhost:8080", None, "http://localhost:8080"),
        ("https://g.example/v1beta/openai", "/openai", "https://g.example/v1beta"),
        ("https://g.example/v1beta/openai/", "/openai", "https://g.example/v1beta"),
        ("https://g.example/v1beta/", "/openai", "https://g.example/v1beta"),
    ],
)
def test_a_base_url_is_trimmed_and_cut(raw, cut, expected):
    assert Endpoint.parse(raw, cut_from=cut).base_url == expected


@each(
    "raw",
    [
        "", "api.openai.com/v1", "ftp://x/v1", "https://", "https://x/v1?key=1", "http://x:99999/",
        "http://[::1/v1", "http://[x]/v1", "http://x/v1\r\nHost: y", "http://x y/v1", "http://x:0/",
    ],
)  # fmt: skip
def test_what_is_no_plain_address_is_refused_with_a_remedy(raw):
    with pytest.raises(ProviderUnavailableError) as caught:
        Endpoint.parse(raw)
    assert "remote.baseUrl" in caught.value.remedy


def test_an_address_with_a_password_is_refused_without_repeating_it():
    with pytest.raises(ProviderUnavailableError) as caught:
        Endpoint.parse("https://user:geheim99@example.com/v1")
    assert "geheim99" not in repr(caught.value) + str(caught.value)
    assert "remote.headers" in caught.value.remedy


@each(
    ("one", "other", "same"),
    [
        ("https://api.openai.com/v1", "HTTPS://API.OpenAI.com:443/x", True),
        ("https://api.openai.com", "http://api.openai.com", False),
        ("https://api.openai.com", "https://api.openai.com:8443", False),
        ("https://api.openai.com", "https://api.openai.com.evil.example", False),
    ],
)
def test_an_origin_is_scheme_host_and_port(one, other, same):
    assert (Origin.of(one) == Origin.of(other)) is same


@each(
    ("url", "private"),
    [
        ("http://localhost:11434", True),
        ("http://gpu.localhost", True),
        ("http://127.0.0.1:8080", True),
        ("http://[::1]:8080", True),
        ("http://0.0.0.0:8080", True),
        ("http://localhost.:8080", True),
        ("http://127.1:8080", True),
        ("http://0x7f.1", True),
        ("http://2130706433", True),
        ("http://[::ffff:127.0.0.1]", True),
        ("http://[::]", True),
        ("http://127.0.0.1.", True),
        ("https://8.8", False),
        ("https://cafe", False),
        ("http://192.168.1.7", True),
        ("http://10.0.0.1", True),
        ("http://[fd00::1]", True),
        ("https://8.8.8.8", False),
        ("https://example.com", False),
        ("https://localhost.example.com", False),
        ("https://127.0.0.1.example.com", False),
    ],
)
def test_private_hosts_are_told_by_address_alone(url, private):
    origin = Origin.of(url)
    assert origin.private is private
    assert may_receive(origin, frozenset({Origin.of("https://api.openai.com")})) is private


def test_an_origin_is_shown_without_its_default_port():
    assert str(Origin.of("https://api.openai.com/v1")) == "api.openai.com"
    assert str(Origin.of("http://[::1]:8080/v1")) == "[::1]:8080"
