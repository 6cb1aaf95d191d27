"""Times in words: the day that a note is about and the words for it in questions, which questions ask for a time, which
days they mention, and which lines mention a time.

The days are parsed by a small grammar of our own. dateparser parses them too, but took 0.7 s to import, 6 s for the
first question and 80 ms for each further one, and read `What may the assistant not send?` as May.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, timedelta
from functools import cache, lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from backends.text import day_words

# For languages whose dates in words differ from digits; Chinese, Japanese and Korean write digits with a unit.
MONTH_NAMES: Final = {
    "en": "January February March April May June July August September October November December",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "pt": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "ru": "января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
}
WEEKDAY_NAMES: Final = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_DATE_IN_NAME: Final = (
    r"(?<!\d)(?P<y>\d{4})(?P<s>[-_.]?)(?P<m>\d{2})(?P=s)(?P<d>\d{2})(?!\d)"
    r"|(?<!\d)(?P<d2>\d{1,2})\.[ ]?(?P<m2>\d{1,2})\.[ ]?(?P<y2>\d{4})(?!\d)"
    r"|(?<!\d)(?P<y3>\d{4}) ?[年년] ?(?P<m3>\d{1,2}) ?[月월] ?(?P<d3>\d{1,2})(?!\d)"
    r"|(?<![\d./])(?P<y5>\d{4})(?P<s5>\. |/)(?P<m5>\d{1,2})(?P=s5)(?P<d5>\d{1,2})(?![\d/])"
    r"|(?<!\d)(?P<d4>\d{1,2}) tháng (?P<m4>\d{1,2}) năm (?P<y4>\d{4})(?!\d)"
)
_DATE_IN_WORDS: Final = (
    r"(?<!\d)(?P<d>\d{1,2})(?:st|nd|rd|th|er|\.|º)?[ _-]+(?:de |d'|of )?(?P<m>[^\W\d_]{3,})\.?,?[ _-]+"
    r"(?:de )?(?P<y>\d{4})(?!\d)"
    r"|(?<!\w)(?P<m2>[^\W\d_]{3,})\.?[ _-]+(?P<d2>\d{1,2})(?:st|nd|rd|th)?,?[ _-]+(?P<y2>\d{4})(?!\d)"
    r"|(?<!\d)(?P<y3>\d{4})(?:\.| m\.) (?P<m3>[^\W\d_]{3,}) (?P<d3>\d{1,2})(?!\d)"
)
_DATE_IN_PLACE: Final = r"(?:^|/)(\d{4})/(\d{2})/(\d{2})\.md$"
_EARLIEST: Final = 1900
"""Eight digits that name an earlier year are not a date."""


def date_of(path: str) -> date | None:
    """Returns the date in the name of a note (`memory/2026-02-08-plan.md`, `journals/2026_02_08.md`, `8 February
    2026.md`, `2026/02/08.md`), if it is a real one.
    """
    placed = re.search(_DATE_IN_PLACE, path)
    if placed:
        return _real_day(*map(int, placed.groups()))
    return date_in(path.rpartition("/")[2].removesuffix(".md"))


@lru_cache(maxsize=64)  # every chunk of a note has its headings
def date_in(name: str) -> date | None:
    """Returns the date in a name or a heading, if it has a year."""
    if not any(map(str.isdigit, name)):
        return None
    if match := re.search(_DATE_IN_NAME, name):
        parts = match.groupdict()
        numbers = (
            int(found)
            for one in "ymd"
            for name in parts
            if name[0] == one and (found := parts[name])
        )
        return _real_day(*numbers)
    for match in re.finditer(_DATE_IN_WORDS, name[:200]):
        parts = match.groupdict()
        year, word, day = (parts[one] or parts[one + "2"] or parts[one + "3"] for one in "ymd")
        if month := _MONTHS_BY_NAME.get(word.lower()):
            return _real_day(int(year), month, int(day))
    return None


def _real_day(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day) if year >= _EARLIEST else None
    except ValueError:
        return None


def date_words(day: date | None) -> str:
    """`2026-02-08` gives `2026-02-08 Sunday 8 February Februar ... 2月8日 2월 8일`."""
    if day is None:
        return ""
    names = dict.fromkeys(words.split()[day.month - 1] for words in MONTH_NAMES.values())
    return (
        f"{day.isoformat()} {WEEKDAY_NAMES[day.weekday()]} {day.day} {' '.join(names)} "
        f"{day.month}月{day.day}日 {day.month}월 {day.day}일"
    )


def day_terms(first: date, last: date) -> Iterator[str]:
    """Yields the index terms that match the days from one to another, both included: `2026_02_08`; for whole calendar
    years, their numbers; for a calendar week `2026w06`, too.
    """
    if (first.month, first.day, last.month, last.day) == (1, 1, 12, 31):
        yield from map(str, range(first.year, last.year + 1))
        return
    if first.weekday() == 0 and (last - first).days == 6:
        yield first.strftime("%Gw%V")
    for number in range((last - first).days + 1):
        yield (first + timedelta(days=number)).isoformat().replace("-", "_")


def day_spellings(day: date, *, month_first: bool) -> tuple[str, ...]:
    """Returns the index terms of a day in digits: `12_03` for `12.03.`, `12_3_2026`."""
    pair = (day.month, day.day) if month_first else (day.day, day.month)
    padded, plain = "_".join(f"{one:02}" for one in pair), "_".join(map(str, pair))
    years = (day.year, f"{day.year % 100:02}")
    with_year = (f"{written}_{year}" for written in (padded, plain) for year in years)
    is_number = max(pair) < 10  # `1.5` is one and a half, and not in May
    return tuple(dict.fromkeys((padded, padded if is_number else plain, *with_year)))


_ASKED: Final = r"""
    \b(?:when|what\s+(?:date|day|month|year|time)|which\s+(?:date|day|month|year)|how\s+long
        |wann|an\s+welchem\s+tag|in\s+welchem\s+(?:monat|jahr)|seit\s+wann|wie\s+lange
        |quand|quel\s+jour|quelle\s+(?:date|année)|depuis\s+combien
        |cuándo|cuando\s+fue|qué\s+(?:día|fecha|mes|año)
        |quando|que\s+dia|qual\s+(?:a\s+data|dia|mês|ano)
        |wanneer|när|hvornår|milloin|kiedy|kdy|коли|ne\s+zaman|hangi\s+(?:gün|ay|yıl)|mikor|πότε|kapan|متى|מתי
        |khi\s+nào|bao\s+giờ|ngày\s+nào
        |когда|какого\s+числа|в\s+каком\s+(?:году|месяце)|в\s+какой\s+день|как\s+долго)\b
    |什么时候|什麼時候|何时|何時|哪天|哪一天|几号|幾號|几月|幾月|哪年|哪一年|多久
    |いつ|何日|何月|何年|何曜日|何時
    |เมื่อไ|วันไหน|เดือนไหน|कब
    |언제|며칠|몇\s*월|몇\s*시|무슨\s*요일|어느\s*날
