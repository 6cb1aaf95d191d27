"""Analysis costs in proportion to the length of the text: counted in steps, not in seconds."""

import random
import sys

from backends.text.analyser import Analyser, guess_latin_language
from backends.text.units import split_units
from fakes.each import each

KINDS = {
    "words": lambda rng: rng.choice(["meeting ", "café ", "Anna's ", f"w{rng.random()} "]),
    "identifiers": lambda rng: f"a{rng.random()}.b_c-{rng.random()}/D{rng.random()}E ",
    "joints": lambda rng: "a.",
    "dots": lambda rng: "...",
    "marks": lambda rng: "a\u0301",
    "apostrophes": lambda rng: "a'",
    "unspaced": lambda rng: chr(rng.randrange(0x4E00, 0x9FFF)),
    "emoji": lambda rng: "🎉👍🏽",
    "long line": lambda rng: f"some words {rng.random()} without an end ",
    "sentences": lambda rng: "One. Two! Three? ",
    "brackets": lambda rng: ".)))))",
}


def steps_of(work, *arguments) -> int:
    """Returns the number of functions, of Python and of C, that a call runs."""
    steps = 0

    def count(_frame, event, _argument):
        nonlocal steps
        steps += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        work(*arguments)
    finally:
        sys.setprofile(None)
    return steps


def analyse(text: str) -> None:
    Analyser().terms(text)


@each("kind", KINDS)
@each("work", [analyse, split_units, guess_latin_language])
def test_twice_the_text_takes_about_twice_the_steps(kind, work):
    rng = random.Random(7)
    piece = "".join(KINDS[kind](rng) for _ in range(1500))
    work(piece)  # one-time work, such as making stemmers
    once, twice = steps_of(work, piece), steps_of(work, piece + " " + piece[::-1])
    assert twice <= 2.6 * once + 200
