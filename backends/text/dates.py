"""The words by which people ask for a day: month and weekday names beside the digits.

Owns what of a note's date becomes searchable. Names stand in the languages whose spoken dates differ
from digits; Chinese, Japanese and Korean write digits with a unit.
"""

from __future__ import annotations

from datetime import date
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


def date_words(day: date | None) -> str:
    """`2026-02-08` gives `2026-02-08 Sunday 8 February Februar ... 2月8日 2월 8일`."""
    if day is None:
        return ""
    names = dict.fromkeys(words.split()[day.month - 1] for words in _MONTHS.values())
    return (
        f"{day.isoformat()} {_WEEKDAYS[day.weekday()]} {day.day} {' '.join(names)} "
        f"{day.month}月{day.day}日 {day.month}월 {day.day}일"
    )
