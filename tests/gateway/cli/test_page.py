"""The page of `report`: the text of notes, names and questions stays text, and nothing is loaded."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from html.parser import HTMLParser

from backends.interface import (
    DayCount,
    Details,
    Hit,
    LanguageCount,
    Overview,
    SearchAnswer,
    SizeCount,
    SkippedFile,
    SourceCount,
    Stretch,
    SyncReport,
)
from fakes.each import each
from gateway.cli.rendering.page import BEGINNING, SCRIPT, Report, columns_of, escape, page_of
from gateway.cli.vault import Known, Links, NameCount, Note, TagCount
from gateway.metrics import Counted, SearchesOfMode, ShownNote
from gateway.tools.status import StatusResult

HOSTILE = (
    "<script>window.pwned = 1</script>",
    "</title></style></pre><script src=//evil.example/x.js></script>",
    "\"><img src=x onerror='window.pwned = 1'>",
    "' onmouseover='window.pwned = 1",
    "<!-- --!> ]]> <![CDATA[ &lt;b&gt; &#60;",
    "<svg/onload=alert(1)><math><style>",
    "javascript:alert(1) <a href='javascript:alert(1)'>x</a> <base href=//evil.example>",
)
VOID = {"meta", "input"}


class Strict(HTMLParser):
    """Fails on an element that is not closed where it should be; collects the rest."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.text = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_comment(self, data):
        raise AssertionError(data)

    def handle_pi(self, data):
        raise AssertionError(data)

    def unknown_decl(self, data):
        raise AssertionError(data)

    def handle_data(self, data):
        self.text.append(data)


def status(**fields):
    given = {
        "agent_id": "main",
        "version": "0",
        "pid": 1,
        "enabled": True,
        "workspace": "/w",
        "config_path": None,
        **fields,
    }
    return StatusResult(**given)


def report(**fields):
    given = {
        "made_at": datetime(2026, 2, 8, 12, tzinfo=UTC),
        "status": status(),
        "overview": None,
        "counted": None,
        **fields,
    }
    return Report(**given)


def everywhere(text):
    """Returns a report with the text in every place that others may fill."""
    hit = Hit(
        path=text, start_line=3, end_line=4, score=0.5, snippet=f"{text}\nboiler {text}",
        source="memory", title=text, tags=(text,),
        explain={"matchedTerms": [text], "note": text, "links": {text: text}},
    )  # fmt: skip
    sync = SyncReport(
        reason=text, scanned=1, added=1, changed=0, removed=0, unchanged=0, skipped=(),
        chunks_written=1, bytes_read=1, duration_ms=1, complete=False, error=text,
    )  # fmt: skip
    return report(
        status=status(
            agent_id=text, workspace=text, config_path=text, provider=text, model=text,
            disabled=text, database_path=text, last_sync_error=text, config_error=text,
            issues=(text,), warnings=(text,), recent_syncs=(sync,),
            skipped=(SkippedFile(path=text, reason=text),),
            sources=(
                SourceCount(source="memory", on_disk=1, indexed=1, pending=0, skipped=1, chunks=1),
            ),
            details=Details(skipped={text: 1}, left_out={text: 2}),
        ),
        overview=Overview(
            days=(DayCount("memory", "2026-02-08", 1),), sizes=(SizeCount(0, 1, 1),), languages=()
        ),
        known=Known(
            notes=(
                Note(
                    path=text, title=text, aliases=(text,), tags=(text,), day=date(2026, 2, 8),
                    modified=datetime(2026, 2, 8, tzinfo=UTC), leads_to=(text,),
                ),
            ),
            tags=(TagCount(text, 1),),
            named=(NameCount(text, (text,)),),
            links={text: Links(text, (text,), (text,), (text,))},
            languages=(LanguageCount(text, 1),),
            texts={text: f"plain\n\n```{text}\n{text}\n```\n"},
        ),
        counted=Counted(
            since=0.0,
            searches=(
                SearchesOfMode(backend=text, mode=text, outcomes={text: 1}, ms_median=1, ms_p95=2),
            ),
            shown=(ShownNote(text, 1),),
            shown_forgotten=True,
        ),
        question=text,
        answer=SearchAnswer(hits=(hit,), outcome="ok", warning=text),
    )  # fmt: skip


PLAIN = Strict(page_of(everywhere("harmless")))


@each("text", HOSTILE)
def test_hostile_text_is_text_in_every_place(text):
    found = Strict(page_of(everywhere(text)))
    without_marks = [tag for tag in found.tags if tag != "mark"]
    assert without_marks == [tag for tag in PLAIN.tags if tag != "mark"]
    assert found.attributes == PLAIN.attributes
    shown = "".join(found.text)
    assert shown.count(text) >= 20


def test_what_reorders_or_hides_text_is_shown_as_a_number():
    said = escape("a\u202eb\u2066c\x00d\x1be\x9bf\ud800g\ufffeh\U0001fffei")
    assert said == "a\\u202eb\\u2066c\\x00d\\x1be\\x9bf\ufffdg\\ufffeh\ufffdi"
    page = page_of(everywhere("\u202egnp.\x1b[31m"))
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", page
    )
    page.encode()


