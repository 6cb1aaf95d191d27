"""The engines of a backend as `status` tells people of them."""

from __future__ import annotations

from gateway.cli.rendering.details import detail_rows

CANDIDATE = {
    "provider": "openai",
    "usable": False,
    "reason": 'No API key found for provider "openai". Looked at many places.',
}
PROVIDER = {"active": {"provider": "openai", "status": "ready", "endpoint": "https://a/v1"}}
SEARCH = {
    "engine": "resident",
    "dimensions": 768,
    "residentVectors": 12_000,
    "residentBytes": 9_400_000,
    "unavailable": {},
}
WORKING = {"enabled": True, "provider": PROVIDER, "search": SEARCH, "reason": "openai is used."}


def rows(**details):
    return dict(detail_rows(details))


def test_keyword_search_names_the_languages_of_the_notes():
    keyword = {"engine": "fts5", "available": True, "languages": ["english", "german"]}
    assert rows(keyword=keyword) == {"Keyword search": "BM25 · languages: english, german"}
    assert rows(keyword={"languages": []})["Keyword search"].endswith("none recognised yet")


def test_vectors_that_are_off_say_by_what():
    off = {"enabled": False, "candidates": []}
    assert "store.vector.enabled is false" in rows(vector=off)["Vector search"]
    keyless = {"enabled": True, "reason": "No provider.", "candidates": [CANDIDATE]}
    told = rows(vector=keyless)
    assert told["Vector search"] == "off: No provider."
    assert told["· openai"] == 'not usable: No API key found for provider "openai".'


def test_vectors_at_work_name_engine_provider_and_coverage():
    backfill = {"coverage": {"embedded": 1_200, "total": 1_300, "failed": 2}, "running": True}
    told = rows(vector={**WORKING, "backfill": backfill})
    assert told["Vector search"] == (
        "resident · 768 dimensions · 12,000 vectors in 9.4 MB of memory"
    )
    assert told["Embeddings"] == "openai is ready · https://a/v1 · openai is used."
    assert told["Embedded"] == "1,200 of 1,300 texts · 2 refused · at work"


def test_a_provider_that_nobody_asked_yet_is_not_said_to_be_ready():
    active = {**WORKING["provider"]["active"], "statistics": {"requests": 0}}
    told = rows(vector={**WORKING, "provider": {"active": active}})
    assert told["Embeddings"].startswith("openai is set up, and was not asked yet by this process")


def test_providers_that_are_not_set_up_and_were_not_asked_for_are_no_news():
    keyless = {"enabled": True, "reason": "None.", "requested": "auto", "candidates": [CANDIDATE]}
    assert "· openai" not in rows(vector=keyless)
    in_vain = {**CANDIDATE, "keySource": "OPENAI_API_KEY"}
    assert "· openai" in rows(vector={**keyless, "candidates": [in_vain]})


def test_an_engine_that_does_not_answer_says_why_and_an_error_is_told():
    search = {"engine": "sqlite-vec", "unavailable": {"resident": "numpy is missing"}}
    active = {"provider": "openai", "status": "open", "reason": "401"}
    backfill = {"coverage": {"embedded": 0, "total": 1}, "lastError": "refused"}
    vector = {**WORKING, "search": search, "provider": {"active": active}, "backfill": backfill}
    told = rows(vector=vector)
    assert told["Vector search"] == "sqlite-vec · resident: numpy is missing"
    assert told["Embeddings"] == "openai is open · 401 · openai is used."
    assert told["Embedded"] == "0 of 1 text · last error: refused"


def test_batch_jobs_are_told_when_there_are_some():
    assert "Batch jobs" not in rows(vector={**WORKING, "batch": {"jobs": [], "waiting": 0}})
    told = rows(vector={**WORKING, "batch": {"jobs": [{}], "waiting": 40}})
    assert told["Batch jobs"] == "1 job · 40 texts waiting"


def test_transcripts_are_off_or_on():
    assert rows(sessions={"enabled": False})["Transcripts"].startswith("off")
    assert rows(sessions={"enabled": True, "belowThresholds": 0})["Transcripts"] == "on"
    waiting = rows(sessions={"enabled": True, "belowThresholds": 2})["Transcripts"]
    assert waiting == "on · 2 transcripts below the thresholds"


def test_qmd_tells_whether_it_is_there_and_what_it_does():
    assert rows(qmd={"available": False, "command": "qmd"}) == {"QMD": "not available · qmd"}
    qmd = {
        "available": True,
        "version": "2.0",
        "effectiveSearchMode": "query",
        "collections": ["a", "b"],
        "server": {"warm": True},
        "missingModels": ["rerank"],
        "running": "embed",
        "lastError": "out of memory",
    }
    assert rows(qmd=qmd)["QMD"] == (
        "version 2.0 · mode query · 2 collections · warm · models that are missing: rerank"
        " · at work: embed · last error: out of memory"
    )


def test_what_stands_in_is_told_with_its_reason():
    told = rows(fallback={"from": "qmd", "reason": "QMD is not there."}, journal="wal")
    assert told == {
        "Fallback": "in place of qmd: QMD is not there.",
        "Journal": "write-ahead log",
    }


def test_a_part_that_is_not_known_is_told_name_by_name():
    assert rows(other={"a": True, "b": None, "c": [1, 2]})["Other"] == "a yes, b –, c 1 2"
