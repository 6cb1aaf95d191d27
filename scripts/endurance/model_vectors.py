"""Prints the vector that a model gives for each of some texts alone. Runs as a program of its own.

    python -P scripts/endurance/model_vectors.py MODEL < texts.json > vectors.json

A list of texts becomes a list of lists of numbers. The engine is loaded here and not where runs are checked:
a model that ends its process must not end theirs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from providers.local.model import Wishes, read_model
from providers.local.worker.__main__ import loaded


def main() -> None:
    engine = loaded(read_model(Path(sys.argv[1]), Wishes()).order)
    texts = json.load(sys.stdin)
    rows = (engine.embed("query", [engine.read(text).tokens])[0] for text in texts)
    json.dump([row.tolist() for row in rows], sys.stdout)


if __name__ == "__main__":
    main()
