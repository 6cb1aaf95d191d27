"""What to run when the libraries for local embeddings are missing. Words only."""

from __future__ import annotations

from typing import Final

INSTALL_LOCAL: Final = (
    'Run: pip install "memory-gateway[local]" (it compiles llama.cpp for two to four minutes), '
    "or in a clone: ./scripts/llama-setup"
)
