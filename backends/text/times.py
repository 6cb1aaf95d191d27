"""Time in words: which questions ask for it, and which lines tell it."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

_ASKED: Final = r"""
    \b(?:when|what\s+(?:date|day|month|year|time)|which\s+(?:date|day|month|year)|how\s+long
        |wann|an\s+welchem\s+tag|in\s+welchem\s+(?:monat|jahr)|seit\s+wann|wie\s+lange
        |quand|quel\s+jour|quelle\s+(?:date|année)|depuis\s+combien
        |cuándo|cuando\s+fue|qué\s+(?:día|fecha|mes|año)
        |quando|que\s+dia|qual\s+(?:a\s+data|dia|mês|ano)
        |wanneer|när|milloin|kiedy
        |когда|какого\s+числа|в\s+каком\s+(?:году|месяце)|в\s+какой\s+день|как\s+долго)\b
    |什么时候|什麼時候|何时|何時|哪天|哪一天|几号|幾號|几月|幾月|哪年|哪一年|多久
    |いつ|何日|何月|何年|何曜日|何時
    |언제|며칠|몇\s*월|몇\s*시|무슨\s*요일|어느\s*날
"""
_DIGITS: Final = (
    r"(?<!\d)(?:\d{4}-\d\d|\d?\d:\d\d|\d?\d\. ?\d?\d\.|\d?\d/\d?\d|(?:19|20)\d\d(?!\d)|\d?\d(?:st|nd|rd|th)\b"
    r"|\d{1,4} ?[年月日号號时時点點년월일시])"
)
_UNSPACED: Final = (
    "昨[天日]|前天|今[天日年]|明[天日年]|后天|後天|[上下]个?[周週月]|去年|[先来][週月]|[月火水木金土日]曜|[周週期拜][一二三四五六日天]"
    "|어제|그제|오늘|내일|모레|(?:지난|다음) ?[주달해]|작년|올해|내년|[월화수목금토일]요일"
)
_WORDS: Final = frozenset(
    """
    yesterday today tonight tomorrow ago recently weekend weekends week weeks month months year years last next
    monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays
    saturdays sundays january february march april may june july august september october november december
    gestern vorgestern heute morgen übermorgen woche wochen monat monate monaten jahr jahre jahren letzte letzten
    letztes letzter nächste nächsten nächstes nächster montag dienstag mittwoch donnerstag freitag samstag sonntag
    januar jänner februar märz mai juni juli oktober dezember
    hier aujourd demain semaine mois lundi mardi mercredi jeudi vendredi samedi dimanche
    janvier février mars avril mai juin juillet août septembre octobre novembre décembre
    ayer hoy mañana semana mes año años lunes martes miércoles jueves viernes sábado domingo
    enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre
    ontem hoje amanhã mês ano anos segunda terça quarta quinta sexta
    janeiro fevereiro março maio junho julho setembro outubro novembro dezembro
    вчера позавчера сегодня завтра назад неделю неделе месяц месяце год году
    понедельник вторник среда среду четверг пятница пятницу суббота субботу воскресенье
    января февраля марта апреля мая июня июля августа сентября октября ноября декабря
    январе феврале марте апреле мае июне июле августе сентябре октябре ноябре декабре
    """.split()
)
_WORD: Final = re.compile(r"[^\W\d_]+")


# Compiled with the first question, not at start.
@cache
def _pattern(source: str, flags: int = 0) -> re.Pattern[str]:
    return re.compile(source, flags)


def asks_when(question: str) -> bool:
    """Whether a question asks for a time: `When did ...?`, `Wann ...?`, `いつ...`."""
    return _pattern(_ASKED, re.IGNORECASE | re.VERBOSE).search(question) is not None


def tells_time(line: str) -> bool:
    """Whether a line names a day, a month, a year, a time of day, or a distance from today."""
    if not _WORDS.isdisjoint(_WORD.findall(line.lower())) or _pattern(_DIGITS).search(line):
        return True
    return not line.isascii() and _pattern(_UNSPACED).search(line) is not None
