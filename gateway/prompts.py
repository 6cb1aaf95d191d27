"""The reading of a prompt before recall: which prompts need no memory, and which part of the others is searched for."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from pathlib import Path
from typing import Final, Literal

import msgspec

from backends.text.analyser import Analyser, stop_words_of

Silence = Literal["small_talk", "machine_output", "command"]
"""The reasons for no search: `small_talk` has no subject, `machine_output` is pasted, a `command` is for the client."""

MOST_CHARS: Final = 4_000
"""A longer prompt is searched for by its beginning and its end, where people say what they want."""


def _folded(text: str) -> str:
    """Returns the text in lower case, without accents, vowel signs and the like."""
    apart = unicodedata.normalize("NFKD", text.casefold())
    return "".join(one for one in apart if not unicodedata.category(one).startswith("M"))


_SMALL_TALK: Final = Path(__file__).with_name("small_talk.txt")
"""Words of some twenty languages."""
_COURTESIES: Final = stop_words_of("english").union(
    _folded(_SMALL_TALK.read_text(encoding="utf-8")).split()
)
_COURTESIES_CJK: Final = re.compile(
    "了解(?:です|しました)?|继续|谢谢你们?|多谢|感谢|谢啦?|你好吗?|您好|大家好|早上好|早安|"
    "晚上好|晚安|再见|拜拜|好的?|嗯+|行|可以|没问题|没关系|你?确定|没错|对的?|是的?|"
    "不是|不用|继续|接着|请|下一步|下一个|明白了?|知道了?|懂了?|太好了|太棒了?|很棒|非常|很|了|"
    "吧|啊|呢|吗|哦|呀|的|你|我|再来一次|再试一次|辛苦|完美|厉害|"
    "ありがとう(?:ございます|ございました)?|どうも|こんにちは|こんばんは|おはよう(?:ございます)?|おやすみ(?:なさい)?|さようなら|またね|"
    "はい|いいえ|うん|ええ|そうです|そう|お願い(?:します|いたします)?|続けて(?:ください)?|続き|次|"
    "了解(?:です|しました)?|わかりました|わかりません|本当に?|"
    "分かりました|いいですね|素晴らしい|すごい|ください|です|ね|よ|最高|助かります|助かりました|"
    "감사합니다|감사해요|고마워요?|고맙습니다|안녕하세요|안녕히|안녕|네|예|응|아니요?|아뇨|"
    "계속(?:하세요|해줘|해주세요|해 주세요|해)?|"
    "좋아요?|좋습니다|좋네요|알겠습니다|알겠어요?|알았어요?|부탁(?:해요|드립니다|합니다)?|"
    "다음|완벽해요?|최고예요|최고|정말|너무|수고하셨습니다|모르겠어요?|확실해요?|"
    "ขอบคุณ(?:ครับ|ค่ะ|มาก)?|สวัสดี(?:ครับ|ค่ะ)?|ครับ|ค่ะ|ใช่|ไม่|ต่อ|โอเค|มาก|cảm ơn|xin chào|tiếp tục|vâng"
)
_WORD: Final = re.compile(r"[^\W_]+")

_FENCED: Final = re.compile(
    r"^[ \t]*(`{3,}(?=[^`\n]*$)|~{3,}(?!~)).*?(?:^[ \t]*\1[`~]*[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
_ATTACHED: Final = re.compile(r"\[(?:image|pasted text)\b[^\]\n]*\]", re.IGNORECASE)
"""The mark that a client writes in place of a picture or a long text."""
_LINE_END: Final = re.compile(r"\r\n?")
_MACHINE_LINE: Final = re.compile(
    r"""
      \s*(?:Traceback\ \(most|File\ "[^"]+",\ line\ \d+|at\ [\w$.<>/\[\]\ ]+\(.*\)|at\ \S+:\d+:\d+
        |Caused\ by:|\.\.\.\ \d+\ more)
    | \s*(?:[\w.]+(?:Error|Exception|Warning|Failure|Interrupt)\b(?::|$)|Exception\ in\ thread|panic:
        |goroutine\ \d+|thread\ '.*'\ panicked|called\ `)
    | \s*(?:error|warning|note|fatal|E|W|F)(?:\[\w+\])?:\s | \s*(?:-->|\d+\s*\||\|\s|\^[\^~-]*\s*$|~+\^*\s*$)
    | \s*\S+\.\w{1,5}:\d+(?::\d+)?(?::|\s|$|\)) | \s*\#\d+\s+(?:0x[0-9a-f]+|\S+\()
    | \s*[\w./+-]+:\ (?:error|warning|fatal):\s
    | \s*\[?(?:\d{4}-\d\d-\d\d[T\ ]|[A-Z][a-z]{2}\ [\d\ ]\d\ )?\d\d:\d\d:\d\d
    | \s*npm\ (?:ERR!|WARN|error) | \s*(?:\$|>>>|PS\ .*>)\s | \s*(?:FAILED|PASSED|ERROR|FAIL|ok|not\ ok)\s+\S+[:./]
    | \s*[-+]{3}\ | \s*@@\ | \s*diff\ --git\ | \s*\w+@\S+[:~]
    | \s*(?:<[/!?]?\w[^>]*>\s*)+$ | \s*[\[{(}\])],?;?\s*$ | \s*(?:"[^"]+":\s|[\[{]+\s*"[^"]+":) | \s*0x[0-9a-f]+
    """,
    re.VERBOSE,
)
_CODE_LINE: Final = re.compile(
    r"\s*(?:def |class |import |from \S+ import |return\b|const |let |var |function |public |private "
    r"|#include|if \(|for \(|while \()"
    r"|.*[;{}]\s*$|\s{4,}\S.*[()=\[\]]"
)
_FEW_WORDS: Final = 5
"""Fewer words than these beside pasted lines do not make a question, nor does a single one that is no small talk."""
_LONGEST_WORD: Final = 64
"""A longer word is not one of a note, but a key or a blob."""


class Question(msgspec.Struct, frozen=True):
    """The part of a prompt that is searched for, or why there is none."""

    query: str
    silence: Silence | None = None


def read_prompt(prompt: str) -> Question:
    """Finds the question in a prompt: what people write themselves is searched for, what they paste is not."""
    text = _LINE_END.sub("\n", _ATTACHED.sub("", prompt).strip())
    if _is_command(text):
        return Question("", "command")
    own, pasted = _without_pasted(text)
    own = _bounded(own)  # decomposition may take quadratic time in the number of marks
    words = _words(own)
    subjects = [word for word in words if not _is_courtesy(word)]
    if pasted and (len(subjects) < 2 or len(words) < _FEW_WORDS):
        return Question("", "machine_output")
    if not subjects:
        return Question("", "small_talk")
    return Question(own)


def _is_command(text: str) -> bool:
    """Returns whether it is like `/compact` or `!ls`, or is written by the client itself in the user's name."""
    first = text.partition("\n")[0]
    is_path = first.count("/") > 1
    return bool(re.match(r"/[a-z][\w:-]*(?:\s|$)", first) and not is_path) or bool(
        re.match(r"!\s*[\w./]|<(?:command-|local-command|task-|system-reminder|bash-)", first)
    )


def _without_pasted(text: str) -> tuple[str, bool]:
    """Returns the lines that a person wrote, and whether there are others."""
    bare = _FENCED.sub("\n", text)
    lines = [line for line in bare.split("\n") if line.strip()]
    by_machine = [bool(_MACHINE_LINE.match(line)) for line in lines]
    by_machine = [
        found or bool(_CODE_LINE.match(line) and _beside(by_machine, at))
        for at, (line, found) in enumerate(zip(lines, by_machine, strict=True))
    ]
    own = [line for line, found in zip(lines, by_machine, strict=True) if not found]
    return "\n".join(own), bare != text or any(by_machine)


def _beside(found: list[bool], at: int) -> bool:
    """Returns whether a neighbour was found: code beside a trace belongs to it; alone, it may be a person's."""
    return any(found[max(0, at - 1) : at + 2])


def _words(text: str) -> list[str]:
    if not text.isascii():
        text = _COURTESIES_CJK.sub(" ", unicodedata.normalize("NFKC", text))
    return [word for word in _WORD.findall(_folded(text)) if len(word) <= _LONGEST_WORD]


@cache
def _courtesy_terms() -> frozenset[str]:
    analyser = Analyser()
    return frozenset(term for word in _COURTESIES for term in analyser.terms(word).split())


def is_small_talk(term: str) -> bool:
    """Returns whether a search term says nothing about a subject."""
    return term in _courtesy_terms() or _is_courtesy(term)


def _is_courtesy(word: str) -> bool:
    return (
        word in _COURTESIES
        or (len(word) == 1 and word.isascii())
        or (word.isdecimal() and len(word) < 3)
    )


def _bounded(text: str) -> str:
    if len(text) <= MOST_CHARS:
        return text
    half = MOST_CHARS // 2
    return f"{text[:half]}\n{text[-half:]}"
