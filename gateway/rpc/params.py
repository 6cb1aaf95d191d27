"""Decodes the parameters of a call, by name or by position, into the type its method declares.

Owns what an invalid parameter is told: every unknown name with the nearest known one, or the path of
what is wrong with what would be allowed there. Pure.
"""

from __future__ import annotations

import difflib
import re
from contextlib import suppress
from functools import cache
from typing import TypeVar

import msgspec

from gateway.rpc.arrays import split_array
from gateway.rpc.describe import describe_fields
from gateway.rpc.errors import InvalidParamsError

P = TypeVar("P", bound=msgspec.Struct)

_AT_PATH = re.compile(r"(?P<problem>.*?)(?: - at `(?P<path>\$.*)`)?", re.DOTALL)
_TOP_LEVEL_NAME = re.compile(r"\$\.([^.\[]+)")
_UNKNOWN = re.compile(r"unknown field `(.*)`$", re.DOTALL)
_MISSING = re.compile(r"missing required field `(.+)`$")

_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")

_SHOWN_CHARS = 200
_SHOWN_VALUE = 60
_SHOWN_NAMES = 8
_LISTED_BYTES = 65_536
"""Of larger parameters only the first unknown name is told: listing all would cost too much memory."""


def decode_params(method: str, params_type: type[P], raw: bytes | None) -> P:
    """Decode the JSON of `params`, an object, an array or nothing.

    Raises:
        InvalidParamsError: it does not fit `params_type`.
    """
    try:
        by_name = _without_meta(params_type, _name_positions(method, params_type, raw or b"{}"))
        try:
            params: P = _decoder(params_type).decode(by_name)
            return params
        except msgspec.ValidationError as error:
            raise _explain(method, params_type, by_name, str(error)) from error
    except RecursionError as error:
        raise InvalidParamsError(f"The parameters of {method} are nested too deeply.") from error


@cache
def _decoder(params_type: type[P]) -> msgspec.json.Decoder[P]:
    return msgspec.json.Decoder(params_type)


def _without_meta(params_type: type[msgspec.Struct], raw: bytes) -> bytes:
    """MCP lets every request carry `_meta`; who does not read it is not asked about it."""
    if b'"_meta"' not in raw or "_meta" in params_type.__struct_encode_fields__:
        return raw
    with suppress(msgspec.ValidationError):
        given = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        if given.pop("_meta", None) is not None:
            return msgspec.json.encode(given)
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
    match = _AT_PATH.fullmatch(error)
    assert match is not None
    problem, path = match["problem"], match["path"] or ""
    if not path and (unknown := _UNKNOWN.search(problem)):
        return _unknown_names(method, params_type, raw, unknown[1])
    if not path and (missing := _MISSING.search(problem)):
        name, message = missing[1], f"{method} needs the parameter `{missing[1]}`."
    else:
        top = _TOP_LEVEL_NAME.match(path)
        name = top[1] if top else ""
        message = f"{method}: {_refused(raw, path)}."
    return InvalidParamsError(
        message, remedy=describe_fields(params_type).get(name), details={"parameter": name}
    )


def _refused(raw: bytes, path: str) -> str:
    """`` `sources[0]` cannot be "email" ``, as far as the value is short enough to be told."""
    where = path.removeprefix("$").removeprefix(".")[:_SHOWN_CHARS]
    named = f"`{where}`" if where else "the whole of it"
    if len(raw) <= _LISTED_BYTES:
        with suppress(msgspec.DecodeError, LookupError, TypeError):
            value = msgspec.json.decode(raw)
            for name, index in _STEP.findall(path):
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
        f"Did you mean `{near[0]}` instead of `{name}`?"
        for name in shown
        if (near := difflib.get_close_matches(name, known, n=1))
    ]
    return InvalidParamsError(
        f"{method} has no parameter " + ", ".join(f"`{name}`" for name in shown) + ".",
        remedy=" ".join([*hints, _all_names(method, known)]),
        details={"unknown": shown, "allowed": list(known)},
    )


def _all_names(method: str, names: tuple[str, ...]) -> str:
    return f"{method} takes " + (", ".join(f"`{name}`" for name in names) or "no parameters") + "."
