"""The parts of a backend as `status` shows them to people."""

from __future__ import annotations

import pytest

from fakes.details import details
from gateway.cli.rendering.status_lines import detail_rows

REFUSED = {
    "provider": "openai",
    "usable": False,
    "reason": 'No API key found for provider "openai". Looked at many places.',
}


@pytest.fixture
def rows():
    def make(*parts, **changes):
        return dict(detail_rows(details(*parts, **changes)))

    return make


def test_a_backend_without_a_part_has_no_row_for_it(rows):
    assert rows() == {}


def test_keyword_search_names_the_languages_of_the_notes(rows):
    assert rows("keyword") == {"Keyword search": "BM25 · languages: english, german"}
    blank = rows("keyword", keyword__languages=[])
    assert blank["Keyword search"].endswith("none recognised yet")


def test_vectors_that_are_off_say_by_what(rows):
    off = {"enabled": False, "requested": "openai", "reason": "As configured."}
    assert "store.vector.enabled is false" in rows(vector=off)["Vector search"]
    keyless = {**off, "enabled": True, "reason": "No provider.", "candidates": [REFUSED]}
    shown = rows(vector=keyless)
    assert shown["Vector search"] == "off: No provider."
    assert shown["· openai"] == 'not usable: No API key found for provider "openai".'


def test_who_set_up_nothing_is_told_what_adds_meaning(rows):
    nothing = {"enabled": True, "requested": "auto", "reason": "No provider."}
    shown = rows(vector=nothing)["Vector search"]
    assert shown == "off: No provider. `memory-gateway models suggest` adds meaning, without a key."


def test_only_an_unusual_journal_is_news(rows):
    assert "Journal" not in rows("journal")
    assert rows(journal="delete")["Journal"] == "rollback journal"


def test_vectors_at_work_name_engine_provider_and_coverage(rows):
    shown = rows("vector")
    assert shown["Vector search"] == (
        "resident · 768 dimensions · 12,000 vectors in 9.4 MB of memory"
    )
    assert shown["Embeddings"] == "openai is ready · https://a/v1 · openai is used."
    assert shown["Embedded"] == "1,200 of 1,300 texts · 2 refused · at work"


def test_a_provider_that_nobody_asked_yet_is_not_said_to_be_ready(rows):
    shown = rows("vector", vector__provider__active__statistics__requests=0)
    assert shown["Embeddings"].startswith("openai is set up, and was not asked yet by this process")


def test_providers_that_are_not_set_up_and_were_not_asked_for_are_no_news(rows):
    unasked = {"vector__requested": "auto"}
    assert "· openai" not in rows("vector", vector__candidates=[REFUSED], **unasked)
    in_vain = {**REFUSED, "keySource": "OPENAI_API_KEY"}
    assert "· openai" in rows("vector", vector__candidates=[in_vain], **unasked)


def test_a_key_in_vain_is_said_once_with_what_helps(rows):
    in_vain = {**REFUSED, "keySource": "OPENAI_API_KEY", "remedy": "Run: uv tool install."}
    reason = f"Keywords only, although there is a key: {REFUSED['reason']}"
    shown = rows(
        "vector",
        vector__candidates=[in_vain],
        vector__requested="auto",
        vector__search=None,
        vector__reason=reason,
    )
    assert shown["Vector search"] == f"off: {reason} Run: uv tool install."
    assert "· openai" not in shown


def test_an_engine_that_does_not_answer_says_why_and_an_error_is_told(rows):
    shown = rows(
        "vector",
        vector__search__engine="sqlite-vec",
        vector__search__dimensions=None,
        vector__search__residentVectors=0,
        vector__search__unavailable={"resident": "numpy is missing"},
        vector__provider__active__status="open",
        vector__provider__active__reason="401",
        vector__backfill__running=False,
        vector__backfill__lastError="refused",
    )
    assert shown["Vector search"] == "sqlite-vec · resident: numpy is missing"
    assert shown["Embeddings"] == "openai is open · https://a/v1 · 401 · openai is used."
    assert shown["Embedded"] == "1,200 of 1,300 texts · 2 refused · last error: refused"


def test_batch_jobs_are_told_when_there_are_some(rows):
    idle = rows("vector", vector__batch__jobs=[], vector__batch__waiting=0)
    assert "Batch jobs" not in idle
    assert rows("vector")["Batch jobs"] == "1 job · 40 texts waiting"


def test_transcripts_are_off_or_on(rows):
    assert rows(sessions={"enabled": False})["Transcripts"].startswith("off")
    assert rows("sessions", sessions__belowThresholds=0)["Transcripts"] == "on"
    assert rows("sessions")["Transcripts"] == "on · 2 transcripts below the thresholds"


def test_qmd_tells_whether_it_is_there_and_what_it_does(rows):
    assert rows("qmd", qmd__available=False) == {"QMD": "not available · qmd"}
    assert rows("qmd")["QMD"] == (
        "version 2.8.3 · mode query · 2 collections · warm · models that are missing: rerank"
        " · at work: embed · last error: out of memory"
    )


def test_what_stands_in_is_told_with_its_reason(rows):
    assert rows("journal", "leftOut", "fallback") == {
        "Left out": "3 files by .gitignore",
        "Fallback": "in place of qmd: QMD is not there.",
    }


def test_an_index_that_other_hosts_share_says_so(rows):
    shared = {"here": "a", "others": ["b", "c"], "onlyElsewhere": 7}
    assert rows(viewpoints=shared)["Shared with"] == (
        "2 other viewpoints · 7 files seen only there"
    )
    assert "Shared with" not in rows("journal")
