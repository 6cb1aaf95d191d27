"""The size of one request: documented limits, limits learned from refusals, the host's token count."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Self

import msgspec

from config.runtime.decoding import prepared
from providers.provider_interface import InputLimits, SizeReason

_RESERVE: Final = 0.97
"""The ratio varies a little between requests, and a refusal costs more than a few unused tokens."""
_ENOUGH_TOKENS: Final = 200
"""Shorter requests are ignored: closing tokens and rounding distort their ratio."""
_CORRECTION: Final = 1.25


class TokenScale(msgspec.Struct):
    """Mutable; survives restarts as a small dictionary."""

    limit: int | None = None
    """The limit of one request in the host's own tokens; None until the host names one."""
    ratio: float = 1.0
    """The host's tokens for one estimated token; the largest that was seen."""
    observed: bool = False

    def observe(self, estimated: int, counted: int) -> None:
        """Learns from an answer; `counted` is 0 when the host does not count."""
        if not counted or estimated < _ENOUGH_TOKENS:
            return
        ratio = counted / estimated
        self.ratio = max(self.ratio, ratio) if self.observed else ratio
        self.observed = True

    def refuse(self, estimated: int, named: int) -> None:
        """Learns from a refusal that names the limit.

        A request that should have fitted has more tokens than was thought, by an unknown factor.
        """
        if named >= estimated * self.ratio * _RESERVE:
            self.ratio = max(self.ratio, named / max(1, estimated)) * _CORRECTION
        self.limit = named

    @property
    def cap(self) -> int | None:
        """The limit of one request, in estimated tokens."""
        if self.limit is None:
            return None
        return max(1, int(self.limit * _RESERVE / self.ratio))


_CLOSE_ENOUGH = 16
"""The search for tokens and bytes ends when the gap is a sixteenth of the accepted size."""
_NAMED_TOKENS = "namedTokens"
_USUAL_ITEM_CAPS = tuple(
    map(int, "1 2 4 5 8 10 16 20 25 32 50 64 96 100 128 200 256 500 512 1000 1024".split())
)


class Size(msgspec.Struct, frozen=True):
    """The size of one text, or of all texts of one request."""

    items: int
    tokens: int
    bytes: int


