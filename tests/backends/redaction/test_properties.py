"""Properties for every text: stable, linear, and no planted secret survives."""

from __future__ import annotations

import string
import time

from hypothesis import given
from hypothesis import strategies as st

from backends.redaction import redact
from fakes.each import each

ALPHANUMERIC = string.ascii_letters + string.digits
words = st.text(string.ascii_lowercase + " .,\n", max_size=60)
pieces = st.sampled_from([
    "key", "token", "secret", "password", "API_KEY", "=", ":", ": ", '"', "'", "\\", "&", ";", " ",
    "\n", "sk-", "Bearer ", "://", "@", "***", "…", "-----BEGIN PRIVATE KEY-----", "--token ", "abc1",
    "hunter2", "x" * 20, "é", "密码", "${A}", "(", ")",
])  # fmt: skip
carriers = st.sampled_from([
    "API_KEY={}", "password: {}", '"secret": "{}"', "--api-key {}", "Authorization: Bearer {}",
    "postgres://app:{}@db/x", "export DB_PASSWORD='{}'", "sk-{}", "ghp_{}", r'\"accessToken\":\"{}\"',
])  # fmt: skip


@given(st.lists(pieces, max_size=14).map("".join))
def test_redacting_twice_is_redacting_once(text):
    once = redact(text)
    assert redact(once) == once


@given(
    words,
    carriers,
    st.text(ALPHANUMERIC, min_size=24, max_size=60).filter(lambda s: any(map(str.isdigit, s))),
    words,
)
def test_no_planted_secret_survives_and_the_text_around_it_does(before, carrier, secret, after):
    text = f"{before}\n{carrier.format(secret)}\n{after}"
    safe = redact(text)
    assert secret not in safe
    assert secret[6:-4] not in safe
    assert safe.startswith(f"{before}\n")
    assert safe.endswith(f"\n{after}")


@given(st.text(string.ascii_letters + " ,.!?'\n-", max_size=300))
def test_text_of_words_without_signs_of_assignment_stays(text):
    assert redact(text) == text


@each(
    "piece",
    ["key=", "token: ", "password='", "&;", "--api-", "http://", "x:", " ", "1", "eyJaaaaaaaaa.",
     "-----BEGIN PRIVATE KEY-----", "password=&a", 'password="\\', "Bearer ", "sk-"],
)  # fmt: skip
def test_the_time_grows_with_the_length_only(piece):
    """A quadratic pattern would take hundreds of times as long for ten times the text."""

    def seconds(size: int) -> float:
        text = piece * (size // len(piece))
        started = time.process_time()
        redact(text)
        return time.process_time() - started

    assert seconds(200_000) < 60 * max(seconds(20_000), 0.002)
