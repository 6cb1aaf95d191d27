"""Which day it is for the agent: in the time zone of its user, else of the machine. Pure."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, tzinfo

MEMORY_DIRECTORY = "memory"


def agent_now(time_zone: str | None, now: datetime | None = None) -> datetime:
    """The present moment in an IANA time zone that was checked before; None: the machine's own."""
    moment = now or datetime.now(UTC)
    return moment.astimezone(_zone(time_zone) if time_zone else None)


def _zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - only when the key is set

    return ZoneInfo(name)


def today_and_yesterday(now: datetime) -> tuple[date, date]:
    """Calendar days of the moment's own time zone, also where a day has 23 or 25 hours."""
    return now.date(), now.date() - timedelta(days=1)


def daily_log(day: date) -> str:
    """The index path of a day's log, as documented: `memory/2026-02-08.md`."""
    return f"{MEMORY_DIRECTORY}/{day.isoformat()}.md"
