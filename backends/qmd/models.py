"""Which of QMD's models lie on this machine, so that nothing ever waits for a download.

A missing model makes QMD try for twelve minutes to fetch it; here it is a sentence in `status`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

SearchMode = Literal["query", "search", "vsearch"]

_NEEDED: dict[SearchMode, tuple[str, ...]] = {
    "search": (),
    "vsearch": ("embed",),
    "query": ("embed", "rerank"),
}


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
