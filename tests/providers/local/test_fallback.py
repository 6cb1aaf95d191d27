"""A local model that cannot be set up, another provider instead, and the way back."""

import anyio
import pytest

from config.settings import LocalSettings
from fakes.onnx_models import write_embedder
from fakes.settings import make_settings
from providers.choosing import provider
from providers.embedding.service import Embeddings, EmbeddingService
from providers.provider_interface import ProviderRequest, ProviderUnavailableError

pytestmark = pytest.mark.anyio


@pytest.fixture
def local_service(tmp_path, clock):
    def make(path):
        local = LocalSettings(model_path=str(path))
        settings = make_settings(tmp_path, search={"provider": "local", "local": local})
        embedder = provider("local").create(ProviderRequest(settings, "primary"))
        return EmbeddingService(embedder, clock=clock)

    return make


async def test_a_model_that_is_not_there_makes_way_for_the_fallback_until_it_is(
    local_service, service_for, openai_host, tmp_path, collected, clock
):
    path = tmp_path / "m/model.onnx"
    primary = local_service(path)
    embeddings = Embeddings(primary, service_for(openai_host), clock=clock)
    changes = []
    embeddings.subscribe(changes.append)
    with pytest.raises(ProviderUnavailableError, match="cannot be read"):
        await embeddings.prepare()
    await embeddings.prepare()
    await embeddings.embed_documents(["one", "two"], on_batch=collected)
    assert {each.fingerprint.provider for each in collected.deliveries} == {"openai"}
    record = embeddings.state().fell_back
    assert record.origin == "local"
    assert "cannot be read" in record.reason

    write_embedder(path)
    assert not await embeddings.probe()  # too early for the next attempt
    clock.advance(60)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(primary.run)
        assert await embeddings.probe()
        assert embeddings.state().fell_back is None
        found = await embeddings.embed_query("one")
        tasks.cancel_scope.cancel()
    assert found.fingerprint.provider == "local"
    assert len(found.vector) == 32
    assert [change.event for change in changes] == ["fell-back", "recovered"]


async def test_a_model_that_does_not_load_makes_way_at_the_first_text(
    local_service, service_for, openai_host, tmp_path, collected, clock
):
    path = write_embedder(tmp_path / "m/model.onnx")
    path.write_bytes(path.read_bytes()[:-2000])
    primary = local_service(path)
    embeddings = Embeddings(primary, service_for(openai_host), clock=clock)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(primary.run)
        await embeddings.prepare()
        with pytest.raises(ProviderUnavailableError, match="cannot be used"):
            await embeddings.embed_documents(["one"], on_batch=collected)
        await embeddings.embed_documents(["one"], on_batch=collected)
        assert collected.deliveries[0].fingerprint.provider == "openai"
        clock.advance(60)
        assert not await embeddings.probe()
        assert embeddings.state().fell_back is not None
        tasks.cancel_scope.cancel()


async def test_failures_in_a_row_are_given_ever_more_time(local_service, tmp_path, clock):
    service = local_service(tmp_path / "m/model.onnx")
    waits = []
    for _ in range(3):
        with pytest.raises(ProviderUnavailableError, match="cannot be read"):
            await service.prepare()
        waits.append(service.state().next_probe_in_s)
        clock.advance(waits[-1])
    assert waits == [30, 60, 120]