"""
_DIGITS: Final = (
    r"(?<!\d)(?:\d{4}-\d\d|\d?\d:\d\d|\d?\d\. ?\d?\d\.|\d?\d/\d?\d|(?:19|20)\d\d(?!\d)|\d?\d(?:st|nd|rd|th)\b"
    r"|\d{1,4} ?[年月日号號时時点點天周週년월일시주])"
)
_UNSPACED: Final = (
    "昨[天日晚]|前天|今[天日年月週朝]|明[天日年後]|后天|後天|[上下本这這](?:个|個)?(?:[周週月]|星期)|去年|[先来來][週月年]"
    "|[月火水木金土日]曜|[周週期拜][一二三四五六日天]|[一二三四五六七八九十两兩](?:月|天|周|週)|きのう|あした"
    "|어제|그제|오늘|내일|모레|(?:지난|다음|이번) ?[주달해]|작년|올해|내년|[월화수목금토일]요일"
)
_WORD: Final = re.compile(r"[^\W\d_]+")
_LETTERS: Final = bytes(code if chr(code).isalpha() and code < 128 else 32 for code in range(256))


# Compiled with the first question, not at start.
_pattern: Callable[..., re.Pattern[str]] = cache(re.compile)


def asks_when(question: str) -> bool:
    """Returns whether a question asks for a time: `When did ...?`, `Wann ...?`, `いつ...`."""
    return _pattern(_ASKED, re.IGNORECASE | re.VERBOSE).search(question) is not None


LAST_WORDS: Final = frozenset(
    """
    last latest zuletzt letzte letzten letzter letztes letztemal dernier dernière dernièrement fois última último vez
    ultima ultimo volta laatst laatste keer senast sidst sist viimeksi ostatni ostatnio последний последняя раз
    """.split()
)
"""Words in questions for a time that the notes which answer them hardly ever contain."""


_ASKING: Final = r"""
    \b(?:how\s+(?:much|many|often)|wie\s+(?:viele?|oft|lange)|combien\s+de\s+fois
        |cuántas\s+veces|quantas\s+vezes|quante\s+volte)\b
    |เมื่อ(?:ไหร่|ไร|ใด)|(?:ที่|ตรง)?ไหน|อะไร
        |เท่า(?:ไหร่|ไร|ใด)|ใคร(?!่)|ทำไม|อย่างไร|ยังไง|ไหม(?!้)|หรือเปล่า|คือ|บ้าง|ครับ|ค่ะ
