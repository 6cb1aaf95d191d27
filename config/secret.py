"""A credential that does not show itself."""

from __future__ import annotations

from typing import NoReturn


class Secret:
    """A credential. `reveal()` is the only way to read it; immutable, compared by value.

    No part of it appears in `repr`, in formatted text, in a rich traceback or table, and encoders
    refuse it, since it is neither a record nor a mapping.
    """

    __slots__ = ("value",)

    value: str

    def __init__(self, value: str) -> None:
        object.__setattr__(self, "value", value)

    def reveal(self) -> str:
        return self.value

    def __repr__(self) -> str:
        return "Secret(***)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self.value == other.value

    def __hash__(self) -> int:
        return hash((Secret, self.value))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a secret is immutable: {name}")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not copied into other processes or files")
