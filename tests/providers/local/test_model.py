"""The declarations of a model file, and the vectors that may be compared."""

import pytest

from fakes import onnx_models
from fakes.gguf import write_embedder, write_reranker
from providers.local.model import Wishes, context_of, read_header, read_model
from providers.provider_interface import ProviderUnavailableError


@pytest.fixture
def model(tmp_path):
    return write_embedder(tmp_path / "tiny.gguf")


BASE = {
    "dimensions": {"dimensions": 16},
    "document prompt": {"document_prompt": "passage: "},
    "longer input": {"chunk_tokens": 800},
}


def test_the_header_tells_context_width_pooling_and_quantisation(model):
    found = read_model(model, Wishes())
    assert (found.context_tokens, found.width, found.quantisation) == (2048, 32, "f32")
    assert (found.name, found.pooling, found.has_dense_layers) == ("tiny.gguf", 1, False)


def test_of_a_vocabulary_only_the_length_is_kept(model):
    header = read_header(model)
    assert header.values["tokenizer.ggml.tokens"] == 109
    assert header.values["tokenizer.ggml.token_type"] == 109


@pytest.mark.parametrize(
    ("context", "chunk_tokens", "expected"),
    [(64, 400, 64), (512, 400, 512), (2048, 400, 1024), (2048, 100, 512), (2048, 1600, 2048)],
)
def test_texts_may_be_as_long_as_chunks_need_and_the_model_reads(
    tmp_path, context, chunk_tokens, expected
):
    path = write_embedder(tmp_path / "m.gguf", context=context)
    assert read_model(path, Wishes(chunk_tokens=chunk_tokens)).max_tokens == expected
    assert context_of(path) == context


@pytest.mark.parametrize("wishes", BASE.values(), ids=BASE)
def test_what_changes_vectors_changes_the_fingerprint(model, wishes):
    usual = read_model(model, Wishes()).fingerprint
    assert read_model(model, Wishes(**wishes)).fingerprint.digest() != usual.digest()


def test_how_queries_are_asked_changes_no_stored_vector(model):
    asked = read_model(model, Wishes(query_prompt="query: "))
    assert asked.fingerprint == read_model(model, Wishes()).fingerprint
    assert asked.prompts.apply("query", "x") == "query: x"


@pytest.mark.parametrize(
    ("configured", "expected"),
    [("query:", "query: x"), ("{text}", "x"), ("<{text}>", "<x>"), (None, "search_query: x")],
)
def test_configured_words_replace_those_of_the_family(tmp_path, configured, expected):
    path = write_embedder(tmp_path / "nomic-embed.gguf")
    assert read_model(path, Wishes(query_prompt=configured)).prompts.apply("query", "x") == expected


@pytest.mark.parametrize(
    "settings", [{"general_name": "other"}, {"bert_pooling_type": 2}, {"general_file_type": 1}]
)
def test_another_file_under_the_same_name_is_another_model(tmp_path, settings):
    first = read_model(write_embedder(tmp_path / "m.gguf"), Wishes())
    second = read_model(write_embedder(tmp_path / "m.gguf", **settings), Wishes())
    assert first.fingerprint.digest() != second.fingerprint.digest()


def test_the_same_file_elsewhere_is_the_same_model(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
    first, second = (write_embedder(tmp_path / name / "m.gguf") for name in "ab")
    assert read_model(first, Wishes()).fingerprint == read_model(second, Wishes()).fingerprint


def test_dense_layers_are_part_of_the_fingerprint(tmp_path):
    path = write_embedder(tmp_path / "m.gguf")
    variant = read_model(path, Wishes()).fingerprint.variant
    assert {"dense layers no", "pooling mean", "quantisation f32", "input 1024"} < set(variant)
    path = write_embedder(tmp_path / "m.gguf", more={"bert.dense_2_feat_out": 64})
    assert "dense layers yes" in read_model(path, Wishes()).fingerprint.variant


@pytest.mark.parametrize(("causal", "pooling"), [(False, 1), (True, 3), (None, 3)])
def test_a_model_that_names_no_pooling_gets_the_one_that_suits_its_attention(
    tmp_path, causal, pooling
):
    settings = {"bert_pooling_type": None, "bert_attention_causal": causal}
    path = write_embedder(tmp_path / "m.gguf", **settings)
    assert read_model(path, Wishes()).pooling == pooling


def test_a_reranker_is_refused(tmp_path):
    with pytest.raises(ProviderUnavailableError, match="ranks texts and cannot embed"):
        read_model(write_reranker(tmp_path / "r.gguf"), Wishes())


def test_more_dimensions_than_the_model_has_are_refused(model):
    with pytest.raises(ProviderUnavailableError, match="gives 32 dimensions, not 64") as caught:
        read_model(model, Wishes(dimensions=64))
    assert "outputDimensionality" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"<!doctype html><title>Sign in</title>", "web page"),
        (b"<html>", "web page"),
        (b"", "not in the GGUF format"),
        (b"PK\3\4", "not in the GGUF format"),
        (b"GGUF", "ends too early"),
        (b"GGUF" + bytes([9, 0, 0, 0]) + bytes(16), "version 9"),
        (b"GGUF" + bytes([3, 0, 0, 0]) + bytes(8) + b"\1" + bytes(7) + b"\xff" * 8, "damaged"),
    ],
)
def test_what_is_no_model_is_said_to_be_none(tmp_path, content, words):
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(ProviderUnavailableError, match=words):
        read_model(path, Wishes())


