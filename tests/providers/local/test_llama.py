"""llama.cpp, where it is installed: its refusals, and the faults that end its process."""

from itertools import pairwise
from string import ascii_lowercase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.gguf import write_embedder
from fakes.local_models import order
from providers.embedding.service import EmbeddingService
from providers.local.embedder import Patience
from providers.local.worker.llama import BATCH_TEXTS, BATCH_TOKENS, batches, cut
from providers.provider_interface import ItemError, ProviderRejectedError, ProviderUnavailableError

TOO_LONG = "x" * 300
"""More tokens than the short model has positions."""
LENGTHS = st.lists(st.integers(1, 2 * BATCH_TOKENS), max_size=200)


@pytest.fixture
def short_model(tmp_path):
    """A model with 64 positions: a longer text that reaches llama.cpp ends its process."""
    return write_embedder(tmp_path / "short.gguf", context=64)


def errors(batch):
    return {at: item.message for at, item in enumerate(batch.items) if isinstance(item, ItemError)}


@pytest.mark.anyio
async def test_a_text_that_aborts_llama_cpp_is_left_out_with_the_reason(supervising, short_model):
    texts = [f"note {number}" for number in range(20)]
    texts[13] = TOO_LONG
    async with supervising() as supervisor:
        batch = await supervisor.embed(order(short_model), "document", texts)
        assert list(errors(batch)) == [13]
        assert "SIGABRT" in errors(batch)[13]
        assert "GGML_ASSERT" in errors(batch)[13]
        assert TOO_LONG not in errors(batch)[13]
        assert errors(await supervisor.embed(order(short_model), "query", ["fine"])) == {}


@pytest.mark.anyio
async def test_a_model_that_kills_while_it_is_loaded_is_unavailable(supervising, tmp_path):
    path = write_embedder(tmp_path / "tiny.gguf")
    async with supervising(Patience()) as supervisor:
        with pytest.raises(ProviderUnavailableError, match=r"ended while loading it \(SIGABRT"):
            await supervisor.embed(order(path, pooling=99), "document", ["one"])
        assert supervisor.state().status == "off"


@pytest.mark.anyio
async def test_another_build_is_taken_where_the_variable_says(supervising, tmp_path, monkeypatch):
    monkeypatch.setenv("LLAMA_CPP_LIB_PATH", str(tmp_path))
    path = write_embedder(tmp_path / "tiny.gguf")
    async with supervising() as supervisor:
        with pytest.raises(ProviderUnavailableError, match=str(tmp_path)):
            await supervisor.embed(order(path), "document", ["one"])


@pytest.mark.anyio
async def test_a_text_that_llama_cpp_refuses_is_an_error_of_that_text_alone(
    embedding, tmp_path, collected
):
    """The token for unknown characters is a default outside this small vocabulary."""
    letters = write_embedder(
        tmp_path / "letters.gguf", characters=ascii_lowercase, tokenizer_ggml_unknown_token_id=None
    )
    async with embedding(letters) as embedder:
        service = EmbeddingService(embedder)
        texts = ["note", "a 7 b", "shed"]
        await embedder.embed_documents(texts[:1])
        for at, text in enumerate(texts):  # those in one batch would be refused together
            await service.embed_documents([text], on_batch=collected)
            assert bool(collected.errors) is (at == 1)
            collected.items.clear()
        assert service.state().status == "ready"
        with pytest.raises(ProviderRejectedError, match="refused"):
            await service.embed_query("a 7 b", deadline_s=60)


@given(LENGTHS)
def test_every_text_is_in_one_batch_in_order_and_no_batch_is_too_large(lengths):
    packed = list(batches(lengths))
    assert [at for batch in packed for at in batch] == list(range(len(lengths)))
    for batch in packed:
        assert 1 <= len(batch) <= BATCH_TEXTS
        assert len(batch) == 1 or sum(lengths[at] for at in batch) <= BATCH_TOKENS


@given(LENGTHS)
def test_two_neighbouring_batches_would_not_have_fitted_into_one(lengths):
    packed = list(batches(lengths))
    for batch, following in pairwise(packed):
        joined = sum(lengths[at] for at in batch) + lengths[following[0]]
        assert joined > BATCH_TOKENS or len(batch) == BATCH_TEXTS


def test_a_text_that_is_cut_keeps_the_token_that_closes_it():
    assert cut([1, 2, 3, 4, 9], 3, closing=True) == [1, 2, 9]
    assert cut([1, 2, 3, 4, 5], 3, closing=False) == [1, 2, 3]
    assert cut([1, 2, 9], 3, closing=True) == [1, 2, 9]
