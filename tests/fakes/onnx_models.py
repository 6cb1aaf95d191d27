"""Tiny models in the ONNX format that ONNX Runtime really loads, with the files that belong to them.

Their vectors mean nothing, but every step from a text to a number is real. Each model has a directory of its own, as
the files beside it have the same names.
"""

from __future__ import annotations

import json
import string
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

WIDTH = 32
CONTEXT = 2048
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_CHARACTERS = string.ascii_lowercase + string.digits + string.punctuation


def write_embedder(
    path: Path,
    *,
    context: int = CONTEXT,
    seed: int = 1,
    pooling: str | None = "mean",
    architecture: str = "bert",
    greedy_from: int | None = None,
) -> Path:
    """Writes a model and the files beside it. `path` ends in `.onnx`.

    A text of more than `greedy_from` tokens needs more memory than any machine has.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(_network(context, seed, greedy_from), str(path))
    _tokenizer().save(str(path.parent / "tokenizer.json"))
    config = {"model_type": architecture, "hidden_size": WIDTH, "max_position_embeddings": context}
    (path.parent / "config.json").write_text(json.dumps(config), encoding="utf-8")
    if pooling is not None:
        (path.parent / "1_Pooling").mkdir(exist_ok=True)
        flags = {
            f"pooling_mode_{kind}": kind.startswith(pooling)
            for kind in ("cls_token", "mean_tokens", "lasttoken")
        }
        (path.parent / "1_Pooling/config.json").write_text(json.dumps(flags), encoding="utf-8")
    return path


def _tokenizer() -> Tokenizer:
    words = {word: number for number, word in enumerate((*_SPECIAL, *_CHARACTERS))}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    apart = pre_tokenizers.Split("", "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), apart])
    tokenizer.add_special_tokens(list(_SPECIAL))
    ends = [(word, words[word]) for word in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=ends)
    return tokenizer


def _network(context: int, seed: int, greedy_from: int | None) -> onnx.ModelProto:
    """Returns a network that mixes words and positions in one layer: vectors differ where texts do."""
    draw = np.random.default_rng(seed)
    shapes = {
        "words": (len(_SPECIAL) + len(_CHARACTERS), WIDTH),
        "places": (context, WIDTH),
        "mix": (WIDTH, WIDTH),
    }
    weights = {
        name: draw.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()
    }
    constants = {"first": np.int64(0), "one": np.int64(1), "axis": np.array([0], np.int64)}
    node = helper.make_node
    nodes = [
        node("Shape", ["input_ids"], ["shape"], start=1, end=2),
        node("Squeeze", ["shape"], ["length"]),
        node("Range", ["first", "length", "one"], ["numbers"]),
        node("Gather", ["words", "input_ids"], ["word"]),
        node("Gather", ["places", "numbers"], ["place"]),
        node("Add", ["word", "place"], ["both"]),
        node("MatMul", ["both", "mix"], ["mixed"]),
        node("Tanh", ["mixed"], ["bent" if greedy_from else "last_hidden_state"]),
    ]
    if greedy_from:
        constants |= {"limit": np.int64(greedy_from), "power": np.int64(6)}
        nodes += [
            node("Sub", ["length", "limit"], ["beyond"]),
            node("Max", ["beyond", "one"], ["excess"]),
            node("Pow", ["excess", "power"], ["sixth"]),
            node("Unsqueeze", ["sixth", "axis"], ["size"]),
            node("ConstantOfShape", ["size"], ["zeros"]),
            node("ReduceMax", ["zeros"], ["zero"], keepdims=0),
            node("Add", ["bent", "zero"], ["last_hidden_state"]),
        ]
    tensors = [
        numpy_helper.from_array(np.asarray(value), name)
        for name, value in (weights | constants).items()
    ]
    value = helper.make_tensor_value_info
    inputs = [
        value(name, TensorProto.INT64, ["batch", "tokens"])
        for name in ("input_ids", "attention_mask")
    ]
    output = value("last_hidden_state", TensorProto.FLOAT, ["batch", "tokens", WIDTH])
    graph = helper.make_graph(nodes, "tiny", inputs, [output], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
