"""Texts that the chunking tests share: seeded agent notes, and difficult Markdown of every kind."""

import random
from collections.abc import Callable

import pytest
from hypothesis import strategies as st

_WORDS = """
    deploy review invoice garden kitchen release budget meeting latency backup contract ticket flight
    invitation cache migration password rotation dentist school recipe train proposal interview report
    quarterly shipped broke fixed asked agreed moved postponed cancelled prefers likes needs wants said
    the a an of on to for with from about before after because until and but then now today yesterday
    Monday Tuesday Anna Pavel Mei staging production router printer dashboard server draft slides
""".split()

_NASTY = (
    "aZ09 \t\r.!?…;,\"'()`~#=-*+|>_。！？，、」漢字かなカナ한글"
    "ก่ำ้สวัสดีक्षिണ്‍ேি"
    "e\u0301\u0323\u200d\u200c\ufe0f\u2028\u00a0\u0085\ufeff"
    "\u1100\u1161\u11a8\uac00\u0600"
    "👨👩👧🏽❤🇩🇪🇯🇵"
)

_OPENINGS = (
    "# ", "## ", "### ", "###### ", "#", "- ", "* ", "+ ", "1. ", "12) ", "  - ", "    - ", "\t- ",
    "```", "~~~~", "   ```", "  ```py", "> ", "| a | b |", "===", "---", "    ", "\ufeff", "",
)  # fmt: skip


def _sentence(rng: random.Random, least: int, most: int) -> str:
    return " ".join(rng.choices(_WORDS, k=rng.randint(least, most))).capitalize() + "."


def _bullet(rng: random.Random) -> str:
    return "- " + " ".join(_sentence(rng, 6, 20) for _ in range(rng.randint(1, 3)))


def _daily_log(rng: random.Random) -> str:
    """One day: a few timed sections with bullets of 30 to 350 characters."""
    lines = [f"# 2026-01-{rng.randint(1, 28):02d}", ""]
    for _ in range(rng.randint(1, 4)):
        lines += [f"## {rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}", ""]
        lines += [_bullet(rng) for _ in range(rng.randint(5, 40))]
        lines.append("")
    return "\n".join(lines) + "\n"


def _long_term_memory(rng: random.Random) -> str:
    """Many small sections, as in a `MEMORY.md`."""
    lines = ["# Memory", ""]
    for _ in range(rng.randint(5, 40)):
        lines += [f"{rng.choice(('##', '##', '###'))} {_sentence(rng, 1, 4)}", ""]
        lines += [_bullet(rng) for _ in range(rng.randint(1, 6))]
        lines.append("")
    return "\n".join(lines)


def _essay(rng: random.Random) -> str:
    """Paragraphs of one line, code and nested lists under occasional headings."""
    lines = [f"# {_sentence(rng, 2, 5)}", ""]
    for number in range(rng.randint(10, 60)):
        kind = rng.random()
        if kind < 0.15:
            lines += [f"## Part {number}", ""]
        elif kind < 0.25:
            lines += ["```py", *(f"{word} = {rng.random()}" for word in rng.choices(_WORDS, k=12))]
            lines += ["```", ""]
        elif kind < 0.4:
            lines += [rng.choice(("", "  ")) + _bullet(rng) for _ in range(rng.randint(2, 8))]
            lines.append("")
        else:
            lines += [" ".join(_sentence(rng, 8, 18) for _ in range(rng.randint(1, 6))), ""]
    return "\n".join(lines)


def _nasty_markdown() -> st.SearchStrategy[str]:
    """Documents of Markdown openings, prose and characters of many scripts, joined by any newline."""
    prose = st.one_of(
        st.text(st.sampled_from(_NASTY), max_size=60),
        st.integers(0, 2**32).map(lambda seed: _sentence(random.Random(seed), 1, 90)),
    )
    line = st.tuples(st.sampled_from(_OPENINGS), prose).map("".join)
    ending = st.sampled_from(("\n", "\n", "\n\n", "\r\n", "\r", "\n" * 30, ""))
    return st.lists(st.tuples(line, ending).map("".join), max_size=40).map("".join)


@pytest.fixture(scope="session")
def documents() -> st.SearchStrategy[str]:
    return _nasty_markdown()


@pytest.fixture(scope="session")
def note_kinds() -> tuple[Callable[[random.Random], str], ...]:
    return _daily_log, _long_term_memory, _essay


@pytest.fixture(scope="session")
def bullet() -> Callable[[random.Random], str]:
    return _bullet
