"""all-MiniLM-L6-v2 as llama.cpp reads it: a GGUF file of 46 MB, made from the published weights.

Matrices in float16, everything else in float32; vectors differ from the original's by a cosine of
0.000002. Made once for each checkout, the same byte for byte everywhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import gguf
import numpy as np

from benchmarks.bert import Matrix, read_safetensors
from benchmarks.minilm_files import CACHE, minilm_files

_LAYERS, _WIDTH, _INNER, _HEADS, _POSITIONS = 6, 384, 1536, 12, 512
_SPECIAL: Final = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_WORD_START: Final = "\u2581"
"""llama.cpp marks where words begin; the original marks where they go on, by ##."""
_NAMES: Final = {
    "embeddings.word_embeddings": "token_embd",
    "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "token_embd_norm",
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
_KEPT_WIDE: Final = ("position_embd.weight", "token_types.weight")
_NAME = re.compile(r"(?:encoder\.layer\.(\d+)\.)?(.+)\.(weight|bias)")


def minilm_gguf(cache: Path = CACHE) -> Path:
    """The file; makes it if it is missing, which may download the weights (`minilm_files`)."""
    source = minilm_files(cache)
    target = source / "all-minilm-l6-v2-f16.gguf"
    if not target.exists():
        partial = target.with_suffix(".partial")
        _write(source, partial)
        partial.replace(target)
    return target


def _write(source: Path, target: Path) -> None:
    writer = gguf.GGUFWriter(str(target), "bert")
    _describe(writer)
    _add_vocabulary(writer, source / "tokenizer.json")
    for name, values in _tensors(source / "model.safetensors"):
        narrow = values.ndim == 2 and name not in _KEPT_WIDE
        writer.add_tensor(name, values.astype(np.float16 if narrow else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _describe(writer: gguf.GGUFWriter) -> None:
    writer.add_type(gguf.GGUFType.MODEL)
    writer.add_name("all-MiniLM-L6-v2")
    writer.add_license("apache-2.0")
    writer.add_block_count(_LAYERS)
    writer.add_context_length(_POSITIONS)
    writer.add_embedding_length(_WIDTH)
    writer.add_feed_forward_length(_INNER)
    writer.add_head_count(_HEADS)
    writer.add_layer_norm_eps(1e-12)
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)


def _add_vocabulary(writer: gguf.GGUFWriter, tokenizer: Path) -> None:
    numbers = json.loads(tokenizer.read_text(encoding="utf-8"))["model"]["vocab"]
    words = sorted(numbers, key=lambda word: numbers[word])
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    writer.add_token_type_count(2)
    writer.add_token_list([_rewritten(word) for word in words])
    kinds = gguf.TokenType
    writer.add_token_types([kinds.CONTROL if word in _SPECIAL else kinds.NORMAL for word in words])
    writer.add_pad_token_id(numbers["[PAD]"])
    writer.add_unk_token_id(numbers["[UNK]"])
    writer.add_bos_token_id(numbers["[CLS]"])
    writer.add_sep_token_id(numbers["[SEP]"])
    writer.add_mask_token_id(numbers["[MASK]"])
    writer.add_bool("tokenizer.ggml.normalizer.lowercase", True)


def _rewritten(word: str) -> str:
    if word in _SPECIAL:
        return word
    return word[2:] if word.startswith("##") else _WORD_START + word


def _tensors(weights: Path) -> Iterator[tuple[str, Matrix]]:
    for name, values in read_safetensors(weights).items():
        match = _NAME.fullmatch(name)
        if match is None or match[2] not in _NAMES:
            continue  # positions written out as numbers, and a head that gives no embedding
        layer = f"blk.{match[1]}." if match[1] else ""
        yield f"{layer}{_NAMES[match[2]]}.{match[3]}", values
