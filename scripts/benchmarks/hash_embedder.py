"""The interface of embedding models in the benchmarks, and an embedder that hashes words and pairs of words.

The embedder knows which words two texts share and nothing of what they mean: it is the weakest useful model.
A hybrid search must not become worse than its keywords because of such vectors.

It does signed feature hashing (Weinberger et al., 2009, arXiv 0902.2206): every feature has a place and a
sign, both from its hash; its weight is 1 + ln(count); the sum is scaled to length 1.
"""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Vectors: TypeAlias = NDArray[np.float32]
"""Shape (texts, dimensions); each row has length (L2 norm) 1."""


class Embedder(Protocol):
    """A model that runs in this process. May be called by several threads at once."""

    @property
    def name(self) -> str:
        """The name by which clients ask for it."""
        ...

    @property
    def identity(self) -> str:
        """The name and every setting that matters: it changes whenever the vectors may change."""
        ...

    @property
    def dimensions(self) -> int: ...

    def tokens(self, text: str) -> int:
        """Returns how many tokens of the text are read; at least 1."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors: ...


_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
"""Kana and Han are written without spaces: there each character counts as a word."""
_WORD = re.compile(f"[{_UNSPACED}]|[^\\W{_UNSPACED}]+")
_MARKS = re.compile("[\u0300-\u036f]")


class HashEmbedder:
    """An embedder that has no state and needs no file."""

    name = "hash-384"
    identity = name
    dimensions = 384

    def tokens(self, text: str) -> int:
        return len(_words(text)) or 1

    def embed(self, texts: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            for feature, count in _features(text).items():
                place, sign = self._place(feature)
                vector[place] += sign * (1 + math.log(count))
            if not vector.any():
                # No word at all, or all cancelled out: the text as a whole still has a direction.
                place, sign = self._place(text)
                vector[place] = sign
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors

    def _place(self, feature: str) -> tuple[int, int]:
        digest = hashlib.blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        place, odd = divmod(int.from_bytes(digest, "little"), 2)
        return place % self.dimensions, 1 if odd else -1


def _features(text: str) -> Counter[str]:
    words = _words(text)
    return Counter(words) + Counter(" ".join(pair) for pair in pairwise(words))


def _words(text: str) -> list[str]:
    """Returns the words without case, compatibility forms and Latin, Greek or Cyrillic diacritics."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return _WORD.findall(unicodedata.normalize("NFC", _MARKS.sub("", decomposed)))