class _Bound(msgspec.Struct):
    accepted: int = 0
    refused: int | None = None

    def accept(self, amount: int) -> None:
        self.accepted = max(self.accepted, amount)
        if self.refused is not None and self.accepted >= self.refused:
            self.refused = None

    def refuse(self, amount: int, named: int | None) -> None:
        if named is not None and named < amount:
            self.accepted, self.refused = named, named + 1
            return
        self.refused = min(amount, self.refused or amount)
        if self.accepted >= self.refused:
            # The estimates contradict each other, so the search begins again below the refused size.
            self.accepted = 0

    def next_try(self, usual: Sequence[int]) -> int | None:
        """Returns a size between the two, or None when the search is over or has not begun."""
        if self.refused is None:
            return None
        between = [cap for cap in usual if self.accepted < cap < self.refused]
        if usual:
            return between[len(between) // 2] if between else None
        gap = self.refused - self.accepted
        if self.accepted and gap <= max(1, self.accepted // _CLOSE_ENOUGH):
            return None
        return self.accepted + gap // 2

    def cap(self, usual: Sequence[int]) -> int | None:
        if self.refused is None:
            return None
        return max(1, self.next_try(usual) or self.accepted)


class LearnedLimits:
    """Mutable; belongs to one service."""

    def __init__(self) -> None:
        self._bounds: dict[str, _Bound] = {name: _Bound() for name in Size.__struct_fields__}
        self._scale = TokenScale()

    @classmethod
    def from_dict(cls, stored: Mapping[str, object]) -> Self:
        """Reads the result of `to_dict`; anything unknown or malformed in it is ignored."""
        learned = cls()
        for name in learned._bounds:
            try:
                bound = msgspec.convert(stored.get(name, {}), prepared(_Bound))
            except msgspec.ValidationError:
                continue
            if bound.refused is not None and 0 <= bound.accepted < bound.refused:
                learned._bounds[name] = bound
        learned._scale = _stored_scale(stored)
        return learned

    def to_dict(self) -> dict[str, dict[str, float]]:
        """Returns the bounds worth keeping, which are those of which something was refused. JSON-ready."""
        kept: dict[str, dict[str, float]] = {
            name: {"accepted": bound.accepted, "refused": bound.refused}
            for name, bound in self._bounds.items()
            if bound.refused is not None
        }
        if self._scale.limit is not None:
            kept[_NAMED_TOKENS] = {"limit": self._scale.limit, "ratio": self._scale.ratio}
        return kept

    def accepted(self, size: Size, *, counted: int = 0) -> None:
        """Notes that a request was answered; `counted` are its tokens as the host counts them."""
        self._scale.observe(size.tokens, counted)
        for name, bound in self._bounds.items():
            bound.accept(getattr(size, name))

    def refused(self, size: Size, reason: SizeReason, named: int | None) -> None:
        """Notes a refusal; `reason` must be one of whole requests, not `input`."""
        if reason == "tokens" and named is not None:
            self._scale.refuse(size.tokens, named)
        else:
            self._bounds[reason].refuse(getattr(size, reason), named)

    @property
    def settled(self) -> bool:
        """True if no cap is being searched for."""
        return all(bound.next_try(_usual(name)) is None for name, bound in self._bounds.items())

    def apply(self, documented: InputLimits) -> InputLimits:
        """Returns the documented limits, or lower ones that were learned."""

        def lowered(name: str, amount: int) -> int:
            cap = self._bounds[name].cap(_usual(name))
            return amount if cap is None else min(amount, cap)

        tokens = lowered("tokens", documented.max_request_tokens)
        return InputLimits(
            max_input_tokens=documented.max_input_tokens,
            max_items=lowered("items", documented.max_items),
            max_request_tokens=min(tokens, self._scale.cap or tokens),
            max_request_bytes=lowered("bytes", documented.max_request_bytes),
        )


def _stored_scale(stored: Mapping[str, object]) -> TokenScale:
    try:
        scale = msgspec.convert(stored.get(_NAMED_TOKENS), prepared(TokenScale))
    except msgspec.ValidationError:
        return TokenScale()
    scale.observed = True
    return scale if scale.ratio > 0 and (scale.limit or 0) > 0 else TokenScale()


def _usual(name: str) -> Sequence[int]:
    return _USUAL_ITEM_CAPS if name == "items" else ()


def estimate_tokens(text: str) -> int:
    """Returns about how many tokens a text has: four ASCII characters make one, a CJK character is one.

    From the UTF-8 length alone, so that it costs nothing; at least 1.
    """
    size = len(text.encode("utf-8", "replace"))
    wide = (size - len(text)) / 2
    return max(1, round(len(text) / 4 + wide * 0.75))


def size_of(text: str) -> Size:
    return Size(1, estimate_tokens(text), len(text.encode("utf-8", "replace")))


def total(sizes: Iterable[Size]) -> Size:
    items = tokens = size = 0
    for one in sizes:
        items, tokens, size = items + one.items, tokens + one.tokens, size + one.bytes
    return Size(items, tokens, size)


def fill(waiting: Iterable[Size], limits: InputLimits) -> int:
    """Returns how many of the leading texts make the next request: at least 1 if there are any."""
    count = tokens = size = 0
    for text in waiting:
        tokens, size = tokens + text.tokens, size + text.bytes
        full = (
            count >= limits.max_items
            or tokens > limits.max_request_tokens
            or size > limits.max_request_bytes
            or text.tokens > limits.max_input_tokens
        )
        if count and full:
            return count
        count += 1
        if text.tokens > limits.max_input_tokens:
            return count
    return count


class WorkList:
    """The texts that wait, handed out a request at a time. `limits` is called for each, since refusals of the host
    change the limits.
    """

    def __init__(
        self, sizes: Sequence[Size], positions: Sequence[int], limits: Callable[[], InputLimits]
    ) -> None:
        self._sizes = sizes
        self._limits = limits
        self._waiting = deque(positions)
        self._split: deque[list[int]] = deque()
        self._token_cap: int | None = None

    def take(self) -> list[int] | None:
        """Returns the positions of the next request in order, or None if nothing waits."""
        if self._split:
            return self._split.popleft()
        if not self._waiting:
            return None
        count = fill((self._sizes[at] for at in self._waiting), self._current_limits())
        return [self._waiting.popleft() for _ in range(count)]

    def size(self, positions: Sequence[int]) -> Size:
        return total(self._sizes[at] for at in positions)

    def put_back(self, positions: Sequence[int]) -> None:
        """Puts texts back, to be sent in the sizes that the limits allow by then."""
        self._waiting.extendleft(reversed(positions))

    def split(self, positions: Sequence[int]) -> None:
        """Puts texts back as two halves, to be sent next, since one of the texts makes the request fail."""
        half = len(positions) // 2
        self._split.extendleft([list(positions[half:]), list(positions[:half])])

    def shrink(self, positions: Sequence[int]) -> None:
        """Puts texts back; for the rest of this run, requests are at most half the size of this one."""
        self._token_cap = max(1, self.size(positions).tokens // 2)
        self.put_back(positions)

    def _current_limits(self) -> InputLimits:
        limits = self._limits()
        if self._token_cap is None:
            return limits
        capped = min(self._token_cap, limits.max_request_tokens)
        return msgspec.structs.replace(limits, max_request_tokens=capped)
