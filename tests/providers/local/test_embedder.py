"""The local model as the service above it sees it."""

import os

import anyio
import numpy as np
import pytest
from anyio import to_thread

from fakes.hub import FakeHub, model_bytes
from fakes.onnx_models import write_embedder
from providers.embedding.service import EmbeddingService, RequestOptions
from providers.provider_interface import (
    ProviderNotReadyError,
    ProviderRejectedError,
    ProviderTransientError,
    ProviderUnavailableError,
)
from providers.resilience import RetryPolicy

pytestmark = pytest.mark.anyio


async def test_documents_and_queries_get_vectors_of_length_one(embedding, model, collected):
    async with embedding(model) as embedder:
        service = EmbeddingService(embedder)
        texts = [f"note {number} " + "word " * number for number in range(200)]
        await service.embed_documents(texts, on_batch=collected)
        query = await service.embed_query(texts[150], deadline_s=60)
        vectors = np.stack([collected.vectors[at] for at in range(200)])
        assert vectors.dtype == np.float32
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
        assert int(np.argmax(vectors @ query)) == 150
        assert embedder.dimensions == 32
        assert service.state().details.worker.deaths == 0


async def test_prompts_of_the_family_go_with_the_texts(embedding, tmp_path):
    plain = write_embedder(tmp_path / "plain/model.onnx")
    named = write_embedder(tmp_path / "nomic-embed-text/model.onnx")
    async with embedding(plain) as without, embedding(named) as family:
        (expected,) = (await without.embed_documents(["search_document: x"])).items
        (found,) = (await family.embed_documents(["x"])).items
        assert np.allclose(expected, found, atol=1e-6)
        asked = await family.embed_query("x")
        assert np.allclose(await without.embed_query("search_query: x"), asked, atol=1e-6)


async def test_configured_prompts_replace_those_of_the_family(embedding, tmp_path):
    path = write_embedder(tmp_path / "nomic-embed-text/model.onnx")
    async with embedding(path, query_prompt="ask {text} now", document_prompt="") as embedder:
        (plain,) = (await embedder.embed_documents(["ask x now"])).items
        assert np.allclose(await embedder.embed_query("x"), plain, atol=1e-6)


async def test_fewer_dimensions_as_configured(embedding, model):
    async with embedding(model, dimensions=16) as embedder:
        assert embedder.dimensions == 16
        vector = await embedder.embed_query("x")
        assert len(vector) == 16
        assert float(np.linalg.norm(vector)) == pytest.approx(1, abs=1e-6)


async def test_the_network_and_not_the_file_beside_it_tells_how_long_vectors_are(
    embedding, tmp_path
):
    path = write_embedder(tmp_path / "tiny/model.onnx")
    config = path.with_name("config.json")
    config.write_text(config.read_text().replace('"hidden_size": 32', '"hidden_size": 64'))
    async with embedding(path) as embedder:
        assert len(await embedder.embed_query("x")) == 32
        assert (embedder.dimensions, embedder.report().model.dimensions) == (32, 32)
    async with embedding(path, dimensions=48) as embedder:
        with pytest.raises(ProviderUnavailableError, match="gives 32 dimensions, not 48"):
            await embedder.embed_query("x")


async def test_halves_of_emoji_and_other_oddities_are_embedded(embedding, model):
    async with embedding(model) as embedder:
        batch = await embedder.embed_documents(["broken \ud83d emoji", "\0", "a" * 100_000])
        assert [len(item) for item in batch.items] == [32] * 3
        assert embedder.report().worker.cut_texts == 1


async def test_the_fingerprint_is_known_before_any_text(embedding, model):
    async with embedding(model) as embedder:
        assert embedder.is_prepared
        assert embedder.fingerprint.model in ("tiny", "model.gguf")
        assert any(entry.startswith("sha256 ") for entry in embedder.fingerprint.variant)
        assert embedder.report().worker.status == "off"


async def test_a_model_that_comes_later_is_taken_up(embedding, tmp_path):
    path = tmp_path / "later/model.onnx"
    async with embedding(path) as embedder:
        service = EmbeddingService(embedder)
        assert not embedder.is_prepared
        with pytest.raises(ProviderNotReadyError, match=r"not there yet.*models pull"):
            await service.embed_query("x")
        assert service.state().status == "ready"
        write_embedder(path)
        assert len(await service.embed_query("x", deadline_s=60)) == 32
        assert embedder.is_prepared


