"""What a result owes to each lane, for those who ask why it stands where it stands.

Owns the form of an explanation. The values come from `fusion`; nothing here takes part in ranking.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from backends.ranking.fusion import RankedPassage
    from backends.ranking.lanes import Lanes
    from backends.ranking.passages import File


class LaneShare(TypedDict):
    raw: float
    calibrated: float
    rank: int | None
    """Its place by `raw` among the lines of all candidates, from 1; equal ones share one. None where the
    lane found nothing in it."""
    weight: float


class Explanation(TypedDict):
    matchedTerms: Sequence[str]
    coverage: float
    fused: float
    chunkId: int
    text: LaneShare
    vector: LaneShare | None
    """None where no line of the passage has a vector."""
    freshness: float
    """What age left of its weight: 1 for all."""
    assured: bool
    """Whether it stands here because of the promise about keywords, not by `fused`."""


def explain(ranked: RankedPassage, lanes: Lanes, files: Collection[File]) -> Explanation:
    """`files`: every candidate that was ranked for the query."""
    cosine, deviations = ranked.vector_score, ranked.vector_deviations
    vector = None
    if cosine is not None and deviations is not None:
        cosines = {min(1.0, unit.cosine or 0.0) for file in files for unit in file.units}
        vector = _share(cosine, deviations, cosines, lanes.vector)
    shares = {one.text for file in files for one in file.evidence}
    return Explanation(
        matchedTerms=[concept.alternatives[0] for concept in ranked.passage.matched],
        coverage=round(ranked.passage.coverage, 4),
        fused=round(ranked.fused, 4),
        chunkId=ranked.passage.chunk_id,
        text=_share(ranked.text_share, ranked.text_score, shares, lanes.text),
        vector=vector,
        freshness=round(ranked.freshness, 4),
        assured=ranked.is_assured,
    )


def _share(raw: float, calibrated: float, all_raw: Collection[float], weight: float) -> LaneShare:
    return LaneShare(
        raw=round(raw, 4),
        calibrated=round(calibrated, 4),
        rank=1 + sum(other > raw for other in all_raw) if raw > 0 else None,
        weight=round(weight, 4),
    )
