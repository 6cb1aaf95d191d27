"""An address of embeddings that cannot be used: answers, `status` and `doctor` report it."""

from __future__ import annotations

import json

import pytest


@pytest.mark.parametrize(
    "address",
    [
        "http://ada:geheim99@127.0.0.1:9/v1", "http://127.0.0.1:9/v1?key=geheim99",
        "http://127.0.0.1:99999/v1", "http://[::1/v1", "http://127.0.0.1:9/v1\r\nX: geheim99",
    ],
)  # fmt: skip
def test_keywords_answer_with_the_cause_and_status_and_doctor_have_its_line(home, type_in, address):
    remote = {"baseUrl": address, "apiKey": "zz-key-1234567890"}
    home.configure(
        {"agents": {"defaults": {"memorySearch": {"provider": "openai", "remote": remote}}}}
    )
    done = type_in("search", *home.arguments, "boiler", "--json")
    found = json.loads(done.stdout)
    assert [hit["path"] for hit in found["results"]] == ["MEMORY.md"]
    assert "The embedding endpoint cannot be used" in found["warning"]
    assert "internal fault" not in done.stdout + done.stderr
    status = json.loads(type_in("status", *home.arguments, "--json").stdout)
    (warning,) = status["warnings"]
    assert warning.startswith("agents.defaults.memorySearch.remote.baseUrl (line 1): ")
    doctor = type_in("doctor", *home.arguments, "--json").stdout
    assert "agents.defaults.memorySearch.remote.baseUrl" in doctor
    assert "geheim99" not in done.stdout + done.stderr + json.dumps(status) + doctor
