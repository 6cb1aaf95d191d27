"""How a vendor is told whether a text is a query or a document: input types, task types, prompts.

Pure. Gemini's models from `gemini-embedding-2` on ignore the task type and want it in the text.
"""

from __future__ import annotations

from providers.interface import Purpose
from providers.remote.vendors import Wire

_DEFAULT_TYPES: dict[Wire, dict[Purpose, str]] = {
    "openai": {},
    "gemini": {"query": "RETRIEVAL_QUERY", "document": "RETRIEVAL_DOCUMENT"},
    "voyage": {"query": "query", "document": "document"},
}
_BY_TASK_TYPE = ("gemini-embedding-001", "gemini-embedding-exp", "text-embedding", "embedding-001")


def input_type(wire: Wire, model: str, purpose: Purpose, configured: str | None) -> str | None:
    """The request's input or task type; None sends none."""
    if _prompted(wire, model):
        return None
    return configured or _DEFAULT_TYPES[wire].get(purpose)


def prompt(wire: Wire, model: str, purpose: Purpose, configured: str | None) -> str:
    """What stands before each text; empty for most models.

    A configured query type is the prompt's task (`search result`, `question answering` ...).
    """
    if not _prompted(wire, model):
        return ""
    if purpose == "document":
        return "title: none | text: "
    return f"task: {configured or 'search result'} | query: "


def _prompted(wire: Wire, model: str) -> bool:
    return wire == "gemini" and not model.startswith(_BY_TASK_TYPE)
