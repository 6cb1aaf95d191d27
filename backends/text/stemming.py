"""Reducing a word to its stem, by script and language.

Owns the choice of the Snowball algorithm and the irregular English forms that no algorithm finds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Final

_BY_SCRIPT: Final = (
    (re.compile("[\u0400-\u04ff]"), "russian"),
    (re.compile("[\u0370-\u03ff\u1f00-\u1fff]"), "greek"),
    (re.compile("[\u0600-\u06ff]"), "arabic"),
    (re.compile("[\u0900-\u097f]"), "hindi"),
    (re.compile("[\u0b80-\u0bff]"), "tamil"),
    (re.compile("[\u0530-\u058f]"), "armenian"),
)

_IRREGULAR_ENGLISH: Final = """
    be: am is are was were been
    have: has had
    do: did done does
    go: went gone goes
    say: said|see: saw seen|get: got gotten|make: made|know: knew known|think: thought|take: took taken
    come: came|give: gave given|find: found|tell: told|feel: felt|become: became|leave: left
    bring: brought|begin: began begun|keep: kept|hold: held|write: wrote written|stand: stood
    hear: heard|mean: meant|meet: met|run: ran|pay: paid|sit: sat|speak: spoke spoken
    lead: led|grow: grew grown|lose: lost|fall: fell fallen|send: sent|build: built
    understand: understood|draw: drew drawn|break: broke broken|spend: spent|rise: rose risen
    drive: drove driven|buy: bought|wear: wore worn|choose: chose chosen|eat: ate eaten|teach: taught
    catch: caught|fight: fought|sell: sold|sleep: slept|win: won|sing: sang sung|swim: swam swum
    throw: threw thrown|fly: flew flown|forget: forgot forgotten|forgive: forgave forgiven
    drink: drank drunk|ride: rode ridden|shake: shook shaken|steal: stole stolen|wake: woke woken
    bite: bit bitten|blow: blew blown|hide: hid hidden|freeze: froze frozen|tear: tore torn
    feed: fed|lend: lent|light: lit|seek: sought|shoot: shot|shrink: shrank shrunk
    sink: sank sunk|stick: stuck|strike: struck|swear: swore sworn|sweep: swept|weave: wove woven
    child: children|person: people|man: men|woman: women|foot: feet|tooth: teeth|mouse: mice
    goose: geese|wife: wives|life: lives|knife: knives|leaf: leaves|half: halves|shelf: shelves
    analysis: analyses|index: indices indexes|criterion: criteria|medium: media
    good: better best|bad: worse worst
"""


@cache
def _irregular() -> dict[str, str]:
    forms: dict[str, str] = {}
    for entry in _IRREGULAR_ENGLISH.replace("\n", "|").split("|"):
        if entry.strip():
            base, _, inflected = entry.partition(":")
            forms.update(dict.fromkeys(inflected.split(), base.strip()))
    return forms


@cache
def _stemmer(language: str) -> Callable[[str], str]:
    from Stemmer import Stemmer  # noqa: PLC0415 - loaded with the first text, not at start

    stem: Callable[[str], str] = Stemmer(language, 0).stemWord
    return stem


def script_language(word: str) -> str | None:
    """The language that a non-Latin script stands for, or None for Latin and unknown scripts."""
    if word.isascii():
        return None
    return next((language for pattern, language in _BY_SCRIPT if pattern.search(word)), None)


def stem(word: str, language: str) -> str:
    """The stem of a case-folded `word`; `language` (a Snowball name) decides for Latin script."""
    if language == "english":
        word = _irregular().get(word, word)
    return _stemmer(language)(word)
