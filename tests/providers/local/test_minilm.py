"""The truth: a real model gives the vectors that its authors' own program gives."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.minilm_gguf import minilm_gguf

pytestmark = pytest.mark.anyio

ORIGINAL = json.loads(
    (Path(__file__).parents[2] / "data/minilm_vectors.json").read_text(encoding="utf-8")
)
"""Computed once in float32, from weights and tokenizer as published, up to 512 tokens; by an encoder whose
components differed from those of sentence-transformers 6.2.0 by 3e-7 at most."""
*WHOLE, CUT = [(entry["text"] * entry["times"], np.array(entry["vector"])) for entry in ORIGINAL]


async def test_vectors_of_minilm_are_those_of_the_original(embedding):
    texts, reference = [text for text, _ in WHOLE], np.stack([vector for _, vector in WHOLE])
    async with embedding(minilm_gguf()) as embedder:
        together = np.stack((await embedder.embed_documents(texts)).items)
        alone = np.stack([await embedder.embed_query(text) for text in texts])
    assert np.sum(together * reference, axis=1).min() > 0.999
    assert np.sum(alone * reference, axis=1).min() > 0.999


async def test_a_longer_text_is_cut_where_the_original_cuts_it(embedding):
    """At 512 tokens, the closing one included: without that the cosine is a tenth of a percent off."""
    text, reference = CUT
    async with embedding(minilm_gguf()) as embedder:
        (vector,) = (await embedder.embed_documents([text])).items
        assert embedder.report().worker.cut_texts == 1
    assert float(vector @ reference) > 0.9999
