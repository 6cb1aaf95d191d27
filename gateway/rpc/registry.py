"""The methods that can be called, their parameter types, decoding them, and what a handler knows of its request."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import inspect

from config.runtime.decoding import prepared
from gateway.rpc.wire import InvalidParamsError, MethodNotFoundError, split_array

if TYPE_CHECKING:
    from gateway.scope import Guest

P = TypeVar("P", bound=msgspec.Struct)
_PLAIN = {
    inspect.AnyType: "any value",
    inspect.NoneType: "null",
    inspect.BoolType: "true or false",
    inspect.DictType: "an object",
    inspect.StructType: "an object",
    inspect.DateType: "a day, such as 2026-02-08",
}
_AT_PATH = r"(?s)(?P<problem>.*?)(?: - at `(?P<path>\$.*)`)?"
_TOP_LEVEL_NAME = r"\$\.([^.\[]+)"
_UNKNOWN = r"(?s)unknown field `(.*)`$"
_MISSING = r"missing required field `(.+)`$"
_STEP = r"\.([^.\[]+)|\[(\d+)\]"
_SHOWN_CHARS = 200
_SHOWN_VALUE = 60
_SHOWN_NAMES = 8
_NEAR = 0.7
"""The least similarity of a name that may have been meant: `text` is not what `target` stands for."""
_LISTED_BYTES = 65_536
"""In larger parameters only the first unknown name is reported: listing all would take too much memory."""


class Session(msgspec.Struct):
    """One client, for as long as its connection lives. `initialize` fills it, other methods read it.

    Requests start in the order of their lines, so what a method sets before its first `await` is
    seen by all later ones.
    """

    connection: str = "stdio"
    """Names the connection in the log."""
    client: str | None = None
    session_key: str | None = None
    """The key of requests that do not bring their own."""
    protocol: str | None = None
    operator: bool = False
    """A person at the machine, for whom `scope`, which guards conversations, does not apply."""
    guest: Guest | None = None
    """Set for a client that another process connects to us."""
    leave: Callable[[], None] | None = None
    """Ends this connection alone; None where it is the only one, and the process ends with it."""
    process: int | None = None
    """The program whose child process is the client, where that is known: it may have other connections, too."""

    def conversation(self, session_key: str | None = None) -> str:
        """Names the conversation that reads the answer: by its key, else by the program, else by the connection."""
        if key := session_key or self.session_key:
            return key
        return self.connection if self.process is None else process_name(self.process)


def process_name(process: int) -> str:
    """Returns the name of all conversations of a program that sends no session keys."""
    return f"process {process}"


class RequestContext(msgspec.Struct, frozen=True):
    """The client that asks, and the way to notify it before the method returns."""

    session: Session = msgspec.field(default_factory=Session)
    request_id: int | float | str | None = None
    """The id as the client sent it, to name the request in notifications; None for a notification."""
    notify: Callable[[str, object], None] = lambda *_: None
    """Sends the client a notification: `notify(method, params)`.

    Never waits and never fails, so it suits progress: of several that the client has not read yet,
    only the newest of each method is kept. Does nothing once the request is answered. Call it
    from the event loop.
    """
    stages: dict[str, float] = msgspec.field(default_factory=dict)
    """The duration of parts of the work, in milliseconds, for the log: the method adds its own."""


Handler: TypeAlias = Callable[[P, RequestContext], Awaitable[object]]


class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The base of the parameters of all methods."""


class NoParams(Params, frozen=True):
    """For methods without parameters."""