"""
_NEWEST: Final = r"""
    \b(?:(?<!at\sthe\s)(?<![-:/@.=])(?:latest|newest)(?![-:/@.=]\w)|most\s+recent|last\s+time
        |neueste[nrs]?|letzte[ns]?\s+mal|plus\s+récente?s?|dernière\s+fois|más\s+recientes?|última\s+vez
        |mais\s+recentes?|più\s+recent[ei]|ultima\s+volta|nieuwste|laatste\s+keer|последний\s+раз)\b
"""


def asks_last(question: str) -> bool:
    """Returns whether a question asks for the last time, or for the newest of something: `When did I last ...?`, `my
    latest ...`.
    """
    if _pattern(_NEWEST, re.IGNORECASE | re.VERBOSE).search(question):
        return True
    return asks_when(question) and not LAST_WORDS.isdisjoint(
        word.casefold() for word in _WORD.findall(question)
    )


def without_asking(question: str) -> str:
    """Returns a question without `how much`, `last time` and the like: the note that answers it contains a number, or a
    day, and others contain `too much`.
    """
    for words in (_ASKING, _NEWEST):
        question = _pattern(words, re.IGNORECASE | re.VERBOSE).sub(" ", question)
    return question


def mentions_time(line: str) -> bool:
    """Returns whether a line mentions a day, a month, a year, a time of day, or a distance from today."""
    if line.isascii():
        # Finds what the patterns find, in an eighth of the time: a question for a time looks at every line.
        plain = line.lower().encode()
        is_said = not _PLAIN_WORDS.isdisjoint(plain.translate(_LETTERS).split())
        has_digits = plain.translate(None, b"0123456789") != plain
    else:
        is_said = not _WORDS.isdisjoint(_WORD.findall(line.lower()))
        is_said = is_said or _pattern(_UNSPACED).search(line) is not None
        has_digits = True
    return is_said or (has_digits and _pattern(_DIGITS).search(line) is not None)


class Days(NamedTuple):
    """Days that a question mentions, both ends included."""

    first: date
    last: date
    text: str
    """The question's own words for them, in lower case."""
    is_named: bool = False
    """True if these words name a month or a day of it: they match notes of that time anyway."""


_Span = tuple[date, date]


class _Mention(NamedTuple):
    """Some words and the days that they may mean: `in March` is the last one or the next."""

    start: int
    end: int
    spans: tuple[_Span, ...]
    is_named: bool = False


_NUMBERS: Final = {
    word: number
    for number, words in {
        1: "a an one ein eine einem einer un une uno una um uma один одну одна 一",
        2: "two couple zwei deux dos dois duas два две 二 两 兩 이틀",
        3: "three drei trois tres três три 三",
        4: "four vier quatre cuatro quatro четыре 四",
        5: "five few fünf paar cinq cinco пять 五",
        6: "six sechs seis шесть 六",
        7: "seven sieben sept siete sete семь 七",
        8: "eight acht huit ocho oito восемь 八",
        9: "nine neun neuf nueve nove девять 九",
        10: "ten zehn dix diez dez десять 十",
        11: "十一",
        12: "十二",
    }.items()
    for word in words.split()
} | day_words.NUMBERS
_MONTHS: Final = {
    word: number
    for number, words in enumerate(
        """january januar jänner janvier enero janeiro январь января январе jan
        february februar feber février febrero fevereiro февраль февраля феврале feb
        march märz mars marzo março март марта марте mar
        april avril abril апрель апреля апреле apr
        may mai mayo maio май мая мае
        june juni juin junio junho июнь июня июне jun
        july juli juillet julio julho июль июля июле jul
        august août agosto август августа августе aug
        september septembre septiembre setembro сентябрь сентября сентябре sep sept
        october oktober octobre octubre outubro октябрь октября октябре oct okt
        november novembre noviembre novembro ноябрь ноября ноябре nov
        december dezember décembre diciembre dezembro декабрь декабря декабре dec dez""".split(
            "\n"
        ),
        1,
    )
    for word in words.split()
}
_MONTHS_BY_NAME: Final = day_words.MONTHS | _MONTHS
_ABBREVIATED: Final = "jan feb mar apr jun jul aug sep sept oct okt nov dec dez".split()


