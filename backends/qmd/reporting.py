"""What `status` says about QMD. Blocks: it lists the disk and reads QMD's index.

Owns the counting and the section `qmd` of the details: program, way of asking, upkeep, models.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from backends.files.scan import scan
from backends.interface import BackendStatus, SourceCount
from backends.qmd.sidecar import home_of

if TYPE_CHECKING:
    from pathlib import Path

    from backends.interface import SyncReport
    from backends.qmd.engine import Engine
    from backends.qmd.errors import QmdUnavailableError
    from backends.qmd.places import Places
    from config.settings import Settings, Source

_COUNTED: Final = """
    SELECT collection, count(*), sum(vectors) FROM (
        SELECT collection,
               (SELECT count(*) FROM content_vectors v WHERE v.hash = d.hash) AS vectors
        FROM documents d WHERE active = 1
    ) GROUP BY collection
"""


def report_status(
    settings: Settings,
    places: Places,
    engine: Engine | None,
    *,
    failure: QmdUnavailableError,
    recent: tuple[SyncReport, ...],
) -> BackendStatus:
    """Never raises for the state of QMD: that is what it reports. `failure`: why there is no engine."""
    index = home_of(settings).index
    result = scan(places.roots)
    now = places.seen_by_qmd(result.files)
    counts, trouble = _counts(index)
    seen = engine.upkeep.seen if engine else {}
    unknown = {name for name, one in now.items() if seen.get(name) != one}
    gone = len(seen.keys() - now.keys())
    model = engine is not None and engine.search_mode != "search"
    held: dict[Source, int] = {"memory": result.skipped_count + len(result.files) - len(now)}
    held |= {one.source: 0 for one in places.roots.collections if one.source not in held}
    issues = [str(failure)] if engine is None else _issues(engine)
    return BackendStatus(
        backend="qmd",
        provider="qmd",
        model=engine.sidecar.models.get("embed") if engine and model else None,
        workspace=str(settings.workspace),
        database_path=str(index),
        database_bytes=_size(index),
        sources=tuple(
            _count_source(one, skipped, places, now, unknown, counts)
            for one, skipped in held.items()
        ),
        skipped=result.skipped,
        dirty=bool(unknown or gone),
        syncing=None,
        recent_syncs=recent,
        issues=(*issues, *([trouble] if trouble else []), *places.exports.issues, *result.issues),
        details={"qmd": _section(settings, engine)},
    )


def _issues(engine: Engine) -> list[str]:
    server, schedule = engine.server, engine.schedule
    said = [
        engine.warning,
        schedule.last_error,
        schedule.embed_error,
        server.last_error if server.port is None else None,
    ]
    return [*engine.upkeep.registered.issues, *(one for one in said if one)]


def _section(settings: Settings, engine: Engine | None) -> dict[str, Any]:
    home = home_of(settings)
    section: dict[str, Any] = {
        "available": engine is not None,
        "command": settings.qmd.command,
        "home": str(home.root),
        "searchMode": settings.qmd.search_mode,
    }
    if engine is None:
        return section
    schedule, server = engine.schedule, engine.server
    return section | {
        "version": engine.sidecar.program.version_text,
        "runs": list(engine.sidecar.program.command.by_hand),
        "effectiveSearchMode": engine.search_mode,
        "missingModels": list(engine.missing_models),
        "collections": sorted(engine.upkeep.registered.names),
        "running": schedule.running,
        "lastUpdateSecondsAgo": _ago(schedule.updated_at),
        "lastEmbedSecondsAgo": _ago(schedule.embedded_at),
        "lastError": schedule.last_error or schedule.embed_error,
        "nextTryInSeconds": round(schedule.pause_left_s, 1),
        "server": {
            "warm": server.port is not None,
            "pid": server.pid,
            "port": server.port,
            "starts": server.starts,
            "memoryBytes": server.memory_bytes,
            "lastError": server.last_error,
        },
    }


def _ago(moment: float | None) -> float | None:
    return None if moment is None else round(time.monotonic() - moment, 1)


class _Counts(NamedTuple):
    """Of one collection, as QMD's index has it."""

    documents: int
    vectors: int


def _count_source(
    source: Source,
    skipped: int,
    places: Places,
    now: Collection[str],
    unknown: Collection[str],
    counts: Mapping[str, _Counts],
) -> SourceCount:
    names = [one.name for one in places.roots.collections if one.source == source]
    found = [counts[name] for name in names if name in counts]
    return SourceCount(
        source=source,
        on_disk=sum(places.source_of(name) == source for name in now),
        indexed=sum(one.documents for one in found),
        pending=sum(places.source_of(name) == source for name in unknown),
        skipped=skipped,
        chunks=sum(one.vectors for one in found),
    )


def _counts(index: Path) -> tuple[Mapping[str, _Counts], str | None]:
    """What is in each collection, and what hindered the counting."""
    import apsw  # noqa: PLC0415 - only status reads the index itself

    if not index.exists():
        return {}, None
    try:
        connection = apsw.Connection(str(index), flags=apsw.SQLITE_OPEN_READONLY)
    except apsw.Error as error:
        return {}, f"QMD's index cannot be read: {error}."
    try:
        connection.set_busy_timeout(1000)
        rows: Any = connection.execute(_COUNTED).fetchall()
    except apsw.Error as error:
        return {}, f"QMD's index cannot be read: {error}."
    finally:
        connection.close()
    return {name: _Counts(documents, vectors) for name, documents, vectors in rows}, None


def _size(index: Path) -> int:
    files = [index, index.with_name(index.name + "-wal")]
    return sum(one.stat().st_size for one in files if one.exists())
