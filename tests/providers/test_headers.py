"""Configured headers."""

import pytest

from providers.errors import ProviderUnavailableError
from providers.remote.credentials import is_secret, merge, without_secrets


def test_later_headers_win_whatever_their_case():
    merged = merge({"Authorization": "Bearer a", "X-Team": "one"}, {"authorization": "Bearer b"})
    assert merged == {"authorization": "Bearer b", "x-team": "one"}


def test_headers_that_frame_the_body_are_left_out():
    assert merge({"Content-Length": "3", "Transfer-Encoding": "x", "A": "b"}) == {"a": "b"}


@pytest.mark.parametrize(
    "headers", [{"bad name": "x"}, {"": "x"}, {"x": "a\r\nEvil: yes"}, {"x": "snow ☃"}]
)
def test_a_header_that_http_cannot_carry_is_named_but_its_value_is_not(headers):
    with pytest.raises(ProviderUnavailableError) as caught:
        merge(headers)
    assert "Evil" not in str(caught.value)
    assert "remote.headers" in caught.value.remedy


@pytest.mark.parametrize(
    "name", ["Authorization", "x-goog-api-key", "API-Key", "Cookie", "X-Token"]
)
def test_names_of_credentials_are_known(name):
    assert is_secret(name)
    assert without_secrets({name: "x", "x-region": "eu"}) == {"x-region": "eu"}
