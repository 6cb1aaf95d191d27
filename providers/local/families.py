"""How the known families of embedding models want queries and documents marked. Pure.

The models were trained with these words, and find worse without them. Sources: the models' own cards.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from providers.interface import Purpose

TEXT: Final = "{text}"
_RETRIEVE: Final = "Given a web search query, retrieve relevant passages that answer the query"
_PASSAGES: Final = "Represent this sentence for searching relevant passages: "


class Prompts(msgspec.Struct, frozen=True):
    """What stands before a text; with `{text}` in it, a template around the text."""

    query: str = ""
    document: str = ""

    def apply(self, purpose: Purpose, text: str) -> str:
        prompt = self.query if purpose == "query" else self.document
        if TEXT in prompt:
            before, _, after = prompt.partition(TEXT)
            return f"{before}{text}{after}"
        return f"{prompt}{text}"


_FAMILIES: Final[tuple[tuple[str, Prompts], ...]] = (
    (
        r"embedding-?gemma|gemma-embedding",
        Prompts("task: search result | query: ", "title: none | text: "),
    ),
    (r"nomic-(embed|bert)", Prompts("search_query: ", "search_document: ")),
    (r"qwen3-?embedding", Prompts(f"Instruct: {_RETRIEVE}\nQuery:")),
    (r"e5-.*instruct", Prompts(f"Instruct: {_RETRIEVE}\nQuery: ")),
    (r"\be5-(mistral|small|base|large|v2)|multilingual-e5", Prompts("query: ", "passage: ")),
    (r"bge-(small|base|large)-zh", Prompts("为这个句子生成表示以用于检索相关文章：")),
    (r"bge-(small|base|large)-en", Prompts(_PASSAGES)),
)
"""The first that matches counts. MiniLM, bge-m3 and whatever is not known want no words."""


def prompts_for(*names: str) -> Prompts:
    """The prompts of the family that one of the names belongs to; none for an unknown one.

    Names are the architecture, the model's own name and the file's, most telling first.
    """
    for name in names:
        plain = re.sub(r"[\s_]+", "-", name.lower())
        for pattern, prompts in _FAMILIES:
            if re.search(pattern, plain):
                return prompts
    return Prompts()
