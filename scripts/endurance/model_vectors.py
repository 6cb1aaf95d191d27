"""What a model gives for each of some texts when it is asked for it alone. Runs as a program of its own.

    python -P scripts/endurance/model_vectors.py MODEL < texts.json > vectors.json

A list of texts becomes a list of lists of numbers. llama.cpp is loaded here and not where runs are checked:
it opens files that it never closes, and a model that ends it must not end them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from providers.local.model import Wishes, read_model
from providers.local.worker.llama import LoadedModel


def main() -> None:
    model = LoadedModel(read_model(Path(sys.argv[1]), Wishes()).order)
    context = model.context(texts=1, threads=1)
    texts = json.load(sys.stdin)
    json.dump([context.embed([model.read(text).tokens])[0].tolist() for text in texts], sys.stdout)


if __name__ == "__main__":
    main()
