"""Splits a JSON array into the JSON of its members, of a bounded number. Pure.

Owns one guard: a `list[Raw]` would first build all members, two million of them for a line of
`[1,1,1,...`, before anything could count them.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec
from msgspec import UNSET, Raw, UnsetType


def split_array(text: bytes, limit: int) -> list[bytes]:
    """Return the members of a well-formed array.

    Raises:
        msgspec.ValidationError: it has more than `limit` members; found at the first one too many.
    """
    members = msgspec.json.decode(text, type=_array_type(limit))
    return [bytes(member) for member in msgspec.structs.astuple(members) if member is not UNSET]


@lru_cache(maxsize=32)
def _array_type(limit: int) -> type[msgspec.Struct]:
    slots = [(f"member_{index}", Raw | UnsetType, UNSET) for index in range(limit)]
    return msgspec.defstruct("_Array", slots, array_like=True, forbid_unknown_fields=True)
