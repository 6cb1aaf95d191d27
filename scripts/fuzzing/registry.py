"""The parsers that are fuzzed: for each a function of bytes that raises when something is wrong.

Owns the names, and of which modules a fuzzer watches the branches. Importing this loads none of them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Final, NamedTuple

Run = Callable[[bytes], None]


class Target(NamedTuple):
    place: str
    """`module:function` below `fuzzing.targets`."""
    watched: tuple[str, ...]
    """Modules and packages of the gateway."""
    longest: int = 4096
    """Bytes of an input that a fuzzer makes up."""

    def load(self) -> Run:
        module, _, function = self.place.partition(":")
        run: Run = getattr(importlib.import_module(f"fuzzing.targets.{module}"), function)
        return run


_REMOTE: Final = ("providers.remote",)

TARGETS: Final[dict[str, Target]] = {
    "protocol": Target("protocol:run", ("gateway.rpc.framing", "gateway.rpc.messages", "gateway.rpc.arrays", "gateway.rpc.surrogates")),
    "configuration": Target("configuration:run", ("config",), 2048),
    "markdown": Target(
        "markdown:run",
        ("backends.chunking", "backends.text", "backends.ranking", "backends.builtin.notes.preparing",
         "backends.qmd.passages", "backends.qmd.documents"),
    ),
    "transcripts": Target("transcripts:run", ("backends.transcripts", "backends.redaction")),
    "openai": Target("vendors:openai", _REMOTE, 1024),
    "gemini": Target("vendors:gemini", _REMOTE, 1024),
    "voyage": Target("vendors:voyage", _REMOTE, 1024),
    "refusals": Target("refusals:run", ("providers.remote.replies", "providers.remote.sizes", "providers.remote.echo", "config.secrets")),
    "batches": Target("batches:run", ("providers.batch.lines", "providers.remote.vectors")),
    "qmd-answer": Target("qmd:answer", ("backends.qmd.asking", "backends.qmd.http")),
    "qmd-server": Target("qmd:server", ("backends.qmd.asking", "backends.qmd.http"), 1024),
    "gguf": Target("local:gguf", ("providers.local.gguf", "providers.local.model", "providers.local.families")),
    "worker-frames": Target("local:frames", ("providers.local.protocol",), 1024),
}  # fmt: skip
