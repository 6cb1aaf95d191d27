"""Tiny models in the GGUF format (version 3) that llama.cpp really loads: random BERTs of one layer.

Their vectors and scores mean nothing, but every step from a text to a number is real.
"""

from __future__ import annotations

import random
import string
import struct
from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Any

WIDTH = 32
CONTEXT = 2048
CHARACTERS = string.ascii_lowercase + string.digits
MEAN_POOLING, RANK_POOLING = 1, 4
_UINT32, _INT32, _FLOAT32, _BOOL, _STRING, _ARRAY = 4, 5, 6, 7, 8, 9
_ALIGNMENT = 32
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def write_embedder(
    path: Path,
    *,
    context: int = CONTEXT,
    characters: str = CHARACTERS,
    more: Mapping[str, int] | None = None,
    **settings: Any,
) -> Path:
    """Writes an embedder. `settings` replace values of the header, by key with `_` for `.`; None leaves one out.

    `more` adds integers that a BERT does not have.
    """
    tokens = _tokens(characters)
    values = _settings(path.stem, MEAN_POOLING, context, tokens)
    unknown = set(settings) - {key.replace(".", "_") for key, _, _ in values}
    assert not unknown, f"no such keys: {unknown}"
    chosen = [
        (key, kind, settings.get(key.replace(".", "_"), value)) for key, kind, value in values
    ]
    kept = [entry for entry in chosen if entry[2] is not None]
    kept += [(key, _UINT32, value) for key, value in (more or {}).items()]
    return _write(path, kept, _tensors(context, len(tokens)))


def write_reranker(path: Path) -> Path:
    classifier = {"cls": (WIDTH, WIDTH), "cls.output": (1, WIDTH)}
    tokens = _tokens(CHARACTERS)
    values = _settings(path.stem, RANK_POOLING, CONTEXT, tokens)
    values.append(("bert.classifier.output_labels", _STRING, ["LABEL_0"]))
    return _write(path, values, {**_tensors(CONTEXT, len(tokens)), **_layers(classifier)})


def _tokens(characters: str) -> list[str]:
    starts = [f"\u2581{one}" for one in characters + string.punctuation]
    return [*_SPECIAL, *starts, *characters]


def _settings(
    name: str, pooling: int, context: int, tokens: list[str]
) -> list[tuple[str, int, Any]]:
    kinds = [3] * len(_SPECIAL) + [1] * (len(tokens) - len(_SPECIAL))
    return [
        ("general.architecture", _STRING, "bert"),
        ("general.name", _STRING, name),
        ("general.file_type", _UINT32, 0),
        ("bert.block_count", _UINT32, 1),
        ("bert.context_length", _UINT32, context),
        ("bert.embedding_length", _UINT32, WIDTH),
        ("bert.feed_forward_length", _UINT32, WIDTH),
        ("bert.attention.head_count", _UINT32, 1),
        ("bert.attention.layer_norm_epsilon", _FLOAT32, 1e-12),
        ("bert.attention.causal", _BOOL, False),
        ("bert.pooling_type", _UINT32, pooling),
        ("bert.vocab_size", _UINT32, len(tokens)),
        ("tokenizer.ggml.model", _STRING, "bert"),
        ("tokenizer.ggml.pre", _STRING, "default"),
        ("tokenizer.ggml.token_type_count", _UINT32, 2),
        ("tokenizer.ggml.tokens", _STRING, tokens),
        ("tokenizer.ggml.token_type", _INT32, kinds),
        ("tokenizer.ggml.padding_token_id", _UINT32, 0),
        ("tokenizer.ggml.unknown_token_id", _UINT32, 1),
        ("tokenizer.ggml.bos_token_id", _UINT32, 2),
        ("tokenizer.ggml.eos_token_id", _UINT32, 3),
        ("tokenizer.ggml.seperator_token_id", _UINT32, 3),
        ("tokenizer.ggml.mask_token_id", _UINT32, 4),
    ]


def _tensors(context: int, words: int) -> dict[str, tuple[tuple[int, ...], array[float]]]:
    square = (WIDTH, WIDTH)
    tables = {"token_embd": (words, WIDTH), "position_embd": (context, WIDTH)}
    norms = ("token_embd_norm", "blk.0.attn_output_norm", "blk.0.layer_output_norm")
    names = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_up", "ffn_down")
    return {
        **{f"{name}.weight": (shape, _random(shape)) for name, shape in tables.items()},
        "token_types.weight": ((2, WIDTH), _random((2, WIDTH))),
        **{f"{name}.weight": ((WIDTH,), array("f", [1.0] * WIDTH)) for name in norms},
        **{f"{name}.bias": ((WIDTH,), array("f", [0.0] * WIDTH)) for name in norms},
        **_layers({f"blk.0.{name}": square for name in names}),
    }


def _layers(
    shapes: dict[str, tuple[int, int]],
) -> dict[str, tuple[tuple[int, ...], array[float]]]:
    weights = {f"{name}.weight": (shape, _random(shape)) for name, shape in shapes.items()}
    biases = {f"{n}.bias": ((s[0],), array("f", [0.0] * s[0])) for n, s in shapes.items()}
    return {**weights, **biases}


def _random(shape: tuple[int, ...]) -> array[float]:
    source = random.Random(repr(shape))
    return array("f", (source.gauss(0.0, 0.2) for _ in range(shape[0] * shape[1])))


def _write(
    path: Path,
    values: list[tuple[str, int, Any]],
    tensors: dict[str, tuple[tuple[int, ...], array[float]]],
) -> Path:
    head = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(values))]
    head += [_string(key) + _value(kind, value) for key, kind, value in values]
    body = bytearray()
    for name, (shape, data) in tensors.items():
        dimensions = struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        head.append(_string(name) + dimensions + struct.pack("<IQ", 0, len(body)))
        body += _padded(data.tobytes())
    path.write_bytes(_padded(b"".join(head)) + body)
    return path


def _value(kind: int, value: Any) -> bytes:
    if isinstance(value, list):
        items = b"".join(_scalar(kind, item) for item in value)
        return struct.pack("<IIQ", _ARRAY, kind, len(value)) + items
    return struct.pack("<I", kind) + _scalar(kind, value)


def _scalar(kind: int, value: Any) -> bytes:
    if kind == _STRING:
        return _string(value)
    return struct.pack({_UINT32: "<I", _INT32: "<i", _FLOAT32: "<f", _BOOL: "<?"}[kind], value)


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % _ALIGNMENT)
