"""The truth: a real model gives the vectors that its authors' own program gives."""

import numpy as np
import pytest

from benchmarks.minilm import MiniLM
from benchmarks.minilm_gguf import minilm_gguf

pytestmark = pytest.mark.anyio

LONG = "The committee moved the meeting about the greenhouse to Thursday afternoon. "
TEXTS = [
    "The boiler is serviced by Hartmann, every October.",
    "x",
    "Wo steht der Schlüssel für das Gartenhaus?",
    "Тренировка перенесена на четверг.",
    "今天和供应商谈了茶叶的价格。",
    "- Commit `a828e60` fixes `memorySearch.query.hybrid`.\n\n```sh\nmake -j2\n```",
    "naïve café, 1,234.5 kg … 🙂",
    LONG * 10,
    LONG * 35,
]


async def test_vectors_of_minilm_are_those_of_the_original(embedding):
    reference = MiniLM(max_tokens=512).embed(TEXTS)
    async with embedding(minilm_gguf()) as embedder:
        together = np.stack((await embedder.embed_documents(TEXTS)).items)
        alone = np.stack([await embedder.embed_query(text) for text in TEXTS])
    assert np.sum(together * reference, axis=1).min() > 0.999
    assert np.sum(alone * reference, axis=1).min() > 0.999


async def test_a_longer_text_is_cut_where_the_original_cuts_it(embedding):
    """At 512 tokens, the closing one included: without that the cosine is a tenth of a percent off."""
    reference = MiniLM(max_tokens=512).embed([LONG * 100])[0]
    async with embedding(minilm_gguf()) as embedder:
        (vector,) = (await embedder.embed_documents([LONG * 100])).items
        assert embedder.report()["worker"]["cut_texts"] == 1
    assert float(vector @ reference) > 0.9999
