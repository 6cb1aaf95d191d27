"""The forward pass of a BERT encoder with mean pooling, in plain numpy and float32.

Sequences of a batch lie one after the other in one matrix of shape (tokens, hidden) without any
padding: the linear layers see all tokens at once, attention sees one sequence at a time, and no mask
is needed. Devlin et al., 2018 (arXiv 1810.04805); names of weights as in Hugging Face's BertModel.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Matrix: TypeAlias = NDArray[np.float32]
_HEADS = 12
_EPSILON = 1e-12
_BLOCK = 1 << 15
"""Values that are handled together where memory, not arithmetic, is the limit: 128 KiB."""


class Linear(NamedTuple):
    weight: Matrix
    """Shape (inputs, outputs), contiguous: half the time of the stored transpose on short texts."""
    bias: Matrix

    def __call__(self, x: Matrix) -> Matrix:
        y: Matrix = x @ self.weight
        y += self.bias
        return y


class LayerNorm(NamedTuple):
    scale: Matrix
    shift: Matrix

    def __call__(self, x: Matrix) -> Matrix:
        """Works in place."""
        x -= x.mean(axis=1, keepdims=True)
        variance = np.einsum("ij,ij->i", x, x) / x.shape[1]
        x /= np.sqrt(variance + _EPSILON)[:, None]
        x *= self.scale
        x += self.shift
        return x


class Layer(NamedTuple):
    queries_keys_values: Linear
    """One matrix for three; the queries are already divided by the square root of a head's size."""
    attended: Linear
    attended_norm: LayerNorm
    widen: Linear
    narrow: Linear
    norm: LayerNorm

    def __call__(self, x: Matrix, bounds: Sequence[slice]) -> Matrix:
        y = self.attended(_attend(self.queries_keys_values(x), bounds))
        y += x
        x = self.attended_norm(y)
        y = self.narrow(_gelu(self.widen(x)))
        y += x
        return self.norm(y)


class Bert:
    """Weights that were loaded once; `encode` may be called by several threads at once."""

    def __init__(self, weights: Path) -> None:
        tensors = read_safetensors(weights)
        self._words = tensors["embeddings.word_embeddings.weight"]
        # Only the first of two sentence types is ever used, so it is part of the positions.
        self._positions = (
            tensors["embeddings.position_embeddings.weight"]
            + tensors["embeddings.token_type_embeddings.weight"][0]
        )
        self._norm = _norm(tensors, "embeddings.LayerNorm")
        depth = 1 + max(int(name.split(".")[2]) for name in tensors if ".layer." in name)
        self._layers = [_layer(tensors, f"encoder.layer.{number}.") for number in range(depth)]

    def encode(self, sequences: Sequence[Sequence[int]]) -> Matrix:
        """Token ids, special tokens included, to one unit vector a sequence."""
        ends = np.cumsum([len(sequence) for sequence in sequences])
        starts = np.concatenate(([0], ends[:-1]))
        bounds = [slice(start, end) for start, end in zip(starts, ends, strict=True)]
        x = self._words[np.concatenate(sequences)]
        x += np.concatenate([self._positions[: len(sequence)] for sequence in sequences])
        x = self._norm(x)
        for layer in self._layers:
            x = layer(x, bounds)
        # The sum points where the mean points, and only the direction is left.
        pooled: Matrix = np.add.reduceat(x, starts, axis=0)
        pooled /= np.linalg.norm(pooled, axis=1, keepdims=True)
        return pooled


def _attend(projected: Matrix, bounds: Sequence[slice]) -> Matrix:
    """Softmax attention inside each sequence; the division by the sum comes last, where it is small."""
    hidden = projected.shape[1] // 3
    result = np.empty((len(projected), hidden), np.float32)
    for bound in bounds:
        by_head = projected[bound].reshape(-1, 3, _HEADS, hidden // _HEADS).transpose(1, 2, 0, 3)
        queries, keys, values = by_head
        weights = queries @ keys.transpose(0, 2, 1)
        weights -= weights.max(axis=-1, keepdims=True)
        np.exp(weights, out=weights)
        context = weights @ values
        context /= weights.sum(axis=-1, keepdims=True)
        result[bound] = context.transpose(1, 0, 2).reshape(-1, hidden)
    return result


def _gelu(x: Matrix) -> Matrix:
    """Gaussian error linear unit, in place and in blocks that fit the processor's cache."""
    values = x.reshape(-1)
    for start in range(0, values.size, _BLOCK):
        _gelu_block(values[start : start + _BLOCK])
    return x


def _gelu_block(x: Matrix) -> None:
    """max(x, 0) - |x| erfc(|x| / sqrt 2) / 2, with erfc by Abramowitz and Stegun 7.1.26 (1.5e-7)."""
    size = np.abs(x)
    t = 1 / (1 + size * (0.3275911 / math.sqrt(2)))
    tail = t * 1.061405429
    for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        tail += coefficient
        tail *= t
    tail *= np.exp(size * size * -0.5)
    tail *= size * 0.5
    np.maximum(x, 0, out=x)
    x -= tail


def _layer(tensors: dict[str, Matrix], prefix: str) -> Layer:
    attention = prefix + "attention."
    query, key, value = (
        _linear(tensors, f"{attention}self.{name}") for name in ("query", "key", "value")
    )
    shrink = np.float32(1 / math.sqrt(query.weight.shape[1] / _HEADS))
    joined = Linear(
        np.concatenate((query.weight * shrink, key.weight, value.weight), axis=1),
        np.concatenate((query.bias * shrink, key.bias, value.bias)),
    )
    return Layer(
        joined,
        _linear(tensors, attention + "output.dense"),
        _norm(tensors, attention + "output.LayerNorm"),
        _linear(tensors, prefix + "intermediate.dense"),
        _linear(tensors, prefix + "output.dense"),
        _norm(tensors, prefix + "output.LayerNorm"),
    )


def _linear(tensors: dict[str, Matrix], name: str) -> Linear:
    return Linear(np.ascontiguousarray(tensors[f"{name}.weight"].T), tensors[f"{name}.bias"])


def _norm(tensors: dict[str, Matrix], name: str) -> LayerNorm:
    return LayerNorm(tensors[f"{name}.weight"], tensors[f"{name}.bias"])


def read_safetensors(path: Path) -> dict[str, Matrix]:
    """The float32 tensors: 8 bytes little-endian length, a header in JSON, then the raw values."""
    data = np.memmap(path, dtype=np.uint8, mode="r")
    values_at = 8 + int(data[:8].view("<u8")[0])
    header = json.loads(bytes(data[8:values_at]))
    tensors = {}
    for name, entry in header.items():
        if entry.get("dtype") == "F32":
            first, last = (values_at + offset for offset in entry["data_offsets"])
            tensors[name] = np.asarray(data[first:last]).view("<f4").reshape(entry["shape"])
    return tensors
