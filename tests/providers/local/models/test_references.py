"""The meaning of a reference, and the place of its model."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.each import each
from providers.local.models.cache import place_of
from providers.local.models.references import (
    FileReference,
    HubReference,
    ModelReferenceError,
    WebReference,
    parse_reference,
)

CACHE = Path("/cache")


@each(
    ("text", "expected"),
    [
        ("/models/m.gguf", FileReference(Path("/models/m.gguf"))),
        ("models/m.gguf", FileReference(Path("models/m.gguf"))),
        ("C:m.gguf", FileReference(Path("C:m.gguf"))),
        ("hf:org/repo/m.gguf", HubReference("org/repo", "m.gguf")),
        ("hf://org/repo/m.GGUF", HubReference("org/repo", "m.GGUF")),
        (" hf:org/repo/q8/m.gguf ", HubReference("org/repo", "q8/m.gguf")),
        ("hf:org/repo/m.gguf#v1", HubReference("org/repo", "m.gguf", "v1")),
        ("hf:org/repo/m.gguf#refs/pr/1", HubReference("org/repo", "m.gguf", "refs/pr/1")),
        ("https://host/a/m.gguf?key=1", WebReference("https://host/a/m.gguf?key=1")),
        ("http://host:8080/m#part", WebReference("http://host:8080/m")),
    ],
)
def test_every_documented_form_is_understood(text, expected):
    assert parse_reference(text) == expected


def test_a_path_below_the_home_directory_is_expanded(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")
    assert parse_reference("~/m.gguf") == FileReference(Path("/home/ada/m.gguf"))


@each(
    ("text", "cause"),
    [
        ("", "empty"),
        ("hf:", "does not name"),
        ("hf:org/repo", "does not name"),
        ("hf:org/repo:Q8_0", "does not name"),
        ("hf:org/repo/m.bin", "gguf"),
        ("hf:org/../m.gguf", "does not name"),
        ("hf:org/repo//m.gguf", "does not name"),
        ("hf:org/repo/a\\b.gguf", "does not name"),
        ("hf:org/repo/m.gguf#../x", "revision"),
        ("https:///m.gguf", "names no host"),
        ("https://host", "names no host"),
        ("https://host/..", "names no host"),
        ("https://host/a/.", "names no host"),
        ("https://../m.gguf", "names no host"),
        ("https://host:port/m.gguf", "not valid"),
        ("https://user:hush@host/m.gguf", "user name or password"),
    ],
)
def test_anything_else_is_refused_with_an_example(text, cause):
    with pytest.raises(ModelReferenceError, match=cause) as caught:
        parse_reference(text)
    assert "hf:ggml-org/" in caught.value.remedy
    assert "hush" not in str(caught.value)


def test_the_query_of_an_address_is_never_shown():
    assert str(parse_reference("https://host/m.gguf?token=hush")) == "https://host/m.gguf"


def test_places_can_be_read_by_people_and_stay_in_the_cache():
    def place(text):
        return place_of(parse_reference(text), CACHE).model

    assert place("hf:org/repo/q/m.gguf") == CACHE / "hf/org/repo/main/q/m.gguf"
    assert place("hf:org/repo/m.gguf#refs/pr/1") == CACHE / "hf/org/repo/refs%2Fpr%2F1/m.gguf"
    assert place("https://Host:1/a/m.gguf").parts[:4] == ("/", "cache", "web", "host%3A1")


references = st.builds(
    "hf:{}/{}/{}.gguf#{}".format, *[st.text("ab./%#-_ ?é", min_size=1, max_size=6)] * 4
)


@given(first=references, second=references)
def test_different_models_have_different_places_inside_the_cache(first, second):
    try:
        one, other = parse_reference(first), parse_reference(second)
    except ModelReferenceError:
        return
    places = [place_of(reference, CACHE).model for reference in (one, other)]
    assert (places[0] == places[1]) is (one == other)
    assert all(".." not in place.parts and place.is_relative_to(CACHE / "hf") for place in places)
    assert parse_reference(str(one)) == one
