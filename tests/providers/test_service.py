"""The service over a real host: sizes, order, concurrency, delivery, cancelling, counts."""

import json
import logging

import anyio
import anyio.to_thread
import pytest

from config.errors import ErrorKind
from config.settings import ModelProviderSettings
from fakes.faults import fault, rate_limited, status
from fakes.settings import make_settings
from fakes.vendors import FakeVendor
from providers import provider_interface
from providers.choosing import provider
from providers.embedding.service import EmbeddingService
from providers.embedding.sizing import LearnedLimits
from providers.provider_interface import ProviderRequest

pytestmark = pytest.mark.anyio


def notes(count):
    return [f"note number {number} about subject {number % 7}" for number in range(count)]


async def embed(service, collected, texts):
    await service.embed_documents(texts, on_batch=collected)
    assert sorted(collected.vectors) == list(range(len(texts)))


async def test_texts_of_many_files_share_one_request(host, service_for, collected):
    await embed(service_for(host), collected, notes(80))
    assert len(host.requests) == 1
    assert host.embedded() == notes(80)


@pytest.mark.parametrize(("cap", "count"), [(1, 30), (10, 200), (64, 400)])
async def test_a_cap_that_the_host_names_costs_one_refusal(
    host, service_for, collected, cap, count
):
    host.max_items = cap
    await embed(service_for(host), collected, notes(count))
    fewest = -(-count // cap)
    assert len(host.requests) == fewest + 1
    assert fewest + 1 <= fewest * 1.2
    assert sorted(host.embedded()) == sorted(notes(count))


@pytest.mark.parametrize(("cap", "count"), [(1, 30), (10, 200), (64, 400)])
async def test_a_cap_that_the_host_does_not_name_is_searched_for(
    host, service_for, collected, cap, count
):
    host.max_items, host.names_limit = cap, False
    await embed(service_for(host), collected, notes(count))
    assert sum(seen.answered != 200 for seen in host.requests) <= 5
    assert max(len(seen.texts) for seen in host.requests if seen.answered == 200) <= cap


async def test_what_was_learned_spares_the_next_process_every_refusal(
    openai_host, service_for, collected
):
    openai_host.max_items = 10
    first = service_for(openai_host)
    await embed(first, collected, notes(40))
    kept = first.learned.to_dict()
    openai_host.requests.clear()
    second = service_for(openai_host, learned=LearnedLimits.from_dict(kept))
    await embed(second, type(collected)(), notes(40))
    assert [seen.answered for seen in openai_host.requests] == [200] * 4


@pytest.mark.parametrize("limit", [{"max_bytes": 2000}, {"max_tokens": 300}])
async def test_limits_of_bytes_and_tokens_are_learned_too(host, service_for, collected, limit):
    for name, value in limit.items():
        setattr(host, name, value)
    service = service_for(host)
    await embed(service, collected, notes(120))
    assert service.state().learned_limits
    host.requests.clear()
    await embed(service, type(collected)(), notes(120))
    assert sum(seen.answered != 200 for seen in host.requests) <= 4


async def test_a_text_that_is_too_long_is_an_error_of_its_own(host, service_for, collected):
    host.max_input_tokens = 50
    texts = notes(9)
    texts[4] = "far too long " * 100
    service = service_for(host)
    await service.embed_documents(texts, on_batch=collected)
    assert sorted(collected.errors) == [4]
    assert collected.errors[4].kind is ErrorKind.PROVIDER_INPUT_TOO_LARGE
    assert len(collected.vectors) == 8
    assert service.state().status == "ready"


async def test_a_single_text_above_the_hosts_bytes_is_an_error_of_its_own(
    openai_host, service_for, collected
):
    openai_host.max_bytes = 500
    await service_for(openai_host).embed_documents(["x" * 5000], on_batch=collected)
    assert collected.errors[0].kind is ErrorKind.PROVIDER_INPUT_TOO_LARGE


async def test_a_text_that_the_host_rejects_is_isolated(
    host, service_for, collected, assert_secret
):
    poison = "the text that this host cannot stand"
    host.rejects = lambda text: poison in text
    texts = notes(30)
    texts[17] = poison
    service = service_for(host)
    await service.embed_documents(texts, on_batch=collected)
    assert sorted(collected.errors) == [17]
    assert len(collected.vectors) == 29
    assert len(host.requests) <= 12
    assert service.state().status == "ready"
    assert_secret(poison, also=collected.errors, level=logging.INFO)


async def test_settings_that_the_host_rejects_are_told_from_texts_by_one_harmless_text(
    host, service_for, collected
):
    host.rejects = lambda _text: True
    service = service_for(host)
    with pytest.raises(provider_interface.ProviderUnavailableError) as caught:
        await service.embed_documents(notes(30), on_batch=collected)
    assert [seen.texts for seen in host.requests] == [tuple(notes(30)), ("ping",)]
    assert caught.value.status == 400
    assert not collected.items
    assert service.state().status == "open"


async def test_a_host_that_rejects_every_query_is_not_ready_until_one_succeeds(
    openai_host, service_for
):
    service = service_for(openai_host)
    openai_host.rejects = lambda _text: True
    for query in ("boiler", "pump"):
        with pytest.raises(provider_interface.ProviderRejectedError):
            await service.embed_query(query)
    state = service.state()
    assert state.status == "degraded"
    assert "rejected the request" in state.reason
    openai_host.rejects = lambda _text: False
    await service.embed_query("boiler")
    assert (service.state().status, service.state().reason) == ("ready", None)


async def test_blank_texts_are_never_sent(host, service_for, collected):
    await service_for(host).embed_documents(["", "  \n", "word"], on_batch=collected)
    assert sorted(collected.errors) == [0, 1]
    assert host.embedded() == ["word"]


async def test_no_texts_send_nothing(host, service_for, collected):
    await service_for(host).embed_documents([], on_batch=collected)
    assert not host.requests
    assert not collected.deliveries


async def test_requests_run_at_once_up_to_the_limit_after_a_first_alone(
    openai_host, service_for, collected
):
    openai_host.max_items, openai_host.delay_s = 5, 0.05
    service = service_for(openai_host)
    await embed(service, collected, notes(60))
    assert 2 <= openai_host.most_at_once <= 4


async def test_each_request_is_delivered_when_it_completes(openai_host, service_for, collected):
    openai_host.max_items = 10
    await embed(service_for(openai_host), collected, notes(35))
    sizes = sorted(len(delivery.positions) for delivery in collected.deliveries)
    assert sizes == [5, 10, 10, 10]
    marks = {delivery.fingerprint for delivery in collected.deliveries}
    assert len(marks) == 1
    assert marks.pop().model == "text-embedding-3-small"


async def test_what_arrived_before_a_failure_stays_and_is_not_sent_again(
    openai_host, service_for, collected, clock
):
    openai_host.max_items = 10
    service = service_for(openai_host)
    await embed(service, type(collected)(), notes(10))
    texts = [f"other {text}" for text in notes(40)]

    async def store(delivery):
        await collected(delivery)
        openai_host.misbehave(status(401))

    with pytest.raises(provider_interface.ProviderAuthError):
        await service.embed_documents(texts, on_batch=store)
    openai_host.heal()
    clock.advance(60)
    rest = [text for at, text in enumerate(texts) if at not in collected.items]
    assert 0 < len(rest) < 40
    await service.embed_documents(rest, on_batch=type(collected)())
    sent = openai_host.embedded()
    assert all(sent.count(text) == 1 for text in texts)


async def test_deliveries_never_overlap(openai_host, service_for):
    openai_host.max_items = 2
    inside = 0

    async def store(delivery):
        nonlocal inside
        inside += 1
        assert inside == 1
        await anyio.sleep(0.001)
        inside -= 1

    await service_for(openai_host).embed_documents(notes(40), on_batch=store)


async def test_an_error_of_the_receiver_comes_through_as_it_is(openai_host, service_for):
    async def store(delivery):
        raise LookupError("the disk is full")

    with pytest.raises(LookupError, match="the disk is full"):
        await service_for(openai_host).embed_documents(notes(3), on_batch=store)


async def test_the_sender_is_asked_before_each_request_and_may_refuse_it(
    openai_host, service_for, collected
):
    openai_host.max_items = 2
    texts, sent = notes(6), []

    async def on_send(positions):
        if len(sent) == 2:
            raise LookupError("not ours any more")
        assert all(texts[at] not in openai_host.embedded() for at in positions)
        sent.append(positions)

    service = service_for(openai_host)
    await service.embed_documents(["learn the limits"] * 3, on_batch=type(collected)())
    before = len(openai_host.requests)
    with pytest.raises(LookupError, match="not ours"):
        await service.embed_documents(texts, on_batch=collected, on_send=on_send)
    assert [len(positions) for positions in sent] == [2, 2]
    assert len(openai_host.requests) - before == 2


async def test_cancelling_hangs_up(host, service_for, collected):
    host.misbehave(fault("hang"))
    service = service_for(host)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: service.embed_documents(notes(3), on_batch=collected))
        await anyio.to_thread.run_sync(host.wait_until, lambda host: host.at_once == 1)
        group.cancel_scope.cancel()
    await anyio.to_thread.run_sync(host.wait_until, lambda host: host.hung_up == 1)
    host.heal()
    await embed(service, collected, notes(3))
    assert service.state().statistics.failures == 0