async def test_a_query_does_not_wait_for_a_hub_that_refuses_the_download(
    embedding, tmp_path, monkeypatch
):
    with FakeHub({"org/repo/m.gguf": model_bytes(1_000)}) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.origin)
        hub.misbehave("status", times=None, status=503)
        async with embedding("hf:org/repo/m.gguf") as embedder, anyio.create_task_group() as tasks:
            failed = anyio.Event()

            async def prepare() -> None:
                with pytest.raises(ProviderTransientError):
                    await embedder.prepare()
                failed.set()

            tasks.start_soon(prepare)
            await to_thread.run_sync(hub.wait_until, lambda hub: bool(hub.requests))
            with pytest.raises(ProviderNotReadyError, match="not there yet"):
                await embedder.embed_query("x")
            assert not failed.is_set()
            tasks.cancel_scope.cancel()


async def test_a_model_that_changes_under_our_hands_is_another_one(embedding, tmp_path):
    model = write_embedder(tmp_path / "tiny/model.onnx")
    other = write_embedder(tmp_path / "other/model.onnx", seed=2)
    async with embedding(model) as embedder:
        first, before = await embedder.embed_query("x"), embedder.fingerprint
        other.replace(model)
        second = await embedder.embed_query("x")
        assert embedder.fingerprint != before
        assert first.tolist() != second.tolist()


async def test_texts_under_way_when_the_model_changes_all_get_vectors_of_the_new_one(
    embedding, tmp_path, until
):
    path = write_embedder(tmp_path / "tiny/model.onnx")
    later = write_embedder(tmp_path / "later/model.onnx", seed=2)
    texts = [f"{number} " + "x " * 400 for number in range(600)]
    results = []

    async def embed(embedder):
        results.append(await embedder.embed_documents(texts))

    async with embedding(path) as embedder, anyio.create_task_group() as tasks:
        tasks.start_soon(embed, embedder)
        await until(lambda: embedder.report().worker.status == "running")
        await embedder.embed_query("meanwhile some of them are computed")
        later.replace(path)
        await embedder.embed_query("one")
        await until(lambda: results)
        fresh = await embedder.embed_documents(texts)
    assert [one.tolist() for one in results[0].items] == [one.tolist() for one in fresh.items]


async def test_another_tokenizer_is_taken_up_like_another_model(embedding, tmp_path):
    path = write_embedder(tmp_path / "m/model.onnx")
    async with embedding(path) as embedder:
        before = embedder.fingerprint
        await embedder.embed_query("x")
        pid = embedder.report().worker.pid
        tokenizer = path.parent / "tokenizer.json"
        tokenizer.write_bytes(tokenizer.read_bytes() + b"\n")
        await embedder.embed_query("x")
        assert embedder.fingerprint != before
        assert embedder.report().worker.pid != pid


@pytest.mark.parametrize(
    ("name", "words"), [("page.gguf", "no GGUF file"), ("page.onnx", "no ONNX file")]
)
async def test_a_model_that_cannot_be_used_is_a_failure_of_the_provider(
    embedding, tmp_path, name, words
):
    path = tmp_path / name
    path.write_text("<!doctype html>", encoding="utf-8")
    async with embedding(path) as embedder:
        service = EmbeddingService(embedder)
        with pytest.raises(ProviderUnavailableError, match=words):
            await service.prepare()
        assert service.state().status == "open"
        assert words in service.state().reason


async def test_a_damaged_model_is_looked_at_again_once_it_is_replaced(embedding, model):
    whole = model.read_bytes()
    model.write_bytes(whole[:-2000])
    options = RequestOptions(retry=RetryPolicy(attempts=1))
    async with embedding(model) as embedder:
        service = EmbeddingService(embedder, options=options)
        with pytest.raises(ProviderUnavailableError, match=r"model\.\w+ cannot be used"):
            await service.embed_query("x", deadline_s=60)
        assert not embedder.is_prepared
        model.write_bytes(whole)
        await embedder.prepare()
        assert len(await embedder.embed_query("x")) == 32


async def test_a_text_that_the_engine_refuses_is_an_error_of_that_text_alone(
    embedding, tmp_path, collected
):
    """This model has fewer positions than it declares."""
    path = write_embedder(tmp_path / "tiny/model.onnx", context=80)
    config = path.parent / "config.json"
    config.write_text('{"max_position_embeddings": 512}', encoding="utf-8")
    async with embedding(path) as embedder:
        service = EmbeddingService(embedder)
        await service.embed_documents(["note", "x" * 100, "shed"], on_batch=collected)
        assert list(collected.errors) == [1]
        assert service.state().status == "ready"
        with pytest.raises(ProviderRejectedError, match="refused"):
            await service.embed_query("x" * 100, deadline_s=60)


async def test_vectors_are_the_same_after_the_worker_was_killed(embedding, model):
    async with embedding(model) as embedder:
        before = await embedder.embed_query("x")
        os.kill(embedder.report().worker.pid, 9)
        assert (await embedder.embed_query("x")).tolist() == before.tolist()
