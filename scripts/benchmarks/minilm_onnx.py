"""all-MiniLM-L6-v2 as ONNX Runtime reads it, from the same weights as the GGUF file.

It is in float32, or in 8 bits as models are published.
"""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from gguf.utility import SafetensorsLocal
from onnx import TensorProto, helper, numpy_helper

from benchmarks.minilm_gguf import CACHE, alone, minilm_files

_LAYERS, _HEADS, _WIDTH, _POSITIONS = 6, 12, 384, 512
_CONFIG: Final = '{"model_type": "bert", "hidden_size": 384, "max_position_embeddings": 512}'
_POOLING: Final = '{"pooling_mode_mean_tokens": true}'


def minilm_onnx(bits: int = 32, cache: Path = CACHE) -> Path:
    """Returns the file, with those that belong to it in the same directory. Makes it if it is missing."""
    source = minilm_files(cache)
    directory = cache / "all-minilm-l6-v2-onnx"
    target = directory / f"model_{'quint8' if bits == 8 else 'float32'}.onnx"
    wide = minilm_onnx(32, cache) if bits == 8 else None
    with alone(directory):
        if not target.exists():
            _write(source, target, wide)
    return target


def _write(source: Path, target: Path, wide: Path | None) -> None:
    """Writes the files beside the model, then the model: in 8 bits from `wide`, else from the weights in `source`."""
    directory, partial = target.parent, target.with_suffix(".partial")
    (directory / "1_Pooling").mkdir(exist_ok=True)
    shutil.copy(source / "tokenizer.json", directory)
    (directory / "config.json").write_text(_CONFIG, encoding="utf-8")
    (directory / "1_Pooling/config.json").write_text(_POOLING, encoding="utf-8")
    if wide:
        _quantise(wide, partial)
    else:
        onnx.save(_network(SafetensorsLocal(source / "model.safetensors").tensors), str(partial))
    partial.replace(target)


def _quantise(source: Path, target: Path) -> None:
    """Quantises dynamically to unsigned bytes, as the suggested model was."""
    from onnxruntime.quantization import QuantType, quantize_dynamic  # noqa: PLC0415 - slow to load

    quantize_dynamic(source, target, weight_type=QuantType.QUInt8, per_channel=True)


class _Graph:
    def __init__(self, tensors: Any) -> None:
        self._tensors = tensors
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Any] = {}

    def weight(self, name: str) -> str:
        tensor = self._tensors[name]
        self.constants[name] = tensor.mmap_bytes().view("<f4").reshape(tensor.shape)
        return name

    def constant(self, value: Any) -> str:
        name = f"constant{len(self.constants)}"
        self.constants[name] = value
        return name

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = attributes.pop("name", f"{kind}{len(self.nodes)}")
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def linear(self, value: str, prefix: str) -> str:
        weight = self.weight(f"{prefix}.weight")
        self.constants[weight] = np.ascontiguousarray(self.constants[weight].T)
        return self.add("Add", self.add("MatMul", value, weight), self.weight(f"{prefix}.bias"))

    def norm(self, value: str, prefix: str, **attributes: Any) -> str:
        scale, bias = self.weight(f"{prefix}.weight"), self.weight(f"{prefix}.bias")
        return self.add("LayerNormalization", value, scale, bias, epsilon=1e-12, **attributes)


def _network(tensors: Any) -> onnx.ModelProto:
    graph = _Graph(tensors)
    length = graph.add("Shape", "input_ids", start=1, end=2)
    zero = graph.constant(np.int64(0))
    numbers = graph.add("Range", zero, graph.add("Squeeze", length), graph.constant(np.int64(1)))
    words = graph.add("Gather", graph.weight("embeddings.word_embeddings.weight"), "input_ids")
    places = graph.add("Gather", graph.weight("embeddings.position_embeddings.weight"), numbers)
    kinds = graph.add(
        "Gather", graph.weight("embeddings.token_type_embeddings.weight"), "token_type_ids"
    )
    value = graph.norm(
        graph.add("Add", graph.add("Add", words, places), kinds), "embeddings.LayerNorm"
    )
    as_float = graph.add("Cast", "attention_mask", to=TensorProto.FLOAT)
    absent = graph.add("Sub", graph.constant(np.float32(1)), as_float)
    away = graph.add("Mul", absent, graph.constant(np.float32(-1e9)))
    mask = graph.add("Unsqueeze", away, graph.constant(np.array([1, 2], np.int64)))
    apart = graph.constant(np.array([0, 0, _HEADS, _WIDTH // _HEADS], np.int64))
    together = graph.constant(np.array([0, 0, _WIDTH], np.int64))
    scale = graph.constant(np.float32(math.sqrt(_WIDTH / _HEADS)))
    for number in range(_LAYERS):
        prefix = f"encoder.layer.{number}"
        query, key, content = (
            graph.add(
                "Transpose",
                graph.add("Reshape", graph.linear(value, f"{prefix}.attention.self.{part}"), apart),
                perm=order,
            )
            for part, order in (
                ("query", [0, 2, 1, 3]),
                ("key", [0, 2, 3, 1]),
                ("value", [0, 2, 1, 3]),
            )
        )
        scores = graph.add("Add", graph.add("Div", graph.add("MatMul", query, key), scale), mask)
        mixed = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), content)
        joined = graph.add("Reshape", graph.add("Transpose", mixed, perm=[0, 2, 1, 3]), together)
        attended = graph.linear(joined, f"{prefix}.attention.output.dense")
        value = graph.norm(
            graph.add("Add", attended, value), f"{prefix}.attention.output.LayerNorm"
        )
        inner = graph.linear(value, f"{prefix}.intermediate.dense")
        share = graph.add("Erf", graph.add("Div", inner, graph.constant(np.float32(math.sqrt(2)))))
        raised = graph.add("Mul", inner, graph.add("Add", share, graph.constant(np.float32(1))))
        bent = graph.add("Mul", raised, graph.constant(np.float32(0.5)))
        outer = graph.add("Add", graph.linear(bent, f"{prefix}.output.dense"), value)
        last = {"name": "last_hidden_state"} if number == _LAYERS - 1 else {}
        value = graph.norm(outer, f"{prefix}.output.LayerNorm", **last)
    info = helper.make_tensor_value_info
    inputs = [
        info(name, TensorProto.INT64, ["batch", "tokens"])
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    output = info("last_hidden_state", TensorProto.FLOAT, ["batch", "tokens", _WIDTH])
    constants = [
        numpy_helper.from_array(np.asarray(value), name) for name, value in graph.constants.items()
    ]
    return helper.make_model(
        helper.make_graph(graph.nodes, "minilm", inputs, [output], constants),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=9,
    )
