"""A credential does not show itself, and keys are masked in any text."""

from __future__ import annotations

import base64
import copy
import io
import json
import pickle
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.pretty import Pretty

from config.secrets import MASK, redact
from config.settings import RemoteSettings, Secret
from fakes.each import each


@each("show", [repr, str, "{}".format, "{!r}".format, "{!s}".format])
def test_no_way_of_writing_it_shows_it(show):
    assert show(Secret("sk-hidden")) == "Secret(***)"


def test_a_record_that_holds_it_does_not_show_it_either():
    assert "hidden" not in repr(RemoteSettings(api_key=Secret("sk-hidden")))


def test_rich_does_not_show_it():
    console = Console(file=io.StringIO(), width=200)
    console.print(Pretty(RemoteSettings(api_key=Secret("sk-hidden"))))
    assert "Secret(***)" in console.file.getvalue()
    assert "hidden" not in console.file.getvalue()


@each("encode", [msgspec.json.encode, msgspec.to_builtins, pickle.dumps])
def test_it_cannot_be_encoded_by_accident(encode):
    with pytest.raises(TypeError):
        encode(RemoteSettings(api_key=Secret("sk-hidden")))


def test_it_cannot_be_copied_or_changed():
    secret = Secret("sk-hidden")
    with pytest.raises(TypeError, match="not copied"):
        copy.copy(secret)
    with pytest.raises(AttributeError, match="immutable"):
        secret.value = "other"


def test_reveal_is_the_way_to_read_it():
    assert Secret("sk-hidden").reveal() == "sk-hidden"


def test_secrets_compare_by_value_and_only_with_secrets():
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a"), Secret("b")}) == 2


LONG = "aB3dE6gH9jK2mN5pQ8sT1vW4"


@each(
    ("text", "redacted"),
    [
        (f"key sk-proj-{LONG} refused", "key *** refused"),
        (f"AIza{LONG}", "***"),
        (f"voyage pa-{LONG}!", "voyage ***!"),
        (f"ghp_{LONG} github_pat_{LONG}", "*** ***"),
        (f"hf_{LONG}", "***"),
        ("xoxb-1234567890-abc", "***"),
        (f"gsk_{LONG} npm_{LONG} pplx-{LONG}", "*** *** ***"),
        ("AKIAABCDEFGHIJKLMNOP", "***"),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSM", "***"),
        (f"bot 123456789:{LONG}", "bot ***"),
        (f"Authorization: Bearer {LONG}", "Authorization: Bearer ***"),
        (f"authorization: basic {LONG}==", "authorization: basic ***"),
        (f"x-api-key: {LONG}", "x-api-key: ***"),
        (f'{{"apiKey": "{LONG}"}}', '{"apiKey": "***"}'),
        (f"OPENAI_API_KEY={LONG}", "OPENAI_API_KEY=***"),
        ("DB_PASSWORD='hunter22'", "DB_PASSWORD='***'"),
        (f"access_token={LONG}&x=1", "access_token=***&x=1"),
        (f"https://host/v1?key={LONG}&alt=json", "https://host/v1?key=***&alt=json"),
        ("https://ada:secret@host/v1", "https://***@host/v1"),
        (f"https://{LONG}@host/v1", "https://***@host/v1"),
        (
            f"-----BEGIN PRIVATE KEY-----\n{LONG}\n{LONG}\n-----END PRIVATE KEY----- after",
            "*** after",
        ),
        (f"-----BEGIN RSA PRIVATE KEY-----\n{LONG}", "***"),
    ],
)
def test_well_known_shapes_are_masked(text, redacted):
    assert redact(text) == redacted


@each(
    "text",
    [
        "The answer is 42.",
        "max_tokens: 8192 exceeded",
        "https://api.openai.com:443/v1/embeddings",
        "mail ada@example.com at 12:30",
        "model text-embedding-3-small, 1536 dimensions",
        "/home/ada/.openclaw/memory/main.sqlite",
        "task-management and risk-averse",
        "hf:ggml-org/embeddinggemma-300M-GGUF/embeddinggemma-300M-Q8_0.gguf",
        "",
    ],
)
def test_ordinary_text_stays(text):
    assert redact(text) == text


def test_a_known_secret_is_masked_in_every_form():
    secret = 'p"ss wörd/+%'
    forms = [
        secret,
        json.dumps(secret, ensure_ascii=False)[1:-1],
        quote(secret, safe=""),
        base64.b64encode(secret.encode()).decode(),
    ]
    for form in forms:
        assert (
            redact(f"before {form} after", [Secret(secret)]).replace("=", "") == "before *** after"
        )


def test_known_secrets_may_be_plain_strings_and_the_longer_is_masked_first():
    assert redact("abcdefgh-more abcdefgh", ["abcdefgh", "abcdefgh-more"]) == "*** ***"


@each("placeholder", ["", "x", "none", "     "])
def test_a_placeholder_is_too_short_to_be_masked(placeholder):
    assert redact("x none of this", [placeholder]) == "x none of this"


@given(st.text(min_size=6, max_size=30), st.text(max_size=20), st.text(max_size=20))
def test_a_known_secret_never_survives(secret, before, after):
    known = secret.strip()
    if len(known) >= 6 and known not in "***":
        assert known not in redact(before + known + after, [secret]) or "***" in known


@each("piece", ["a-", "sk-", "://", "eyJ", "eyJ-", "Bearer ", "api_key", 'token="'])
def test_hostile_text_takes_linear_time(piece):
    # Quadratic patterns would need minutes here; the suite's own time limit detects that.
    assert redact(f"{piece * 100_000} sk-abcdefgh1234").endswith(MASK)