def test_the_page_loads_nothing_and_may_not():
    page = page_of(everywhere("harmless"))
    assert page.startswith(BEGINNING)
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; style-src 'sha256-")
    assert not {"link", "img", "iframe", "form", "base"} & set(PLAIN.tags)
    assert not {"src", "style", "action"} & set(PLAIN.attributes)
    assert re.findall("<script.*?</script>", page, re.DOTALL) == [f"<script>{SCRIPT}</script>"]
    assert {one for one in re.findall('href="(.*?)"', page) if not one.startswith("file://")} == {
        "#n1",
        "#notes",
    }
    assert "url(" not in page
    assert "@import" not in page


@each("name", ["style", "script"])
def test_the_policy_permits_the_style_and_the_script_that_are_there(name):
    import base64
    import hashlib

    page = page_of(everywhere("harmless"))
    found = re.search(f"<{name}>(.*?)</{name}>", page, re.DOTALL)
    assert found is not None
    digest = base64.b64encode(hashlib.sha256(found[1].encode()).digest()).decode()
    assert f"{name}-src 'sha256-{digest}'" in page


def test_light_and_dark_follow_the_reader():
    assert "prefers-color-scheme: dark" in page_of(report())


def rows_of(hit):
    page = page_of(report(question="boiler", answer=SearchAnswer(hits=(hit,), outcome="ok")))
    lines = re.findall(
        r"<tr>(.*?)</tr>", page.partition('class="lines"')[2].partition("</tbody>")[0]
    )
    return [
        [re.sub("<.*?>", "", cell) for cell in re.findall("<td.*?</td>", one)] for one in lines[1:]
    ]


def passage(snippet, **fields):
    given = {"path": "a.md", "start_line": 3, "end_line": 9, "score": 0.5, "source": "memory"}
    return Hit(**{**given, **fields}, snippet=snippet)


def test_each_line_has_its_number_in_the_file_and_what_it_gave():
    lines = [
        {"share": 0.75, "text": 0.9, "vector": None},
        {"share": 0.25, "text": 0.0, "vector": 0.5},
        {"share": 0.0, "text": 0.0, "vector": None},
    ]
    shown = passage(
        "one\ntwo\n…\nthree",
        stretches=(Stretch(start_line=3, end_line=4), Stretch(start_line=9, end_line=9)),
        explain={"lines": lines},
    )
    assert rows_of(shown) == [
        ["3", "75%", "0.90", "", "one"],
        ["4", "25%", "", "0.50", "two"],
        ["", "", "", "", "…"],
        ["9", "", "", "", "three"],
    ]


def test_turns_whose_lines_in_the_file_are_not_known_have_no_numbers():
    assert rows_of(passage("one\ntwo", source="sessions")) == [
        ["", "one"],
        ["", "two"],
    ]


def test_without_a_gateway_the_page_says_that_nothing_is_counted():
    assert "No gateway runs for this memory, so nothing is counted." in page_of(report())
    assert "nothing is counted" not in page_of(everywhere("harmless"))


def test_every_part_of_a_memory_that_is_off_is_left_out_but_the_reason():
    page = page_of(report(status=status(enabled=False, disabled="memorySearch.enabled is false")))
    assert "Memory is off: memorySearch.enabled is false" in page
    assert "Indexed, and not" not in page


def days(first, count, step=1):
    begin = date.fromisoformat(first)
    return {(begin + timedelta(days=step * at)).isoformat(): 1 for at in range(count)}


@each(
    ("dated", "unit", "columns"),
    [
        ({"2026-02-08": 3}, "day", 1),
        ({"2026-02-08": 3, "2026-02-11": 1}, "day", 4),
        (days("2026-01-01", 120), "day", 120),
        (days("2026-01-01", 121), "month", 5),
        (days("2017-01-01", 3650), "month", 120),
        (days("2016-01-01", 4000), "year", 11),
        ({"2026-01": 2, "2026-02": 1}, "month", 2),
        ({"2024": 2, "2026": 1}, "year", 3),
        ({f"{year:04}": 1 for year in range(1, 9999, 7)}, "year", 120),
        ({"0001-01-01": 1, "9999-12-31": 1}, "year", 2),
    ],
)
def test_days_become_so_many_columns_without_gaps(dated, unit, columns):
    found, bars = columns_of(dated)
    assert (found, len(bars)) == (unit, columns)
    assert [name for name, _ in bars] == sorted(name for name, _ in bars)
    if len(dated) < 1000:
        assert sum(number for _, number in bars) == sum(dated.values())


def test_what_there_is_no_room_for_is_counted():
    spread = tuple(DayCount("memory", f"{year}", 2) for year in range(1900, 2026))
    page = page_of(report(overview=Overview(days=spread, sizes=(), languages=())))
    assert "Each column is a year. Files of earlier years are not drawn: 12." in page
    assert "not drawn" not in page_of(everywhere("harmless"))


def test_the_page_stays_small_however_much_there_is():
    many = tuple(DayCount("memory", day, 100) for day in days("2000-01-01", 1000, 9))
    overview = Overview(
        days=many,
        sizes=tuple(SizeCount(10**power, 10**5, 10**9) for power in range(7)),
        languages=tuple(LanguageCount(f"language {one}", 100) for one in range(30)),
    )
    skipped = tuple(
        SkippedFile(path=f"memory/{one}.md", reason="no permission") for one in range(50)
    )
    page = page_of(report(status=status(skipped=skipped), overview=overview))
    assert len(page.encode()) < 60_000