def is_month(word: str) -> bool:
    """Returns whether a word in lower case is the name of a month."""
    return word in _MONTHS_BY_NAME


def month_names(word: str) -> Iterator[str]:
    """Yields what a month, in lower case, is abbreviated to, and what English and German ones are abbreviated from; for
    other words none. Further names of the month are in `date_words` too, and would count again.
    """
    number = _MONTHS.get(word)
    shorter = [one for one in _ABBREVIATED if _MONTHS[one] == number and one[:3] == word[:3]]
    yield from shorter
    if number and word in shorter:
        names = (MONTH_NAMES[one].split()[number - 1].lower() for one in ("en", "de"))
        yield from (name for name in names if name.startswith(word))


_ALSO_OTHER_WORDS: Final = day_words.ALSO_OTHER_WORDS.union(
    "may march mars mar april june august juni juli julio марта jan apr jun jul aug sep sept oct okt nov dec dez"
    " mai feb".split()
)
"""Also names, verbs and abbreviations: they mean a month only beside a day, a year or a word such as `in`."""
_WEEKDAYS: Final = {
    word: number
    for number, words in enumerate(
        """monday montag lundi lunes segunda понедельник
        tuesday dienstag mardi martes terça вторник
        wednesday mittwoch mercredi miércoles quarta среду
        thursday donnerstag jeudi jueves quinta четверг
        friday freitag vendredi viernes sexta пятницу
        saturday samstag sonnabend samedi sábado субботу
        sunday sonntag dimanche domingo воскресенье""".split("\n")
    )
    for word in words.split()
}
_WEEKDAYS_BY_NAME: Final = _WEEKDAYS | day_words.WEEKDAYS
_WORDS: Final = frozenset(
    """
    yesterday today tonight tomorrow ago recently weekend weekends week weeks month months year years days last next
    mondays tuesdays wednesdays thursdays fridays saturdays sundays
    gestern vorgestern heute übermorgen tag tage tagen woche wochen wochenende monat monate monaten jahr jahre jahren
    letzte letzten letztes letzter vorige vorigen nächste nächsten nächstes nächster
    hier aujourd demain jours semaine semaines mois années
    ayer anteayer hoy mañana días semana semanas mes meses año años ontem anteontem hoje amanhã dias mês ano anos
    вчера позавчера сегодня завтра послезавтра назад день дня дней неделю неделе недели недель выходные выходных
    месяц месяце месяца месяцев год году среда пятница суббота
    """.split()
).union(_MONTHS, _WEEKDAYS, day_words.UNAMBIGUOUS)
_PLAIN_WORDS: Final = frozenset(word.encode() for word in _WORDS if word.isascii())
_BY_WORD: Final = {
    "day before yesterday": -2, "yesterday": -1, "last night": -1, "today": 0, "tonight": 0, "this morning": 0,
    "day after tomorrow": 2, "tomorrow": 1,
    "vorgestern": -2, "gestern": -1, "heute": 0, "übermorgen": 2,
    "avant-hier": -2, "hier": -1, "aujourd'hui": 0, "aujourd’hui": 0, "après-demain": 2, "demain": 1,
    "anteayer": -2, "ayer": -1, "hoy": 0, "pasado mañana": 2,
    "anteontem": -2, "ontem": -1, "hoje": 0, "depois de amanhã": 2, "amanhã": 1,
    "позавчера": -2, "вчера": -1, "сегодня": 0, "послезавтра": 2, "завтра": 1,
    "前天": -2, "昨天": -1, "昨日": -1, "昨晚": -1, "今天": 0, "今日": 0, "今晚": 0, "明天": 1, "后天": 2, "後天": 2,
    "一昨日": -2, "おととい": -2, "きのう": -1, "今朝": 0, "明日": 1, "あした": 1, "明後日": 2, "あさって": 2,
    "그저께": -2, "그제": -2, "어제": -1, "오늘": 0, "내일": 1, "모레": 2,
    **day_words.BY_WORD,
}  # fmt: skip
_LAST: Final = (
    "last|past|previous|letzte[mnrs]?|vorige[mnrs]?|vergangene[mnrs]?|прошл(?:ой|ом|ый|ую|ые|ое)"
    f"|última|último|{day_words.LAST}"
)
_THIS: Final = (
    f"this|diese[mnrs]?|эт(?:ой|ом|от|у|и)|cette|ce|esta|este|n?esta|n?este|{day_words.THIS}"
)
_NEXT: Final = f"next|coming|nächste[mnrs]?|kommende[mnrs]?|следующ(?:ей|ем|ий|ую|ее|ие)|próxim[ao]|{day_words.NEXT}"
_LAST_AFTER: Final = f"dernière|dernier|passée?|pasad[ao]|passad[ao]|{day_words.LAST_AFTER}"
_NEXT_AFTER: Final = rf"prochaine?|que\s+viene|que\s+vem|{day_words.NEXT_AFTER}"
_LAST_UNSPACED: Final = "上个|上個|上|先|昨|去|지난|작"
_THIS_UNSPACED: Final = "这个|這個|这|這|本|今|이번|올"
_NEXT_UNSPACED: Final = "下个|下個|下|来|來|明|다음|내"
_UNITS: Final = {
    "day": "days?|tage?n?|jours?|días?|dias?|день|дня|дней",
    "weekend": r"weekend|wochenende|week-end|fin\s+de\s+semana|fim\s+de\s+semana|выходны[ех]",
    "week": "weeks?|wochen?|semaines?|semanas?|неделю|неделе|недели|недель",
    "month": "months?|monate?n?|mois|mes(?:es)?|mês|месяц(?:а|ев|е)?",
    "year": "years?|jahre?n?|années?|ans?|años?|anos?|году|года|год|лет",
}
_UNITS_BY_NAME: Final = {
    name: f"{words}|{day_words.UNITS[name]}" if name in day_words.UNITS else words
    for name, words in _UNITS.items()
}
_UNITS_UNSPACED: Final = {
    "day": "天|日|일",
    "weekend": "周末|週末|주말",
    "week": "星期|礼拜|禮拜|週間?|周|주",
    "month": "个月|個月|[かヶカ]月|月|개월|달",
    "year": "年|년|해",
}
_WEEKDAYS_UNSPACED: Final = {
    "一": 0, "二": 1, "三": 2, "四": 3, "五": 4, "六": 5, "天": 6, "日": 6,
    "月": 0, "火": 1, "水": 2, "木": 3, "金": 4, "土": 5,
    "월": 0, "화": 1, "수": 2, "목": 3, "금": 4, "토": 5, "일": 6,
}  # fmt: skip
MOST_DAYS: Final = 100
"""The most days of a range: a longer one says too little about a note, unless it is a calendar year."""
_TO: Final = (
    "[-–—~〜～]|to|until|till|through|and|bis|und|au|et|al|y|ao|a|e|по|и|до|から|到|至|和|と|부터"
)
_ARTICLE: Final = "the|dem|den|zum|le|el|o"
_JOINED: Final = rf"\s*(?:{_TO})\s*(?:(?:{_ARTICLE})\s+)?"
_BOTH: Final = rf"\s*(?:and|und|et|y|e|и|和|と)\s*(?:(?:{_ARTICLE})\s+)?"
_BETWEEN: Final = rf"(?:between|zwischen|entre|между)\s+(?:(?:{_ARTICLE})\s+)?\Z"
_BEFORE_MONTH: Final = (
    r"\b(?:in|during|since|until|till|before|after|by|of|last|next|this|early|mid|late|between|from|to"
    r"|im|ab|bis|seit|anfang|ende|mitte|letzten|nächsten|en|em|de|desde|até|hasta"
    r"|au|du|fin|début|w|we|od|v|ve|vanaf|sinds|в|с|до|к|на|за)\s+\Z"
)


