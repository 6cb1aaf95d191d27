"""`query.decay`: newer notes come first, and no exact match is hidden by its age."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from config.settings import DecaySettings

pytestmark = [pytest.mark.anyio, pytest.mark.every_store]


@pytest.fixture
def dated(home):
    """Notes written some days ago."""

    def write(days: int, text: str) -> str:
        day = datetime.now().astimezone().date() - timedelta(days=days)
        path = f"memory/{day.isoformat()}.md"
        home.write(path, text)
        return path

    return write


@pytest.mark.parametrize("enabled", [False, True])
async def test_of_two_like_notes_the_newer_comes_first_only_with_decay(
    home, dated, paths_of, query_settings, enabled
):
    home.configure(**query_settings(decay=DecaySettings(enabled=enabled, half_life_days=7)))
    old = dated(60, "- The pump of the boiler was loud.\n")
    new = dated(1, "- The pump of the boiler was slow.\n")
    home.write("memory/other.md", "- The membrane was seen.\n")
    async with home.open() as backend:
        found = await paths_of(backend, "boiler pump membrane")
    assert (found.index(new) < found.index(old)) == enabled


async def test_age_does_not_touch_an_exact_match_or_a_note_without_a_date(
    home, dated, paths_of, query_settings
):
    home.configure(**query_settings(decay=DecaySettings(enabled=True, half_life_days=1)))
    exact = dated(400, "- The boiler membrane was ordered.\n")
    dated(1, "- The boiler is old.\n")
    home.write("memory/parts.md", "- A membrane.\n")
    async with home.open() as backend:
        found = await paths_of(backend, "boiler membrane")
    assert found[0] == exact
    assert "memory/parts.md" in found
