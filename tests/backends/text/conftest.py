"""A real FTS5 table as the index has it, and texts of every script."""

from collections.abc import Callable, Iterator

import apsw
import pytest
from hypothesis import strategies as st

from backends.builtin.store.sqlite import schema
from backends.text.analyser import Analyser

_PIECES = (
    "the meeting about budgets Anna's don't l'homme naïve café Straße ﬁne ＡＢＣ ısı İzmir Ёлка йод "
    "הַבַּיִת בית־ספר مُحَمَّد كتاب नमस्ते हिन्दी தமிழ் ελληνικά Հայերեն བཀྲ་ཤིས ދިވެހި "
    "今天 猫 会议室 カタカナ ｶﾞｷﾞ ひらがな がく 한국어 회의 ประชุม ភាសា "
    "a828e60 memorySearch.query.hybrid OPENAI_API_KEY sqlite-vec v2.3.1-rc1 2026-02-08 1,500 3.14 10:30 "
    "memory/2026-02-08-plan.md https://example.org/a?b=c&d=e#f foo@bar.com parseHTTPResponse iPhone16 "
    "gen-itgc后 C++ c# node.js .env __init__ snake_case_name 50% #tag $9.99 ½ ² ① 1️⃣ 🎉 👍🏽 👨‍👩‍👧 ❤️ → ── │ "
    "\" * NEAR ^ col: - ( ) \x00 \x1b \u0301 ـــ \u200b \ufeff \u2028 _ __ ' ’ \\ %"
).split(" ")


@pytest.fixture(scope="session")
def texts() -> st.SearchStrategy[str]:
    """Texts that mix words, identifiers and signs of many scripts with arbitrary characters."""
    word = st.one_of(st.sampled_from(_PIECES), st.text(max_size=8))
    between = st.sampled_from((" ", " ", "", "-", ".", "/", ", ", "\n", "'", "_", "\u3000"))
    return st.lists(st.tuples(word, between).map("".join), max_size=12).map("".join)


@pytest.fixture(scope="session")
def index() -> Iterator[apsw.Connection]:
    """A database with the tables of an index."""
    connection = apsw.Connection(":memory:")
    schema.create(connection)
    yield connection
    connection.close()


@pytest.fixture(scope="session")
def found_by(index: apsw.Connection) -> Callable[[str, str], bool]:
    """Returns whether one of these terms finds a row that contains them, as the keyword lane asks."""

    def ask(terms: str, term: str) -> bool:
        index.execute("BEGIN")
        try:
            index.execute(
                "INSERT INTO chunk_terms (rowid, body, context) VALUES (1, ?, '')", (terms,)
            )
            query = "SELECT rowid FROM chunk_terms WHERE chunk_terms MATCH ?"
            return index.execute(query, (f'"{term}"',)).get is not None
        finally:
            index.execute("ROLLBACK")

    return ask


@pytest.fixture
def terms_of() -> Callable[..., list[str]]:
    """The terms of a text, as a list."""

    def analyse(text: str, language: str = "english") -> list[str]:
        return Analyser(language).terms(text).split()

    return analyse