def days_in(question: str, today: date) -> tuple[Days, ...]:
    """Returns the days that a question mentions, in its order; one entry for each reading.

    A day or month without a year may be that of the last year, of this one or of the next.
    """
    text = question.lower()
    if not mentions_time(question) and day_words.BESIDE.isdisjoint(_WORD.findall(text)):
        return ()
    mentions: list[_Mention] = []
    forms = _spaced_forms() if text.isascii() else (*_unspaced_forms(), *_spaced_forms())
    for pattern, read in forms:
        for match in pattern.finditer(text):
            start, end = match.span()
            if any(start < one.end and one.start < end for one in mentions):
                continue
            if spans := tuple(dict.fromkeys(read(match, today))):
                mentions.append(_Mention(start, end, spans, _is_named(match)))
    return tuple(
        Days(first, last, " ".join(text[one.start : one.end].split()), one.is_named)
        for one in sorted(_ranges(sorted(mentions), text))
        for first, last in one.spans
    )


def _ranges(mentions: list[_Mention], text: str) -> Iterator[_Mention]:
    """Yields the mentions; two that are the ends of a range are joined."""
    joined: set[int] = set()
    for one, other in pairwise(mentions):
        between = text[one.end : other.start]
        if one.start in joined or not _pattern(_JOINED).fullmatch(between):
            continue
        if _pattern(_BOTH).fullmatch(between) and not _pattern(_BETWEEN).search(text[: one.start]):
            continue
        spans = [
            (first, last)
            for start, _ in one.spans
            for _, last in other.spans
            for first in (start, _in_year(start, last.year))
            if timedelta() <= last - first <= timedelta(days=MOST_DAYS)
        ]
        if spans:
            joined |= {one.start, other.start}
            shortest = min(spans, key=lambda span: span[1] - span[0])
            yield _Mention(one.start, other.end, (shortest,))
    yield from (one for one in mentions if one.start not in joined)


