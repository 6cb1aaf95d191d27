"""A service whose host returns no vectors."""

from __future__ import annotations

from typing import Any

import pytest

from providers import provider_interface
from providers.embedding.service import EmbeddingService

TEXTS = ["the first of the notes", "the second of the notes", "the third of the notes"]


async def fails(service: EmbeddingService, collected: Any) -> provider_interface.ProviderError:
    """Returns the error that ends the attempt to embed `TEXTS`; none of them may have got a vector."""
    with pytest.raises(provider_interface.ProviderError) as caught:
        await service.embed_documents(TEXTS, on_batch=collected)
    assert not collected.vectors
    return caught.value
