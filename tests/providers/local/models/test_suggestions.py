"""Models that are suggested: each is one file, and no other is taken for it."""

import hashlib
import re

import msgspec
import pytest

from fakes.hub import model_bytes
from providers.local.model import prompts_for
from providers.local.models.suggestions import FIRST, SUGGESTIONS

DATA = model_bytes(100_000)


@pytest.mark.parametrize("one", SUGGESTIONS, ids=lambda one: one.name)
def test_each_is_a_file_of_known_size_and_hash_at_the_hub(one):
    assert one.repository.file.endswith(".gguf")
    assert re.fullmatch("[0-9a-f]{64}", one.sha256)
    assert one.bytes > 10_000_000
    assert one.licence


def test_the_first_one_is_small_pinned_to_a_commit_and_wants_no_words_before_a_text():
    assert SUGGESTIONS[0] is FIRST
    assert FIRST.bytes < 150_000_000
    assert re.fullmatch("[0-9a-f]{40}", FIRST.repository.revision)
    assert prompts_for(FIRST.name, FIRST.repository.file).apply("query", "q") == "q"


@pytest.fixture
def small():
    return msgspec.structs.replace(FIRST, bytes=len(DATA), sha256=hashlib.sha256(DATA).hexdigest())


def put(one, cache, data):
    path = one.path(cache)
    path.parent.mkdir(parents=True)
    path.write_bytes(data)


def test_a_file_put_there_by_hand_is_read_once_and_then_known(small, tmp_path):
    put(small, tmp_path, DATA)
    assert not small.is_here(tmp_path)
    assert small.confirm(tmp_path)
    assert small.is_here(tmp_path)


def test_another_file_put_there_by_hand_is_not_taken_for_it(small, tmp_path):
    put(small, tmp_path, DATA + b"x")
    assert not small.confirm(tmp_path)
    assert not small.is_here(tmp_path)
    assert small.path(tmp_path).exists()


def test_nothing_is_here_before_anything_was_downloaded(small, tmp_path):
    assert not small.is_here(tmp_path)
    assert not small.confirm(tmp_path)