async def test_a_rate_limit_holds_back_all_requests_and_lowers_their_number(
    openai_host, service_for, collected, clock
):
    openai_host.max_items = 1
    service = service_for(openai_host)
    await embed(service, collected, notes(2))
    openai_host.misbehave(rate_limited("20"), times=1)
    began = clock.now()
    await embed(service, type(collected)(), [f"other {text}" for text in notes(12)])
    assert clock.now() - began == pytest.approx(20.0)


async def test_a_request_that_keeps_hitting_a_token_rate_is_made_smaller(
    openai_host, service_for, collected
):
    """A free plan may allow fewer tokens a minute than one full request has."""
    service = service_for(openai_host)
    openai_host.misbehave(rate_limited("1"), times=6)
    await embed(service, collected, notes(40))
    sizes = [len(seen.texts) for seen in openai_host.requests]
    assert sizes[:6] == [40] * 6
    assert max(sizes[6:]) <= 20


async def test_counts_tell_what_happened(openai_host, service_for, collected):
    openai_host.misbehave(status(500), times=1)
    openai_host.misbehave(fault("zero"), times=1)
    service = service_for(openai_host)
    await service.embed_documents(notes(3), on_batch=collected)
    await service.embed_query("q")
    await service.embed_query("q")
    counts = service.state().statistics
    assert (counts.requests, counts.retries, counts.failures) == (3, 1, 0)
    assert (counts.documents, counts.item_errors) == (2, 1)
    assert (counts.queries, counts.query_cache_hits) == (2, 1)
    assert counts.tokens > 0


async def test_a_key_replaced_in_the_auth_profiles_is_taken_up(tmp_path, clock, collected):
    with FakeVendor("openai", key="sk-the-new-one-1234") as host:
        settings = make_settings(
            tmp_path, model_providers={"openai": ModelProviderSettings(base_url=host.base_url)}
        )
        path = settings.agent_dir / "auth-profiles.json"
        path.parent.mkdir(parents=True)

        def store(key):
            profile = {"type": "api_key", "provider": "openai", "key": key}
            path.write_text(json.dumps({"profiles": {"openai:me": profile}}), encoding="utf-8")

        store("sk-the-old-one-1234")
        embedder = provider("openai").create(ProviderRequest(settings, "primary"))
        service = EmbeddingService(embedder, clock=clock)
        with pytest.raises(provider_interface.ProviderAuthError) as caught:
            await service.embed_documents(notes(2), on_batch=collected)
        assert "auth profile openai:me" in caught.value.remedy
        store(host.key)
        clock.advance(60)
        await embed(service, collected, notes(2))
        await service.aclose()
