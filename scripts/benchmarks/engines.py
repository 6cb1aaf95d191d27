"""Compares candidates for the engine of local embeddings, each in its own process with the same model and texts.

    ./scripts/bench engines [--threads N] [ENGINE...]

The model is all-MiniLM-L6-v2 in 16, 32 or 8 bits. All times are processor time, since a machine is rarely idle; with
one thread it is the time on an idle machine. An engine that is not installed is left out: `xllamacpp` is no
dependency, and `llama-cpp-python` comes from `./scripts/llama-setup`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from rich.console import Console

from benchmarks.running import figures, resident_bytes

ROOT: Final = Path(__file__).resolve().parents[2]
TEXTS: Final = 32
BATCH: Final = 16
QUERIES: Final = 20
MIB: Final = 1 << 20
Embed = Callable[[Sequence[str]], Any]


def texts(words_each: Callable[[random.Random], int], count: int = TEXTS) -> list[str]:
    """Returns pieces of this project's documentation, of random lengths; none has more than 512 tokens."""
    pages = sorted((ROOT / "docs").glob("*.md"))
    words = re.findall(r"[^\s|`]+", "\n".join(page.read_text(encoding="utf-8") for page in pages))
    draw = random.Random(3)
    starts = (draw.randrange(len(words) - 400) for _ in range(count))
    return [" ".join(words[start:][: words_each(draw)])[:1000] for start in starts]


def measured() -> dict[str, list[str]]:
    return {
        "short": texts(lambda draw: draw.randint(3, 20), 2 * TEXTS),
        "mixed": texts(lambda draw: min(160, 4 + int(draw.expovariate(1 / 70)))),
        "1 kB": texts(lambda _: 220, TEXTS // 2),
    }


def llama_cpp_python(threads: int) -> Iterator[Any]:
    from benchmarks.minilm_gguf import minilm_gguf
    from providers.local.worker import Open
    from providers.local.worker.llama import BATCH_TEXTS, LoadedModel, batches

    path = minilm_gguf()
    yield
    model = LoadedModel(Open(str(path), 512, 1, None))
    context = model.context(BATCH_TEXTS, threads)

    def embed(found: Sequence[str]) -> None:
        tokens = [model.read(text).tokens for text in found]
        for batch in batches([len(one) for one in tokens]):
            context.embed([tokens[at] for at in batch])

    yield embed


def xllamacpp(threads: int) -> Iterator[Any]:
    import xllamacpp as engine

    from benchmarks.minilm_gguf import minilm_gguf

    path = minilm_gguf()
    yield
    wanted = engine.CommonParams()
    wanted.model.path = str(path)
    wanted.embedding = True
    wanted.n_ctx, wanted.n_parallel = 4 * 512, 4  # a text beyond its slot fails the request
    wanted.n_batch = wanted.n_ubatch = 512
    wanted.pooling_type = engine.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    wanted.cpuparams.n_threads = wanted.cpuparams_batch.n_threads = threads
    server = engine.Server(wanted)

    def embed(found: Sequence[str]) -> None:
        answer = server.handle_embeddings({"input": list(found), "model": "m"})
        assert len(answer["data"]) == len(found), answer

    yield embed


def onnxruntime(bits: int, padded: int, threads: int, *, is_sorted: bool = True) -> Iterator[Any]:
    """`padded`: the most tokens of a batch, including the padding of shorter texts; 0: each text alone."""
    import numpy as np
    import onnxruntime as engine
    from tokenizers import Tokenizer

    from benchmarks.minilm_onnx import minilm_onnx

    path = minilm_onnx(bits)
    yield
    options = engine.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = engine.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(path.parent / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(512)

    def run(encoded: Sequence[Sequence[int]]) -> None:
        ids = np.zeros((len(encoded), max(map(len, encoded))), np.int64)
        mask = np.zeros_like(ids)
        for at, one in enumerate(encoded):
            ids[at, : len(one)], mask[at, : len(one)] = one, 1
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        (hidden,) = session.run(None, feed)
        (hidden * mask[..., None]).sum(1)

    def embed(found: Sequence[str]) -> None:
        encoded = [tokenizer.encode(text).ids for text in found]
        if is_sorted:
            encoded.sort(key=len)
        batch: list[list[int]] = []
        for one in encoded:
            longest = max(map(len, [*batch, one]))
            if batch and longest * (len(batch) + 1) > padded:
                run(batch)
                batch = []
            batch.append(one)
        run(batch)

    yield embed


class Candidate(NamedTuple):
    module: str
    how: str
    start: Callable[[int], Iterator[Any]]


CANDIDATES: Final = {
    "llama": Candidate("llama_cpp", "llama-cpp-python, 16 bits", llama_cpp_python),
    "xllamacpp": Candidate("xllamacpp", "xllamacpp, 16 bits", xllamacpp),
    "onnx-32": Candidate("onnxruntime", "onnxruntime, 32 bits", partial(onnxruntime, 32, 0)),
    "onnx-8": Candidate("onnxruntime", "onnxruntime, 8 bits", partial(onnxruntime, 8, 0)),
    "onnx-8-sorted": Candidate(
        "onnxruntime", "the same, by length in batches of 1,024", partial(onnxruntime, 8, 1024)
    ),
    "onnx-8-padded": Candidate(
        "onnxruntime",
        f"the same, {BATCH} as they come",
        partial(onnxruntime, 8, 1 << 20, is_sorted=False),
    ),
}


def measure(name: str, threads: int) -> dict[str, float]:
    steps = CANDIDATES[name].start(threads)
    next(steps)
    started = time.process_time()
    embed: Embed = next(steps)
    embed(["where did we put the key of the garden shed"])
    found = {"load": time.process_time() - started, "resident": resident_bytes(os.getpid()) / MIB}
    found["query"] = 1000 * statistics.median(_queries(embed))
    for kind, each in measured().items():
        busy = time.process_time()
        for start in range(0, len(each), BATCH):
            embed(each[start : start + BATCH])
        found[kind] = len(each) / (time.process_time() - busy)
    found["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found


def _queries(embed: Embed) -> Iterator[float]:
    for number in range(QUERIES):
        started = time.process_time()
        embed([f"what was said about the pump number {number} in autumn"])
        yield time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("engines", nargs="*", default=list(CANDIDATES))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(options.engines[0], options.threads)))
        return
    rates = (f"{kind} texts" for kind in measured())
    table = figures("Processor's seconds", "| load | resident | peak | query p50", *rates)
    for name in options.engines:
        module, how, _ = CANDIDATES[name]
        if importlib.util.find_spec(module) is None:
            print(f"{module} is not installed and left out.")
            continue
        command = [sys.executable, "-m", "benchmarks.engines", name, "--child"]
        command += ["--threads", str(options.threads)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stderr)
        got = json.loads(done.stdout.splitlines()[-1])
        print(how, got, file=sys.stderr, flush=True)
        table.add_row(
            how,
            f"{got['load']:.2f} s",
            f"{got['resident']:.0f} MiB",
            f"{got['peak']:.0f} MiB",
            f"{got['query']:.1f} ms",
            *(f"{got[kind]:.1f}/s" for kind in measured()),
        )
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
