"""The marks of texts for the known families."""

import pytest

from fakes.each import each
from providers.local.model import Prompts, prompts_for


@each(
    ("name", "query", "document"),
    [
        (
            "embeddinggemma-300M-Q8_0.gguf",
            "task: search result | query: q",
            "title: none | text: d",
        ),
        ("Embedding Gemma 300m", "task: search result | query: q", "title: none | text: d"),
        ("nomic-embed-text-v1.5", "search_query: q", "search_document: d"),
        ("multilingual-e5-small", "query: q", "passage: d"),
        ("e5_base_v2", "query: q", "passage: d"),
        ("all-MiniLM-L6-v2", "q", "d"),
        ("bge-m3", "q", "d"),
        ("bge-small-en-v1.5", "Represent this sentence for searching relevant passages: q", "d"),
        ("bge-large-zh", "为这个句子生成表示以用于检索相关文章：q", "d"),
        ("something-else", "q", "d"),
    ],
)
def test_queries_and_documents_of_each_family(name, query, document):
    prompts = prompts_for(name)
    assert prompts.apply("query", "q") == query
    assert prompts.apply("document", "d") == document


@pytest.mark.parametrize("name", ["Qwen3-Embedding-0.6B", "multilingual-e5-large-instruct"])
def test_instructed_models_get_the_task_with_the_query_only(name):
    prompts = prompts_for(name)
    assert prompts.apply("query", "q").startswith("Instruct: Given a web search query")
    assert prompts.apply("query", "q").endswith("q")
    assert prompts.apply("document", "d") == "d"


def test_the_first_name_that_tells_a_family_decides():
    assert prompts_for("my finetune", "nomic-bert").query == "search_query: "


def test_a_prompt_may_stand_around_the_text():
    prompts = Prompts(query="<q>{text}</q>")
    assert prompts.apply("query", "braces {text} {0}") == "<q>braces {text} {0}</q>"
