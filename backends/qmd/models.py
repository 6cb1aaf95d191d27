"""Which models QMD uses, and which of them lie on this machine, so that nothing ever waits for a download.

A missing model makes QMD try for twelve minutes to fetch it; here it is a sentence in `status`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

SearchMode = Literal["query", "search", "vsearch"]

_DEFAULTS: Final = {
    "embed": "hf:ggml-org/embeddinggemma-300M-GGUF/embeddinggemma-300M-Q8_0.gguf",
    "generate": "hf:tobil/qmd-query-expansion-1.7B-gguf/qmd-query-expansion-1.7B-q4_k_m.gguf",
    "rerank": "hf:ggml-org/Qwen3-Reranker-0.6B-Q8_0-GGUF/qwen3-reranker-0.6b-q8_0.gguf",
}
"""Those of QMD 2.8. A configuration that names all three is never rewritten by QMD."""
_VARIABLES: Final = {
    "embed": "QMD_EMBED_MODEL",
    "generate": "QMD_GENERATE_MODEL",
    "rerank": "QMD_RERANK_MODEL",
}

_NEEDED: dict[SearchMode, tuple[str, ...]] = {
    "search": (),
    "vsearch": ("embed",),
    "query": ("embed", "rerank"),
}


def named_models(environment: Mapping[str, str]) -> dict[str, str]:
    """The models that the operator names in variables."""
    return {
        kind: environment[name]
        for kind, name in _VARIABLES.items()
        if environment.get(name, "").strip()
    }


def all_models(environment: Mapping[str, str]) -> dict[str, str]:
    """What a new home uses for `embed`, `generate` and `rerank`."""
    return {**_DEFAULTS, **named_models(environment)}


def model_file(model: str, directory: Path) -> Path:
    """Where QMD looks for a model: a path as it is, an `hf:` address below `directory`."""
    if not model.startswith("hf:"):
        return Path(model)
    owner, _, name = model.removeprefix("hf:").partition("/")
    return directory / f"hf_{owner}_{name.rpartition('/')[2]}"


def missing_models(mode: SearchMode, models: Mapping[str, str], directory: Path) -> tuple[str, ...]:
    """The models that `mode` needs and that are not there, as they are configured."""
    needed = [models.get(kind, f"(no {kind} model)") for kind in _NEEDED[mode]]
    return tuple(model for model in needed if not model_file(model, directory).is_file())


def absent(models: Sequence[str]) -> str:
    """Some models and that they are not there, as the end of a sentence without its full stop."""
    return f"{' and '.join(models)} {'is' if len(models) == 1 else 'are'} not on this machine"