def _is_named(match: re.Match[str]) -> bool:
    """Returns whether these words find notes by themselves: `date_words` contains those of `_MONTHS` and of digits."""
    found = match.groupdict()
    if found.keys() & {"last", "count"} or found.get("to"):
        return False
    if name := found.get("name"):
        return name in _MONTHS
    is_digits = (found.get("month") or "").isdecimal()
    return is_digits and any(character.isalpha() for character in match[0])


def _in_year(day: date, year: int) -> date:
    return date(year, day.month, min(day.day, monthrange(year, day.month)[1]))


_Reader = Callable[[re.Match[str], date], Iterable[_Span]]


# Compiled with the first question for a time, not at start.
@cache
def _spaced_forms() -> Sequence[tuple[re.Pattern[str], _Reader]]:
    """Returns the forms of days in words, the longest first."""
    month, weekday, number = map(_any_of, (_MONTHS_BY_NAME, _WEEKDAYS_BY_NAME, _NUMBERS))
    step = f"(?:(?P<last>{_LAST})|(?P<this>{_THIS})|(?P<next>{_NEXT}))"
    after = f"(?:(?P<last>{_LAST_AFTER})|(?P<next>{_NEXT_AFTER}))"
    units = _named(_UNITS_BY_NAME)
    count = rf"(?P<count>\d{{1,3}}|{number})"
    day = r"(?P<day>\d{1,2})(?:st|nd|rd|th|er|º|\.)?"
    to = rf"(?:\s*(?:{_TO})\s*(?:(?:{_ARTICLE})\s+)?{day.replace('<day>', '<to>')})?"
    year = r"(?:,?\s*(?:(?:of|de|do)\s+)?(?P<year>(?:19|20)\d\d)(?!\d))?"
    words = _any_of(word for word in _BY_WORD if not _pattern(_UNSPACED_WORD).match(word))
    return _compiled(
        (r"(?<![\w.-])(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)(?!\d)", _of_date),
        (
            r"(?<![\w.])(?P<day>\d\d?)\.\s?(?P<month>\d\d?)\.(?:\s?(?P<year>\d{4}))?(?![\w.])",
            _of_date,
        ),
        (r"(?<![\w/])(?P<day>\d\d?)/(?P<month>\d\d?)/(?P<year>\d{4})(?![\w/])", _of_slashes),
        (rf"(?<!\w){day}{to}\s*(?:(?:of|de|do|den)\s+)?(?P<name>{month})\b\.?{year}", _of_date),
        (rf"\b(?P<name>{month})\b\.?\s+{day}(?![\d:]){to}(?!\d){year}", _of_date),
        (rf"\b(?P<name>{month})\b\.?{year}", _of_month),
        (
            rf"\b(?:vor|il\s+y\s+a|hace|há|{day_words.BEFORE})\s+{count}\s+(?:{units})\b",
            _of_distance,
        ),
        (rf"\b(?:{count}\s+)?(?:{units})\s+(?:ago|назад|atrás)\b", _of_distance),
        (rf"\b{count}\s+(?:{units})\s+(?:{day_words.AGO})\b", _of_distance),
        (rf"\b(?:{_LAST}|letzten|últim[oa]s|последни[ех])\s+{count}\s+(?:{units})\b", _of_stretch),
        (rf"(?<!\w)(?:{words})(?!\w)", _of_word),
        (rf"\b{step}\s+(?:{units})\b", _of_unit),
        (rf"\b(?:{units})\s+{after}\b", _of_unit),
        (rf"\b(?P<weekday>{weekday})(?:-feira)?\s+{after}\b", _of_weekday),
        (
            rf"\b(?:{step}|on|am|le|el|na|no|во?|{day_words.ON})\s+(?P<weekday>{weekday})\b",
            _of_weekday,
        ),
    )


