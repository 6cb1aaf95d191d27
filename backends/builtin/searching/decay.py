"""How much of an old note's weight is left: `query.decay`, off by default.

Owns the age of dated notes. A note without a date in its name does not age.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import apsw
from msgspec.structs import replace

from backends.builtin.storage.arrays import int64s
from backends.ranking.units import Candidate
from config.settings import DecaySettings


def aged(
    connection: apsw.Connection,
    candidates: Sequence[Candidate],
    settings: DecaySettings,
    today: date,
) -> list[Candidate]:
    """The candidates with what is left of their weight: half after each half-life."""
    files = int64s(list({one.file_id for one in candidates}))
    share = {
        file_id: 0.5 ** (max(0, (today - date.fromisoformat(day)).days) / settings.half_life_days)
        for file_id, day in connection.execute(
            "SELECT id, note_date FROM files WHERE note_date IS NOT NULL"
            " AND id IN (SELECT value FROM carray(?))",
            (files,),
        )
    }
    return [replace(one, freshness=share.get(one.file_id, 1.0)) for one in candidates]
