"""Telling queries and documents apart."""

import pytest

from providers.remote.vendors import input_type, prompt


@pytest.mark.parametrize(
    ("vendor", "model", "query", "document"),
    [
        ("openai", "text-embedding-3-small", None, None),
        ("gemini", "gemini-embedding-001", "RETRIEVAL_QUERY", "RETRIEVAL_DOCUMENT"),
        ("gemini", "text-embedding-004", "RETRIEVAL_QUERY", "RETRIEVAL_DOCUMENT"),
        ("voyage", "voyage-4-large", "query", "document"),
    ],
)
def test_each_vendor_has_its_own_types(vendor, model, query, document):
    assert input_type(vendor, model, "query", None) == query
    assert input_type(vendor, model, "document", None) == document
    assert input_type(vendor, model, "query", "mine") == "mine"
    assert prompt(vendor, model, "query", None) == ""


@pytest.mark.parametrize("model", ["gemini-embedding-2", "gemini-embedding-2-preview"])
def test_later_gemini_models_want_the_task_in_the_text(model):
    assert input_type("gemini", model, "document", None) is None
    assert prompt("gemini", model, "document", None) == "title: none | text: "
    assert prompt("gemini", model, "query", None) == "task: search result | query: "
    assert prompt("gemini", model, "query", "fact checking") == "task: fact checking | query: "
