"""A real model gives the vectors that its authors' own program gives."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.minilm_gguf import minilm_gguf
from benchmarks.minilm_onnx import minilm_onnx
from fakes.local_models import ENGINES

pytestmark = pytest.mark.anyio

ORIGINAL = json.loads(
    (Path(__file__).parents[2] / "data/minilm_vectors.json").read_text(encoding="utf-8")
)
"""The vectors, computed once in float32, from weights and tokenizer as published, up to 512 tokens, by an encoder
whose components differed from those of sentence-transformers 6.2.0 by 3e-7 at most.
"""
*WHOLE, CUT = [(entry["text"] * entry["times"], np.array(entry["vector"])) for entry in ORIGINAL]


@pytest.fixture(params=ENGINES)
def minilm(request):
    return minilm_onnx() if request.param == "onnxruntime" else minilm_gguf()


async def test_vectors_of_minilm_are_those_of_the_original(embedding, minilm):
    texts, reference = [text for text, _ in WHOLE], np.stack([vector for _, vector in WHOLE])
    async with embedding(minilm) as embedder:
        together = np.stack((await embedder.embed_documents(texts)).items)
        alone = np.stack([await embedder.embed_query(text) for text in texts])
    assert np.sum(together * reference, axis=1).min() > 0.999
    assert np.sum(alone * reference, axis=1).min() > 0.999


async def test_a_longer_text_is_cut_where_the_original_cuts_it(embedding, minilm):
    """The limit is 512 tokens, the closing one included: without that the cosine is a tenth of a percent off."""
    text, reference = CUT
    async with embedding(minilm) as embedder:
        (vector,) = (await embedder.embed_documents([text])).items
        assert embedder.report().worker.cut_texts == 1
    assert float(vector @ reference) > 0.9999


async def test_in_8_bits_the_vectors_of_minilm_are_near_those_of_the_original(embedding):
    """The suggested model is published in 8 bits; each text is alone, so that no other affects its vector."""
    texts, reference = [text for text, _ in WHOLE], np.stack([vector for _, vector in WHOLE])
    async with embedding(minilm_onnx(8)) as embedder:
        together = np.stack((await embedder.embed_documents(texts)).items)
        (alone,) = (await embedder.embed_documents(texts[:1])).items
    assert np.sum(together * reference, axis=1).min() > 0.98
    assert alone.tolist() == together[0].tolist()