class Method(msgspec.Struct, Generic[P], frozen=True):
    """One callable method.

    The fields of `params`, in their order, are also its parameters by position; the type must forbid
    unknown fields unless `open_params` says that other protocols may add some. `timeout_s` counts from
    when the request is accepted. A notification is run only when `accepts_notification`; otherwise its
    work would be for nobody, and it is ignored. With `silent_when_cancelled` a request that MCP's
    `notifications/cancelled` withdraws is never answered, as MCP demands.
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


class MethodRegistry:
    """All methods of one process; every connection shares it."""

    def __init__(
        self,
        methods: Iterable[Method[Any]] = (),
        *,
        later: Callable[[], Iterable[Method[Any]]] = tuple,
        observe: Callable[[str, str, float], None] = lambda *_: None,
    ) -> None:
        """`later` gives more methods, once one is called that is not among the first: what they need
        is not imported before. `observe` is called for every answered request, with its method, `ok` or the kind
        of error, and seconds.
        """
        self.observe = observe
        self._methods: dict[str, Method[Any]] = {}
        self._later: Callable[[], Iterable[Method[Any]]] | None = later
        self.add(methods)

    def find(self, name: str) -> Method[Any]:
        """Returns the method of this name.

        Raises:
            MethodNotFoundError: there is none; the nearest name is proposed.
        """
        method = self._methods.get(name) or self._all().get(name)
        if method is not None:
            return method
        shown = name[:64]
        near = _nearest(shown, self._methods)
        raise MethodNotFoundError(
            f"There is no method {shown!r}.",
            remedy=f"Did you mean {near!r}?" if near else "docs/protocol.md names all methods.",
            details={"methods": sorted(self.names())},
        )

    def names(self) -> list[str]:
        """Returns the names of the methods that clients call."""
        return [name for name in self._all() if name[0] != "$"]

    def _all(self) -> dict[str, Method[Any]]:
        if self._later is not None:
            self.add(self._later())  # it may fail, as without descriptors, and is then tried again
            self._later = None
        return self._methods

    def add(self, methods: Iterable[Method[Any]]) -> None:
        for method in methods:
            if method.name in self._methods:
                raise ValueError(f"Two methods are named {method.name}")
            self._methods[method.name] = method


def describe_fields(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Maps each field, by its name on the wire, to a sentence that says what it may be."""
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    return {
        one.encode_name: f"`{one.encode_name}` ({'required' if one.required else 'optional'}) "
        f"is {describe_type(one.type)}."
        for one in info.fields
    }


def describe_type(kind: inspect.Type) -> str:
    match kind:
        case inspect.IntType() | inspect.FloatType():
            noun = "a whole number" if isinstance(kind, inspect.IntType) else "a number"
            return noun + _range(kind.ge, kind.le)
        case inspect.StrType():
            return "a string" + _range(kind.min_length, kind.max_length, " character")
        case inspect.ListType() | inspect.VarTupleType():
            size = _range(kind.min_length, kind.max_length, " item")
            return f"a list{size}, each {describe_type(kind.item_type)}"
        case inspect.LiteralType():
            return "one of " + ", ".join(_spell(value) for value in kind.values)
        case inspect.EnumType():
            return "one of " + ", ".join(_spell(member.value) for member in kind.cls)
        case inspect.Metadata():
            return describe_type(kind.type)
        case inspect.UnionType():
            return ", or ".join(describe_type(member) for member in kind.types)
        case _:
            return _PLAIN.get(type(kind), "a value of another kind")


def _range(low: float | None, high: float | None, unit: str = "") -> str:
    if unit and (low if high is None else high) != 1:
        unit += "s"
    match low, high:
        case None, None:
            return ""
        case _, None:
            return f" (at least {low}{unit})"
        case None, _:
            return f" (at most {high}{unit})"
        case _:
            return f" ({low} to {high}{unit})"


def _spell(value: object) -> str:
    return msgspec.json.encode(value).decode()


def decode_params(method: str, params_type: type[P], raw: bytes | None) -> P:
    """Decodes the JSON of `params`, an object, an array or nothing.

    Raises:
        InvalidParamsError: it does not fit `params_type`.
    """
    try:
        by_name = _without_unread(params_type, _name_positions(method, params_type, raw or b"{}"))
        try:
            params: P = _decoder(params_type).decode(by_name)
            return params
        except msgspec.ValidationError as error:
            raise _explain(method, params_type, by_name, str(error)) from error
    except RecursionError as error:
        raise InvalidParamsError(f"The parameters of {method} are nested too deeply.") from error


@cache
def _decoder(params_type: type[P]) -> msgspec.json.Decoder[P]:
    return msgspec.json.Decoder(prepared(params_type))


