"""Secrets that are assigned to a name that says so, and blocks of private keys. Pure."""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final

from backends.redaction.masks import MARKER, is_masked, mask


class Trust(Enum):
    """How much the name before a value promises."""

    ASSIGNED = auto()
    """`DB_PASSWORD=`: whatever follows at once, but a placeholder, is the secret."""
    PASSWORD = auto()
    """`password`: even a plain word behind it is one, when the clause ends with it."""
    NAMED = auto()
    """`OPENAI_API_KEY`, `clientSecret`: a name that people give to nothing else."""
    LIKELY = auto()
    """`token`, `secret` alone: also everyday words."""
    VAGUE = auto()
    """`key` alone: mostly an everyday word."""


_PLACEHOLDER: Final = re.compile(
    r"[x.*_-]+|\$\{[^}]*\}|(?-i:\$[A-Z_][A-Z0-9_]*)|\$?\([^)]*\)|<[\w-]*>?|\{.*\}|%\w+%?"
    r"|\[[^\]]*\]|none|null|nil|true|false|undefined|yes|no|unknown|required|optional|string|str"
    r"|value|text|bytes|int|any|changed?|here|below|above|env(?:ironment)?|redacted|example"
    r"|(?:your|my)[-_][\w-]*|change[-_]?me|[a-z]{2,6}[-_]",
    re.IGNORECASE | re.DOTALL,
)
_CODE: Final = re.compile(
    r"[{\[(]|(?:self|os|process|config|settings|env)\.[A-Za-z_]"
    r"|(?:[A-Za-z_]{1,40}\.){0,4}[A-Za-z_]{2,40}(?:\[|\((?:[\"'rfb]?[\"']|.*\)|\Z))"
)
"""A literal, an attribute, an index or a call."""
_ATTRIBUTE: Final = re.compile(r"[a-z_]+(?:\.[a-z_]+)+")
_PLAIN: Final = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*")
_MIXED_RUN: Final = re.compile(r"(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]+")
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_OPAQUE: Final = re.compile(r"[A-Za-z0-9_+/=~-]+")
_LEAST_DIGITS: Final = 4
_LEAST_RUN: Final = {Trust.LIKELY: 7, Trust.VAGUE: 10}


def is_secret(value: str, trust: Trust, *, quoted: bool, ends_clause: bool) -> bool:
    """Whether the value is to be masked. `ends_clause`: no further word follows it."""
    if not any(map(str.isalnum, value)) or is_masked(value) or _PLACEHOLDER.fullmatch(value):
        return False
    if not quoted and (_CODE.match(value) or _is_count(value)):
        return False
    if trust in _LEAST_RUN:
        return _looks_opaque(value, _LEAST_RUN[trust])
    if quoted or trust is Trust.ASSIGNED:
        return True
    if trust is Trust.NAMED and _ATTRIBUTE.fullmatch(value):
        return False
    if _PLAIN.fullmatch(value):
        return value.isascii() and ends_clause and trust is Trust.PASSWORD
    return True


def _is_count(value: str) -> bool:
    return value.isdigit() and len(value) < _LEAST_DIGITS


def _looks_opaque(value: str, least: int) -> bool:
    """Letters and digits mixed in one long run: no word, name, date or path looks so."""
    if not _OPAQUE.fullmatch(value):
        return False
    longest = max((len(run) for run in _MIXED_RUN.findall(value)), default=0)
    return longest >= least or _UUID.fullmatch(value) is not None


_WORDS: Final = (
    "key token secret password passwd passphrase passcode pwd credential credentials "
    "пароль 密码 密碼 パスワード 비밀번호 contraseña senha passwort"
).split()
_PASSWORDS: Final = frozenset(_WORDS) - {"key", "token", "secret", "credential", "credentials"}
_QUOTED: Final = r"(?P<quote>\\{0,4}[\"'`])(?P<quoted>[^\n]{1,4096}?)(?P=quote)"
# No possessive repeat of several characters: before Python 3.11.5 it keeps the part of a round that failed.
_BARE: Final = (
    r"(?P<bare>[^\s\"'`&;\\](?:[^\s\"'`&;\\]|[&;](?![\w ]{1,40}=)|\\(?![\"'n])"
    r"|[\"'`](?=[^\s,;:)\]}\"'`\\]))*)"
)
_ASSIGNMENT: Final = re.compile(
    rf"(?P<word>{'|'.join(sorted(_WORDS, key=len, reverse=True))})"
    r"(?P<sign>\\{0,4}[\"'`]?\s{0,8}(?:=>|:=|=(?!=)|:|：|＝)\s{0,8})"
    rf"(?:{_QUOTED}|{_BARE})",
    re.IGNORECASE,
)
_FLAG: Final = re.compile(
    r"(?P<sign>(?<![\w-])--?(?:[a-z0-9]{1,20}-){0,4}"
    r"(?:api-?key|key|token|secret|password|passwd|passphrase)\s{1,8})"
    rf"(?:{_QUOTED}|(?P<bare>[^\s\"'`-][^\s\"'`]*+))",
    re.IGNORECASE,
)
_HINT: Final = re.compile(rf"(?:{'|'.join(_WORDS)})[\\\"'`]{{0,5}}[\s=:：＝]")
"""On lower-case text; a search without regard to case takes twenty times as long."""
_NAME_BEFORE: Final = re.compile(r"[A-Za-z0-9_.-]{0,40}\Z")
_KEY_OF: Final = re.compile(
    r"(?:api|secret|access|auth|private|account|encryption|signing|service|license|ssh|master|shared)"
    r"[ _.-]?\Z",
    re.IGNORECASE,
)
_HARMLESS_KEY: Final = re.compile(
    r"(?:primary|foreign|public|sort|partition|cache|unique|row|group|lookup|session|hot|config|routing|event|json)[ _.-]?\Z",
    re.IGNORECASE,
)
_QUOTES: Final = "\\\"'`"
_LOOK_BACK: Final = 40
_STOPS: Final = ",.;:!?"
_BRACKETS: Final = {")": "(", "]": "[", "}": "{", ">": "<"}


