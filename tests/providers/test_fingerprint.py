"""The identity of a vector space."""

import msgspec

from fakes.each import each
from providers.provider_interface import Fingerprint, digest_headers

MARK = Fingerprint(provider="openai", model="m", endpoint="https://api.openai.com/v1")


def test_the_digest_is_the_same_everywhere():
    assert MARK.digest().hex() == (
        "d4e439bc55ac37f4f54e01094823e9a884c41479d0741ece993939e0e978fcb0"
    )


@each(
    "change",
    [
        {"provider": "voyage"},
        {"model": "n"},
        {"endpoint": "https://other/v1"},
        {"headers": "abc"},
        {"dimensions": 256},
        {"input_type": "document"},
        {"variant": ("prompt",)},
    ],
)
def test_everything_that_changes_vectors_changes_the_digest(change):
    assert msgspec.structs.replace(MARK, **change).digest() != MARK.digest()


def test_header_names_count_without_case_and_order():
    assert digest_headers({"A": "1", "b": "2"}) == digest_headers({"B": "2", "a": "1"})
    assert digest_headers({"a": "1"}) != digest_headers({"a": "2"})
    assert digest_headers({}) == ""