def _without_unread(params_type: type[msgspec.Struct], raw: bytes) -> bytes:
    """Drops what MCP allows and a type does not declare: `_meta` in every request, and in `initialize` what later
    revisions add.
    """
    if b'"_meta"' not in raw and b'"protocolVersion"' not in raw:
        return raw
    with suppress(msgspec.ValidationError):
        given = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        unread = given.keys() - set(params_type.__struct_encode_fields__)
        is_greeting = "protocolVersion" in given.keys() - unread
        if dropped := unread if is_greeting else unread & {"_meta"}:
            return msgspec.json.encode({k: v for k, v in given.items() if k not in dropped})
    return raw


def _name_positions(method: str, params_type: type[msgspec.Struct], raw: bytes) -> bytes:
    if raw.startswith(b"{"):
        return raw
    names = params_type.__struct_encode_fields__
    try:
        values = split_array(raw, len(names))
    except msgspec.ValidationError as error:
        raise InvalidParamsError(
            f"{method} has {len(names)} parameters, and more were given by position.",
            remedy=_all_names(method, names),
        ) from error
    named = zip(names, map(msgspec.Raw, values), strict=False)
    return msgspec.json.encode(dict(named))


def _explain(
    method: str, params_type: type[msgspec.Struct], raw: bytes, error: str
) -> InvalidParamsError:
    match = re.fullmatch(_AT_PATH, error)
    assert match is not None
    problem, path = match["problem"], match["path"] or ""
    if not path and (unknown := re.search(_UNKNOWN, problem)):
        return _unknown_names(method, params_type, raw, unknown[1])
    if not path and (missing := re.search(_MISSING, problem)):
        name, message = missing[1], f"{method} needs the parameter `{missing[1]}`."
    else:
        top = re.match(_TOP_LEVEL_NAME, path)
        name = top[1] if top else ""
        message = f"{method}: {_refused(raw, path)}."
    return InvalidParamsError(
        message, remedy=describe_fields(params_type).get(name), details={"parameter": name}
    )


def _refused(raw: bytes, path: str) -> str:
    """Says for example `` `sources[0]` cannot be "email" ``; only a short value is quoted."""
    where = path.removeprefix("$").removeprefix(".")[:_SHOWN_CHARS]
    named = f"`{where}`" if where else "the whole of it"
    if len(raw) <= _LISTED_BYTES:
        with suppress(msgspec.DecodeError, LookupError, TypeError):
            value = msgspec.json.decode(raw)
            for name, index in re.findall(_STEP, path):
                value = value[name] if name else value[int(index)]
            shown = msgspec.json.encode(value).decode()
            if len(shown) <= _SHOWN_VALUE:
                return f"{named} cannot be {shown}"
            if isinstance(value, str | list):
                unit = "characters" if isinstance(value, str) else "items"
                return f"{named} cannot be what was given ({len(value):,} {unit})"
    return f"{named} cannot be what was given"


def _unknown_names(
    method: str, params_type: type[msgspec.Struct], raw: bytes, first: str
) -> InvalidParamsError:
    known = params_type.__struct_encode_fields__
    unknown = [first]
    if len(raw) <= _LISTED_BYTES:
        given = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        unknown = [name for name in given if name not in known]
    shown = [name[:_SHOWN_CHARS] for name in unknown[:_SHOWN_NAMES]]
    hints = [
        f"Did you mean `{near}` instead of `{name}`?"
        for name in shown
        if (near := _nearest(name, known))
    ]
    return InvalidParamsError(
        f"{method} has no parameter " + ", ".join(f"`{name}`" for name in shown) + ".",
        remedy=" ".join([*hints, _all_names(method, known)]),
        details={"unknown": shown, "allowed": list(known)},
    )


def _nearest(name: str, known: Iterable[str]) -> str | None:
    import difflib  # noqa: PLC0415 - for mistakes only

    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=_NEAR)), None)


def _all_names(method: str, names: tuple[str, ...]) -> str:
    return f"{method} takes " + (", ".join(f"`{name}`" for name in names) or "no parameters") + "."