@cache
def _unspaced_forms() -> Sequence[tuple[re.Pattern[str], _Reader]]:
    """Returns the forms in Chinese, Japanese and Korean."""
    step = f"(?:(?P<last>{_LAST_UNSPACED})|(?P<this>{_THIS_UNSPACED})|(?P<next>{_NEXT_UNSPACED}))"
    units = _named(_UNITS_UNSPACED)
    count = rf"(?P<count>\d{{1,3}}|{_any_of(_NUMBERS)})"
    month = r"(?<![\d十一二三四五六七八九])(?P<month>\d{1,2}|十[一二]?|[一二三四五六七八九])[月월](?!曜)"
    day = r"\s*(?P<day>\d{1,2})[日号號일]"
    to = rf"\s*(?:{_TO})\s*(?P<to>\d{{1,2}})[日号號일]"
    week = r"(?:周|週|星期|礼拜|禮拜|주)"
    letter = r"(?P<letter>[一二三四五六天日]|[月火水木金土](?=曜)|[월화수목금토일](?=요일))"
    words = _any_of(word for word in _BY_WORD if _pattern(_UNSPACED_WORD).match(word))
    return _compiled(
        (rf"(?:(?P<year>(?:19|20)\d\d)[年년]\s*)?{month}(?:{day}(?:{to})?)?", _of_date),
        (rf"{count}\s*(?:{units})\s*[之以]?[前전]", _of_distance),
        (rf"(?:过去|過去|最近|この|지난)\s*{count}\s*(?:{units})", _of_stretch),
        (rf"{step}\s*{week}\s*の?\s*{letter}", _of_weekday),
        (words, _of_word),
        (rf"{step}\s*(?:{units})", _of_unit),
        (
            (
                r"(?:周|週|星期|礼拜|禮拜)(?P<letter>[一二三四五六天日])"
                rf"|{letter.replace('<letter>', '<other>')}(?=曜|요일)"
            ),
            _of_weekday,
        ),
    )


def _compiled(*forms: tuple[str, _Reader]) -> Sequence[tuple[re.Pattern[str], _Reader]]:
    return tuple((re.compile(pattern), read) for pattern, read in forms)


_UNSPACED_WORD: Final = r"[\u3040-\u9fff\uac00-\ud7ff]"


