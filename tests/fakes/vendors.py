"""A loopback host with the embeddings wire format of OpenAI, of hosts like it, of Gemini or of Voyage.

It is as strict as the real hosts (`fakes.checks`) and misbehaves on command (`fakes.faults`). It records
every request, so that a test can count them, and notices clients that hang up.

    with FakeVendor("openai") as host:
        host.misbehave(status(503), times=2)
        ...
        assert len(host.requests) == 3
"""

from __future__ import annotations

import select
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from config.vendors import VENDORS
from fakes.batches import FakeBatches
from fakes.faults import Fault
from fakes.gemini_batches import GeminiBatches
from fakes.loopback import LoopbackHost
from fakes.openai_batches import OpenAIBatches
from fakes.wire import Seen, Server, embedding

_MODELS: dict[str, str] = {
    "openai": "text-embedding-3-small",
    "gemini": "gemini-embedding-001",
    "voyage": "voyage-4-large",
    "mistral": "mistral-embed",
    "deepinfra": "BAAI/bge-m3",
    "ollama": "nomic-embed-text",
    "lmstudio": "text-embedding-nomic-embed-text-v1.5",
}
"""The models that vendors offer; any other vendor offers the one of its row."""
_BASE: dict[str, str] = {"gemini": "/v1beta", "deepinfra": "/v1/openai"}


@dataclass(eq=False)
class FakeVendor(LoopbackHost[Fault]):
    """One host. Its limits may be changed while it runs. Use as a context manager."""

    vendor: str
    """The name of a row of `VENDORS`: one that the tables of fakes do not name is like OpenAI."""
    key: str = "test-key-0123456789abcdef"
    keys_may_be_longer: bool = False
    """True if a longer text that begins with the key is accepted, too, which distinguishes clients."""
    models: tuple[str, ...] = ()
    """The models; if none is given, the vendor's own default."""
    dimensions: int = 64
    max_items: int | None = None
    max_tokens: int | None = None
    """The most tokens in one request; four characters count as a token."""
    max_bytes: int | None = None
    max_input_tokens: int | None = None
    names_limit: bool = True
    """True if a refusal of a size says which size would be accepted."""
    encoding: Literal["asked", "base64", "float"] = "asked"
    delay_s: float = 0.0
    at_port: int = 0
    """0 for any free port."""
    tls: ssl.SSLContext | None = None
    rejects: Callable[[str], bool] = lambda _text: False
    """Texts that make a whole request fail with 400."""

    breaks_at: Callable[[str], bool] = lambda _text: False
    """Texts that make a whole request fail with 500, as in Ollama where a vector is not finite."""

    loses: Callable[[str], bool] = lambda _text: False
    """Texts whose vectors are empty in an answer."""

    batches: FakeBatches | None = None
    """None for a host without batch jobs."""

    requests: list[Seen] = field(default_factory=list, init=False)
    hung_up: int = field(default=0, init=False)
    """The number of clients that closed the connection before they had their answer."""
    at_once: int = field(default=0, init=False)
    most_at_once: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if not self.models:
            self.models = (_MODELS.get(self.vendor) or VENDORS[self.vendor].model or "",)
        server = Server(self)
        if self.tls is not None:
            server.socket = self.tls.wrap_socket(server.socket, server_side=True)
        self.serve(server)

    @property
    def origin(self) -> str:
        scheme = "https" if self.tls else "http"
        return f"{scheme}://127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        """The value of `remote.baseUrl`."""
        return self.origin + _BASE.get(self.vendor, "/v1")

    def with_batches(self, **ways: Any) -> FakeBatches:
        """Makes it a host with batch jobs, which behave as the fields in `ways` say."""
        speaks = GeminiBatches if self.vendor == "gemini" else OpenAIBatches
        self.batches = speaks(
            self.vendor,
            lambda text: embedding(text, self.dimensions),
            lambda model: model in self.models,
            self.origin,
            **ways,
        )
        return self.batches

    def misbehave(self, fault: Fault, *, times: int | None = None) -> None:
        """Applies the fault to the next `times` requests, or to all from now on."""
        self.misbehave_as(fault, times)

    def embedded(self) -> list[str]:
        """Returns every text of every request that was answered with success, in order."""
        return [text for seen in self.requests if seen.answered == 200 for text in seen.texts]

    # For the handlers.

    def enter(self, seen: Seen) -> None:
        with self._changed:
            self.requests.append(seen)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            self._changed.notify_all()

    def leave(self, *, hung_up: bool) -> None:
        with self._changed:
            self.at_once -= 1
            self.hung_up += hung_up
            self._changed.notify_all()

    def pause(self, seconds: float, connection: socket.socket) -> bool:
        """Waits until the client hangs up or this host is stopped; returns whether either happened in time."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            if self._stopping.is_set():
                return True
            readable, _, _ = select.select([connection], [], [], 0.01)
            if readable and not connection.recv(1, socket.MSG_PEEK):
                return True
        return False
