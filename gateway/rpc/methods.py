"""What can be called: a method with its name, parameter type and handler, and the closed set of them.

Owns the lookup. A handler gets decoded parameters, returns anything msgspec can encode, and raises
`MemoryGatewayError` for what the client should know. It runs in its own task, concurrently with others.
"""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from gateway.rpc.context import RequestContext
from gateway.rpc.errors import MethodNotFoundError

P = TypeVar("P", bound=msgspec.Struct)

Handler: TypeAlias = Callable[[P, RequestContext], Awaitable[object]]


class NoParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """For methods without parameters."""


@dataclass(frozen=True, slots=True)
class Method(Generic[P]):
    """One callable method.

    The fields of `params`, in their order, are also its parameters by position; the type must forbid
    unknown fields unless `open_params` says that other protocols may add some. `timeout_s` counts from
    when the request is accepted. A notification is run only when `accepts_notification`; otherwise its
    work would be for nobody, and it is ignored. With `silent_when_cancelled` a request that MCP's
    `notifications/cancelled` takes back is never answered, as MCP wants.
    """

    name: str
    params: type[P]
    handler: Handler[P]
    timeout_s: float | None = None
    accepts_notification: bool = False
    open_params: bool = False
    silent_when_cancelled: bool = False

    def __post_init__(self) -> None:
        if not (self.open_params or self.params.__struct_config__.forbid_unknown_fields):
            raise TypeError(f"{self.params.__name__} of {self.name} must forbid unknown fields")


def _ignore(_method: str, _outcome: str, _seconds: float) -> None:
    """Stand in where nobody counts."""


class MethodRegistry:
    """All methods of one process. Immutable, so that every connection can share it."""

    def __init__(
        self,
        methods: Iterable[Method[Any]],
        *,
        observe: Callable[[str, str, float], None] = _ignore,
    ) -> None:
        """`observe` is told of every answered request: its method, `ok` or kind of error, seconds."""
        self.observe = observe
        self._methods: dict[str, Method[Any]] = {}
        for method in methods:
            if method.name in self._methods:
                raise ValueError(f"Two methods are named {method.name}")
            self._methods[method.name] = method

    def find(self, name: str) -> Method[Any]:
        """Return the method of this name.

        Raises:
            MethodNotFoundError: there is none; the nearest name is proposed.
        """
        method = self._methods.get(name)
        if method is not None:
            return method
        shown = name[:64]
        near = difflib.get_close_matches(shown, self._methods, n=1)
        raise MethodNotFoundError(
            f"There is no method {shown!r}.",
            remedy=f"Did you mean {near[0]!r}?" if near else "docs/protocol.md names all methods.",
            details={"methods": sorted(name for name in self._methods if name[0] != "$")},
        )