def redact_assignments(text: str) -> str:
    """Masks values that stand behind the name of a secret."""
    if not _HINT.search(text.lower()):
        return text
    text = _ASSIGNMENT.sub(_assigned, text)
    return _FLAG.sub(_given_to_flag, text)


def _assigned(match: re.Match[str]) -> str:
    trust = _trust(match)
    return match[0] if trust is None else _masked(match, trust)


def _given_to_flag(match: re.Match[str]) -> str:
    is_password = "pass" in match["sign"].lower()
    return _masked(match, Trust.PASSWORD if is_password else Trust.NAMED)


def _masked(match: re.Match[str], trust: Trust) -> str:
    whole, begin = match[0], match.start()
    group = "quoted" if match["quoted"] is not None else "bare"
    if _is_done(match[group]):
        return whole
    value = match[group] if group == "quoted" else _without_stops(match[group])
    start = match.start(group) - begin
    end = start + len(value)
    following = match.string[begin + end : begin + end + 2]
    ends = (
        not following or following[0] == "\n" or following[0] in _STOPS or following[0] in _BRACKETS
    )
    if not is_secret(value, trust, quoted=group == "quoted", ends_clause=ends):
        return whole
    return whole[:start] + mask(value) + whole[end:]


def _without_stops(value: str) -> str:
    """The value without what ends a sentence or closes a bracket that was opened before it."""
    while value and (
        value[-1] in _STOPS
        or value.count(value[-1]) > value.count(_BRACKETS.get(value[-1], value[-1]))
    ):
        value = value[:-1]
    return value


def _is_done(value: str) -> bool:
    """Whether this is a mask, and what ended a clause behind it. Brackets may be hidden in the mask."""
    while value and not is_masked(value) and (value[-1] in _STOPS or value[-1] in _BRACKETS):
        value = value[:-1]
    return is_masked(value)


def _trust(match: re.Match[str]) -> Trust | None:
    """How sure the name alone makes that a secret follows; None: it is no such name."""
    word, sign = match["word"], match["sign"]
    before = match.string[max(0, match.start() - _LOOK_BACK) : match.start()]
    joined = _NAME_BEFORE.search(before)
    prefix = joined[0] if joined else ""
    is_key = word.lower() == "key"
    if is_key and (_HARMLESS_KEY.search(before) or not _ends_as_word(prefix, word)):
        return None
    is_password = word.lower() in _PASSWORDS
    is_named = bool(prefix or _KEY_OF.search(before)) or sign[0] in _QUOTES
    if sign == "=" and (not is_key or is_named or word.isupper()):
        return Trust.ASSIGNED
    if is_password:
        return Trust.PASSWORD
    if is_named:
        return Trust.NAMED
    return Trust.VAGUE if is_key else Trust.LIKELY


def _ends_as_word(prefix: str, word: str) -> bool:
    """Whether `key` is a word of its own in a name: not so in `monkey`."""
    if not prefix or prefix[-1] in "_.-" or prefix[-1].isdigit():
        return True
    humps = word[0].isupper() and prefix[-1].islower()
    return humps or _KEY_OF.search(prefix) is not None


_BEGIN: Final = re.compile(r"-----BEGIN (?P<name>[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?)-----")


def redact_private_keys(text: str) -> str:
    parts = []
    done = 0
    while begin := _BEGIN.search(text, done):
        closing = f"-----END {begin['name']}-----"
        end = text.find(closing, begin.end())
        body = text[begin.end() : end if end >= 0 else len(text)]
        separator = "\n" if "\n" in body else " "
        parts += [text[done : begin.end()], separator, MARKER]
        if end < 0:
            return "".join(parts)
        parts += [separator, closing]
        done = end + len(closing)
    return "".join((*parts, text[done:]))
