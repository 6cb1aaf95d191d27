"""A note: chunks, units, excerpts, index terms and snippets of any text.

The first byte chooses the limits of a chunk, the last line is what is asked for.
"""

from __future__ import annotations

from itertools import pairwise

from backends.builtin.notes.preparing import Preparer
from backends.chunking import Chunk, ChunkLimits, chunk_markdown
from backends.files.reading import decode
from backends.qmd.documents import analyse
from backends.qmd.passages import Found, Proposal, document_passages, lexical_passages
from backends.text.units import split_units, utf16_length

_LIMITS = (ChunkLimits(), ChunkLimits(60, 10), ChunkLimits(9, 3), ChunkLimits(1, 0))
_SNIPPET = 700


def run(data: bytes) -> None:
    text, _ = decode(data)
    limits = _LIMITS[data[0] % len(_LIMITS) if data else 0]
    _check_chunks(text, chunk_markdown(text, limits))
    _check_units(text)
    _check_rows(text, limits)
    _check_snippets(text)


def _check_chunks(text: str, chunks: list[Chunk]) -> None:
    assert bool(chunks) == bool(text)
    if chunks:
        assert chunks[0].start == 0
        assert chunks[-1].end == len(text)
    for before, chunk in pairwise(chunks):
        assert before.start < chunk.start <= before.end < chunk.end
    for chunk in chunks:
        assert chunk.start_line == 1 + text.count("\n", 0, chunk.start)
        assert chunk.end_line == chunk.start_line + text.count("\n", chunk.start, chunk.end - 1)


def _check_units(text: str) -> None:
    units = split_units(text)
    assert "".join(text[one.start : one.end] for one in units) == text.replace("\n", "")
    assert all(utf16_length(text[one.start : one.end]) <= _SNIPPET for one in units)


def _check_rows(text: str, limits: ChunkLimits) -> None:
    prepared = Preparer(limits).prepare("memory/2026-02-01.md", text)
    for chunk in prepared.chunks:
        assert text.startswith(chunk.text, chunk.start)
        assert len(chunk.terms.split("\n")) == len(split_units(chunk.text))
        ends = [0, *(excerpt.end for excerpt in chunk.excerpts)]
        for end, excerpt in zip(ends, chunk.excerpts, strict=False):
            assert end <= excerpt.start < excerpt.end <= len(chunk.text)
            assert chunk.text[excerpt.start : excerpt.end].strip()
            assert excerpt.line == chunk.text.count("\n", 0, excerpt.start)


def _check_snippets(text: str) -> None:
    question = text.rstrip("\n").rpartition("\n")[2]
    proposals = [Proposal(analyse(text), 0.5, 1)]
    for passages in (lexical_passages, document_passages):
        for found in passages(question, proposals, max_chars=_SNIPPET):
            _check_passage(text, found)


def _check_passage(text: str, found: Found) -> None:
    passage = found.passage
    assert 0 <= found.score <= 1
    assert 0 <= found.coverage <= 1
    assert text.startswith(passage.text, passage.start)
    assert utf16_length(passage.text) <= _SNIPPET
    assert passage.start_line == 1 + text.count("\n", 0, passage.start)
    assert passage.end_line == passage.start_line + passage.text.count("\n")
