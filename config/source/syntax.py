"""Turning the JSON5 parser's complaints into errors with line, column and what was found.

The parser tells a character count inside an English sentence; what exactly it counts differs from
complaint to complaint, and all knowledge of that is here.
"""

from __future__ import annotations

import re

from config.errors import ConfigInvalidError, ConfigProblem
from config.source.located import SourceText

_NEAR = re.compile(r"near (\d+)")
_FOUND = re.compile(r"found U\+([0-9a-fA-F]+)")
_FOUND_EXTRA = re.compile(r"Extra data U\+([0-9a-fA-F]+)")
_NUMBER_START = "+-.0123456789"
_UNCLOSED_NAME = re.compile(r"Unclosed b'(.*?)'")
_BLANK = re.compile(r"(?:\s|\ufeff|//[^\n\r\u2028\u2029]*+|/\*.*?\*/)*+", re.DOTALL)
_LONGEST_TOKEN = 12
"""The parser points at the start of a broken literal or escape; the culprit is at most this far."""

_UNCLOSED = {
    "object": 'an object that is never closed with "}"',
    "array": 'a list that is never closed with "]"',
    "string": "a string that does not end on its line",
    "comment": 'a comment that is never closed with "*/"',
    "NumericLiteral": "a number that is malformed or too large",
}
_REMEDY = "Correct the file there; JSON5 allows comments, trailing commas and names without quotes."


def error_at(source: SourceText, offset: int, message: str, remedy: str) -> ConfigInvalidError:
    """One problem at one character of a file."""
    line, column = source.position(offset)
    problem = ConfigProblem(message=message, file=str(source.path), line=line, column=column)
    return ConfigInvalidError([problem], remedy=remedy)


def parser_error(source: SourceText, complaint: str) -> ConfigInvalidError:
    """The error for a complaint of `pyjson5` about this text."""
    near = _near(complaint)
    if complaint.startswith("No JSON data"):
        remedy = "Write {} for a configuration of defaults, or remove the file."
        return error_at(source, 0, "the file holds no value", remedy)
    if complaint.startswith("Maximum nesting"):
        message = "objects and lists are nested too deep"
        return error_at(source, near - 1, message, "Flatten the file there.")
    unclosed = _UNCLOSED_NAME.match(complaint)
    if unclosed:
        words = _UNCLOSED.get(unclosed.group(1), "the end of the file in the middle of a value")
        offset = source.text.rfind("/*", 0, near) if unclosed.group(1) == "comment" else near - 1
        return error_at(source, offset, f"found {words}", _REMEDY)
    offset = _offset_of_character(source.text, complaint, near)
    message = f"found {_character_words(source.text[offset])}, which cannot stand here"
    return error_at(source, offset, message, _REMEDY)


def _near(complaint: str) -> int:
    """The parser's count of characters, from 1."""
    match = _NEAR.search(complaint)
    return max(1, int(match.group(1))) if match else 1


def _offset_of_character(text: str, complaint: str, near: int) -> int:
    """Where the offending character stands.

    The count names the character itself, with three exceptions: the last character that was still
    right before extra data, one or none behind a stray slash, and the start of a broken literal.
    """
    if complaint.startswith("Extra data"):
        return _offset_of_extra(text, complaint, near)
    if "b'slash'" in complaint:
        return text.rfind("/", 0, near)
    found = _FOUND.search(complaint)
    behind = (
        text.find(chr(int(found.group(1), 16)), near - 1, near + _LONGEST_TOKEN) if found else -1
    )
    return behind if behind >= 0 else min(near, len(text)) - 1


def _offset_of_extra(text: str, complaint: str, near: int) -> int:
    """What follows the value. The count names the last character of that, behind a number one more."""
    found = _FOUND_EXTRA.match(complaint)
    character = chr(int(found.group(1), 16)) if found else ""
    is_number = text[_end_of_blank(text, 0)] in _NUMBER_START
    for start in (near - 1, near) if is_number else (near,):
        end = _end_of_blank(text, start)
        if character and text.startswith(character, end):
            return end
    return min(near, len(text)) - 1


def _end_of_blank(text: str, start: int) -> int:
    blank = _BLANK.match(text, start)
    return blank.end() if blank else start


def _character_words(character: str) -> str:
    if character == '"':
        return "a quotation mark"
    return f'"{character}"' if character.isprintable() else f"the character U+{ord(character):04X}"
