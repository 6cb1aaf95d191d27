"""The day that a note is about, and the words by which people ask for a day.

The date is read from the file's name, and words are made from it that can be searched for. Names stand in the
languages whose spoken dates differ from digits; Chinese, Japanese and Korean write digits with a unit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Final

_MONTHS: Final = {
    "en": "January February March April May June July August September October November December",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "pt": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "ru": "января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
}
_WEEKDAYS: Final = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_DATE: Final = re.compile(r"(?<!\d)(\d{4})-(\d{2})-(\d{2})(?!\d)")


def date_of(path: str) -> date | None:
    """The date in the name of a note (`memory/2026-02-08-plan.md`), if it is a real one."""
    match = _DATE.search(path.rpartition("/")[2])
    if match is None:
        return None
    try:
        return date(*map(int, match.groups()))
    except ValueError:
        return None


def date_words(day: date | None) -> str:
    """`2026-02-08` gives `2026-02-08 Sunday 8 February Februar ... 2月8日 2월 8일`."""
    if day is None:
        return ""
    names = dict.fromkeys(words.split()[day.month - 1] for words in _MONTHS.values())
    return (
        f"{day.isoformat()} {_WEEKDAYS[day.weekday()]} {day.day} {' '.join(names)} "
        f"{day.month}月{day.day}日 {day.month}월 {day.day}일"
    )


def day_terms(first: date, last: date) -> Iterator[str]:
    """The index terms by which the days from one to another are found, both included: `2026_02_08`; of whole
    years their numbers.
    """
    if (first.month, first.day, last.month, last.day) == (1, 1, 12, 31):
        yield from map(str, range(first.year, last.year + 1))
        return
    for number in range((last - first).days + 1):
        yield (first + timedelta(days=number)).isoformat().replace("-", "_")
