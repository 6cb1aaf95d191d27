"""What `status` says about QMD. Blocks: it lists the disk and reads QMD's index.

Owns the counting and the section `qmd` of the details: program, way of asking, upkeep, models.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from backends.files.scan import scan
from backends.interface import BackendStatus, SourceCount
from backends.qmd.sidecar import home_of

if TYPE_CHECKING:
    from pathlib import Path

    from backends.qmd.backend import QmdBackend
    from backends.qmd.engine import Engine
    from config.settings import Settings


def report_status(settings: Settings, backend: QmdBackend) -> BackendStatus:
    """Never raises for the state of QMD: that is what it reports."""
    index = home_of(settings).index
    places, engine = backend.places, backend.engine
    result = scan(places.roots)
    now = {places.shown(one): one for one in result.files if places.is_seen(one)}
    indexed, vectors, trouble = _counts(index, places.collections)
    seen = engine.upkeep.seen if engine else {}
    pending = sum(seen.get(name) != one for name, one in now.items())
    gone = len(seen.keys() - now.keys())
    model = engine is not None and engine.search_mode != "search"
    issues = [str(backend.failure)] if engine is None else _issues(engine)
    missing = (f"{path} does not exist (yet)." for path in result.missing)
    return BackendStatus(
        backend="qmd",
        provider="qmd",
        model=engine.sidecar.models.get("embed") if engine and model else None,
        workspace=str(settings.workspace),
        database_path=str(index),
        database_bytes=_size(index),
        sources=(
            SourceCount(
                source="memory",
                on_disk=len(now),
                indexed=indexed,
                pending=pending,
                skipped=result.skipped_count + len(result.files) - len(now),
                chunks=vectors,
            ),
        ),
        skipped=result.skipped,
        dirty=bool(pending or gone),
        syncing=None,
        recent_syncs=tuple(backend.recent),
        issues=(*issues, *([trouble] if trouble else []), *missing),
        details={"qmd": _section(settings, engine)},
    )


def _issues(engine: Engine) -> list[str]:
    server, schedule = engine.server, engine.schedule
    said = [
        engine.warning,
        schedule.last_error,
        schedule.embed_error,
        server.last_error if server and server.port is None else None,
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
    section |= {
        "version": engine.sidecar.program.version_text,
        "runs": list(engine.sidecar.program.command.argv[-1:]),
        "mode": engine.asker.way,
        "effectiveSearchMode": engine.search_mode,
        "missingModels": list(engine.missing_models),
        "collections": sorted(engine.upkeep.registered.names),
        "running": schedule.running,
        "lastUpdateSecondsAgo": _ago(schedule.updated_at),
        "lastEmbedSecondsAgo": _ago(schedule.embedded_at),
        "lastError": schedule.last_error or schedule.embed_error,
        "nextTryInSeconds": round(schedule.pause_left_s, 1),
    }
    if server is not None:
        section["server"] = {
            "warm": server.port is not None,
            "pid": server.pid,
            "starts": server.starts,
            "memoryBytes": server.memory_bytes,
            "lastError": server.last_error,
        }
    return section


def _ago(moment: float | None) -> float | None:
    return None if moment is None else round(time.monotonic() - moment, 1)


def _counts(index: Path, names: Collection[str]) -> tuple[int, int, str | None]:
    """Active documents of our collections, vectors, and what hindered the counting."""
    import apsw  # noqa: PLC0415 - only status reads the index itself

    if not index.exists():
        return 0, 0, None
    try:
        connection = apsw.Connection(str(index), flags=apsw.SQLITE_OPEN_READONLY)
    except apsw.Error as error:
        return 0, 0, f"QMD's index cannot be read: {error}."
    try:
        connection.set_busy_timeout(1000)
        rows: Any = connection.execute(
            "SELECT collection, count(*) FROM documents WHERE active = 1 GROUP BY collection"
        ).fetchall()
        tables = connection.execute(
            "SELECT count(*) FROM sqlite_schema WHERE name = 'content_vectors'"
        ).get
        vectors = connection.execute("SELECT count(*) FROM content_vectors").get if tables else 0
    except apsw.Error as error:
        return 0, 0, f"QMD's index cannot be read: {error}."
    finally:
        connection.close()
    return sum(count for name, count in rows if name in names), vectors, None


def _size(index: Path) -> int:
    files = [index, index.with_name(index.name + "-wal")]
    return sum(one.stat().st_size for one in files if one.exists())