def test_a_header_that_ends_anywhere_is_refused_and_nothing_else(model):
    data = model.read_bytes()[:2000]
    for end in range(5, len(data), 97):
        model.write_bytes(data[:end])
        with pytest.raises(ProviderUnavailableError):
            read_header(model)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ProviderUnavailableError, match="No such file"):
        read_header(tmp_path / "nowhere.gguf")


# ONNX: the declarations of the files beside the model


@pytest.fixture
def network(tmp_path):
    return onnx_models.write_embedder(tmp_path / "tiny/onnx/model_q8.onnx", context=512)


def test_the_files_beside_an_onnx_model_tell_context_width_and_pooling(network):
    found = read_model(network, Wishes())
    assert (found.context_tokens, found.width, found.pooling) == (512, 32, 1)
    assert (found.engine, found.name, found.quantisation) == ("onnxruntime", "onnx", "model_q8")
    assert found.order.tokenizer == str(network.parent / "tokenizer.json")
    assert context_of(network) == 512


def test_they_may_be_one_directory_above_as_the_hub_has_them(network):
    for name in ("tokenizer.json", "config.json", "1_Pooling"):
        (network.parent / name).rename(network.parent.parent / name)
    found = read_model(network, Wishes())
    assert (found.name, found.context_tokens, found.pooling) == ("tiny", 512, 1)
    of_hub = read_model(network, Wishes(), "hf:org/some-model/onnx/model_q8.onnx")
    assert of_hub.name == "some-model"
    assert of_hub.prompts == found.prompts


@pytest.mark.parametrize(
    ("directory", "pooling", "expected"),
    [("m", "cls", 2), ("m", "last", 3), ("bge-small-en", None, 2), ("m", None, 1)],
)
def test_pooling_is_read_or_else_that_of_the_family(tmp_path, directory, pooling, expected):
    path = onnx_models.write_embedder(tmp_path / directory / "model.onnx", pooling=pooling)
    assert read_model(path, Wishes()).pooling == expected


def test_a_family_that_counts_positions_from_two_reads_two_tokens_less(tmp_path):
    path = onnx_models.write_embedder(
        tmp_path / "m/model.onnx", context=514, architecture="xlm-roberta"
    )
    assert context_of(path) == 512


def test_another_tokenizer_makes_other_vectors(network):
    before = read_model(network, Wishes())
    assert before.is_as_read
    tokenizer = network.parent / "tokenizer.json"
    tokenizer.write_bytes(tokenizer.read_bytes() + b" ")
    assert not before.is_as_read
    assert read_model(network, Wishes()).fingerprint.digest() != before.fingerprint.digest()


@pytest.mark.parametrize("missing", ["tokenizer.json", "config.json"])
def test_a_missing_neighbour_is_named(network, missing):
    (network.parent / missing).unlink()
    with pytest.raises(ProviderUnavailableError, match=f"{missing} is missing"):
        read_model(network, Wishes())


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"<!doctype html>", "web page"), (b"GGUF", "not in the ONNX format"), (b"", "not in the")],
)
def test_what_is_no_onnx_model_is_said_to_be_none(network, content, words):
    network.write_bytes(content)
    with pytest.raises(ProviderUnavailableError, match=words):
        read_model(network, Wishes())


def test_a_neighbour_that_is_damaged_is_named(network):
    (network.parent / "config.json").write_text("{", encoding="utf-8")
    with pytest.raises(ProviderUnavailableError, match=r"config\.json cannot be read"):
        read_model(network, Wishes())
