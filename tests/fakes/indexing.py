"""An indexer and its surveyor, as a backend puts them together."""

from __future__ import annotations

from backends.builtin.syncing.indexing import Indexer
from backends.builtin.syncing.surveying import Surveyor


def indexer_of(
    store, roots, preparer, sessions=None, *, surveyor=Surveyor, indexer=Indexer
) -> Indexer:
    return indexer(store, surveyor(store, roots, preparer.notes_pipeline, sessions), preparer)
