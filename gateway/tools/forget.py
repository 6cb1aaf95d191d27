"""The parameters of `forget`."""

from __future__ import annotations

import msgspec

from backends.interface import ForgetRequest
from gateway.rpc.wire import InvalidParamsError


class ForgetParams(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """A path or an age in milliseconds. Without `remove` it is only told what is kept."""

    path: str | None = None
    older_than_ms: int | None = None
    remove: bool = False

    def request(self) -> ForgetRequest:
        """Raises InvalidParamsError."""
        if (self.path is None) == (self.older_than_ms is None):
            raise InvalidParamsError(
                "forget takes a path or an age, and one of them.", remedy="See `forget --help`."
            )
        if self.older_than_ms is not None and self.older_than_ms < 0:
            raise InvalidParamsError("An age is not negative.", remedy="Say for example 90d.")
        return ForgetRequest(path=self.path, older_than_ms=self.older_than_ms, remove=self.remove)