def _any_of(words: Iterable[str]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


def _named(units: Mapping[str, str]) -> str:
    return "|".join(f"(?P<{name}>{words})" for name, words in units.items())


def _of_date(match: re.Match[str], today: date) -> Iterator[_Span]:
    """Yields a day, a range of days of one month, or a month."""
    found = match.groupdict()
    name = found.get("name")
    month = _MONTHS_BY_NAME[name] if name else _number(found["month"])
    day, to = found.get("day"), found.get("to")
    if day is None:
        yield from _months(month, found["year"], today)
        return
    for year in _years(found["year"], today):
        with suppress(ValueError):
            first = date(year, month, int(day))
            last = date(year, month, int(to)) if to else first
            if first <= last:
                yield first, last


def _of_slashes(match: re.Match[str], today: date) -> Iterator[_Span]:  # noqa: ARG001 - the form of a reader
    """Yields both readings: the day first, and the month first."""
    one, other, year = int(match["day"]), int(match["month"]), int(match["year"])
    for day, month in dict.fromkeys([(one, other), (other, one)]):
        with suppress(ValueError):
            found = date(year, month, day)
            yield found, found


def _of_month(match: re.Match[str], today: date) -> Iterator[_Span]:
    is_sure = match["name"] not in _ALSO_OTHER_WORDS or match["year"]
    if is_sure or _pattern(_BEFORE_MONTH).search(match.string, 0, match.start()):
        yield from _months(_MONTHS_BY_NAME[match["name"]], match["year"], today)


def _of_word(match: re.Match[str], today: date) -> Iterator[_Span]:
    found = today + timedelta(days=_BY_WORD[match[0]])
    yield found, found


def _of_distance(match: re.Match[str], today: date) -> Iterator[_Span]:
    """Yields the days around the time so many units ago, as exact as people are."""
    number, unit = _number(match["count"] or "1"), _unit(match)
    if unit == "year":
        yield _unit_span("year", -number, today)
        return
    days = number * _DAYS_OF[unit]
    about = days // 7 if unit == "day" else _DAYS_OF[unit] // 2
    middle = today - timedelta(days=days)
    yield middle - timedelta(days=about), middle + timedelta(days=about)


def _of_stretch(match: re.Match[str], today: date) -> Iterator[_Span]:
    """Yields the days of the last so many units."""
    days = _number(match["count"]) * _DAYS_OF[_unit(match)]
    yield today - timedelta(days=days), today


def _of_unit(match: re.Match[str], today: date) -> Iterator[_Span]:
    yield _unit_span(_unit(match), _step(match), today)


def _of_weekday(match: re.Match[str], today: date) -> Iterator[_Span]:
    """Yields the last such day before today and the next, or the one that is asked for; in Chinese, Japanese and Korean
    that of the last week or the next.
    """
    found = match.groupdict()
    letter = found.get("letter") or found.get("other")
    weekday = _WEEKDAYS_UNSPACED[letter] if letter else _WEEKDAYS_BY_NAME[found["weekday"]]
    step = _step(match) if any(map(found.get, ("last", "this", "next"))) else None
    monday = today - timedelta(days=today.weekday())
    if (letter and step is not None) or step == 0:
        days = [monday + timedelta(days=7 * step + weekday)]
    else:
        before = today - timedelta(days=(today.weekday() - weekday - 1) % 7 + 1)
        days = [before] if step == -1 else [before, before + timedelta(days=7)]
        days = days[1:] if step == 1 else days
    yield from ((day, day) for day in days)


_DAYS_OF: Final = {"day": 1, "weekend": 7, "week": 7, "month": 30, "year": 365}


def _unit(match: re.Match[str]) -> str:
    return next(name for name in _UNITS if match[name])


def _step(match: re.Match[str]) -> int:
    found = match.groupdict()
    return -1 if found.get("last") else 1 if found.get("next") else 0


def _unit_span(unit: str, step: int, today: date) -> _Span:
    """Returns the calendar week, month and so on that is so many of them from today's."""
    if unit == "year":
        return date(today.year + step, 1, 1), date(today.year + step, 12, 31)
    if unit == "month":
        months = 12 * today.year + today.month - 1 + step
        return _month(months // 12, months % 12 + 1)
    if unit == "day":
        return (day := today + timedelta(days=step)), day
    monday = today + timedelta(days=7 * step - today.weekday())
    return monday + timedelta(days=5 if unit == "weekend" else 0), monday + timedelta(days=6)


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else _NUMBERS[text]


def _month(year: int, month: int) -> _Span:
    return date(year, month, 1), date(year, month, monthrange(year, month)[1])


def _months(month: int, year: str | None, today: date) -> Iterator[_Span]:
    if 1 <= month <= 12:
        yield from (_month(one, month) for one in _years(year, today))


def _years(year: str | None, today: date) -> Sequence[int]:
    """Returns the year; without one, the last, this and the next. Days that are in no note are no evidence."""
    return (int(year),) if year else (today.year - 1, today.year, today.year + 1)
