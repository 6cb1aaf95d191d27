"""Fixtures of the providers' tests: hosts on real sockets, services over them, and leak checks."""

from __future__ import annotations

import logging
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from importlib import import_module
from typing import Any

import msgspec
import pytest

from fakes.clock import FakeClock
from fakes.settings import make_settings, remote
from fakes.vendors import FakeVendor
from providers.choosing import provider
from providers.embedding.service import Delivery, EmbeddingService, RequestOptions
from providers.provider_interface import ItemError, ProviderRequest

QUICK = RequestOptions(timeout_s=60.0)


class Collected:
    """An `on_batch` that keeps what it gets, and checks that nothing comes twice."""

    def __init__(self) -> None:
        self.items: dict[int, Any] = {}
        self.deliveries: list[Delivery] = []

    async def __call__(self, delivery: Delivery) -> None:
        self.deliveries.append(delivery)
        for position, item in zip(delivery.positions, delivery.items, strict=True):
            assert position not in self.items, f"text {position} was delivered twice"
            self.items[position] = item

    @property
    def vectors(self) -> dict[int, Any]:
        return {at: item for at, item in self.items.items() if not isinstance(item, ItemError)}

    @property
    def errors(self) -> dict[int, Any]:
        return {at: item for at, item in self.items.items() if isinstance(item, ItemError)}


@pytest.fixture
def collected() -> Collected:
    return Collected()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def openai_host() -> Iterator[FakeVendor]:
    with FakeVendor("openai") as host:
        yield host


@pytest.fixture(params=["openai", "gemini", "voyage"])
def host(request: pytest.FixtureRequest) -> Iterator[FakeVendor]:
    """Each vendor in turn."""
    with FakeVendor(request.param) as host:
        yield host


@pytest.fixture
def embedder_for(tmp_path) -> Callable[..., Any]:
    """Makes the embedder that talks to a host; keywords are fields of the search settings."""

    def make(host: FakeVendor, *, key: str | None = None, **search: Any) -> Any:
        import_module("providers.remote.wires")  # loading may take long
        block = search.pop("remote", None) or remote(host.base_url, key or host.key)
        search = {"provider": host.vendor, "remote": block, **search}
        settings = make_settings(tmp_path, search=search)
        return provider(host.vendor).create(ProviderRequest(settings, "primary"))

    return make


@pytest.fixture
async def service_for(embedder_for, clock) -> AsyncIterator[Callable[..., EmbeddingService]]:
    """Makes services over a host: no time passes while they wait, and nothing is random."""
    opened: list[EmbeddingService] = []

    def make(
        host: FakeVendor, *, learned: Any = None, options: Any = QUICK, **search: Any
    ) -> EmbeddingService:
        opened.append(
            EmbeddingService(
                embedder_for(host, **search),
                learned=learned,
                options=options,
                clock=clock,
                draw=lambda: 0.0,
            )
        )
        return opened[-1]

    yield make
    for service in opened:
        await service.aclose()


@pytest.fixture
def options() -> Callable[..., RequestOptions]:
    return lambda **changes: msgspec.structs.replace(QUICK, **changes)


@pytest.fixture
def assert_secret(caplog, capfd) -> Callable[..., None]:
    """Checks that a secret is nowhere: in no form of an error, no log, and no output."""
    caplog.set_level(logging.DEBUG)

    def check(
        *forbidden: str,
        error: BaseException | None = None,
        also: Any = "",
        level: int = logging.DEBUG,
    ) -> None:
        logged = [record.getMessage() for record in caplog.records if record.levelno >= level]
        seen = [*logged, *capfd.readouterr(), repr(also)]
        if error is not None:
            seen += [str(error), repr(error), "".join(traceback.format_exception(error))]
        for text in forbidden:
            assert not [where for where in seen if text in where], f"{text!r} leaked"

    return check
