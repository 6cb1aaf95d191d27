"""The day in the agent's time zone."""

from datetime import UTC, date, datetime

from fakes.each import each
from gateway.session_start import daily_log, today_and_yesterday
from gateway.tools.search import agent_now


@each(
    ("zone", "moment", "today", "yesterday"),
    [
        ("UTC", datetime(2026, 2, 8, 0, 0, tzinfo=UTC), "2026-02-08", "2026-02-07"),
        ("UTC", datetime(2026, 2, 7, 23, 59, 59, tzinfo=UTC), "2026-02-07", "2026-02-06"),
        ("Asia/Tokyo", datetime(2026, 2, 7, 15, 0, tzinfo=UTC), "2026-02-08", "2026-02-07"),
        ("Asia/Tokyo", datetime(2026, 2, 7, 14, 59, tzinfo=UTC), "2026-02-07", "2026-02-06"),
        ("America/New_York", datetime(2026, 2, 8, 4, 59, tzinfo=UTC), "2026-02-07", "2026-02-06"),
        ("Pacific/Kiritimati", datetime(2025, 12, 31, 10, 0, tzinfo=UTC), "2026-01-01", "2025-12-31"),
        # The day after the change to summer time began 23 hours after the day before it.
        ("Europe/Berlin", datetime(2026, 3, 29, 22, 30, tzinfo=UTC), "2026-03-30", "2026-03-29"),
        ("Europe/Berlin", datetime(2026, 10, 25, 23, 30, tzinfo=UTC), "2026-10-26", "2026-10-25"),
        ("UTC", datetime(2028, 3, 1, 12, 0, tzinfo=UTC), "2028-03-01", "2028-02-29"),
    ],
)  # fmt: skip
def test_a_day_begins_at_midnight_in_the_agents_own_time_zone(zone, moment, today, yesterday):
    days = today_and_yesterday(agent_now(zone, moment))
    assert days == (date.fromisoformat(today), date.fromisoformat(yesterday))


def test_without_a_time_zone_the_machines_own_counts():
    moment = datetime(2026, 2, 8, 12, 0, tzinfo=UTC)
    assert agent_now(None, moment) == moment
    assert agent_now(None, moment).utcoffset() == moment.astimezone().utcoffset()


def test_a_log_is_named_after_its_day():
    assert daily_log(date(2026, 2, 8)) == "memory/2026-02-08.md"
