"""The page of `report` in Chromium: right in light and dark, and without any effect or request."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fakes.chromium import Page, chromium

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[2]
QUESTION = "When is the boiler serviced?"
HOSTILE = (
    "</title></style><script>pwned = 1; document.title = 'pwned'</script>",
    "<img src=http://127.0.0.1:PORT/a onerror='pwned = 1'>",
    "<svg onload=pwned=1><style>* { background: url(http://127.0.0.1:PORT/b) }</style>",
    "\" onmouseover='pwned = 1' style='display: none' x=\"",
    "<meta http-equiv=refresh content='0;url=http://127.0.0.1:PORT/c'><base href=http://127.0.0.1:PORT/>",
    "<iframe srcdoc='<script>parent.pwned = 1</script>'></iframe><form action=//127.0.0.1:PORT>",
    "&lt;script&gt; &#60;script> \u202egnp.\u2066 שלום boiler עולם",
)

UNREADABLE = """
(() => {
  const canvas = document.createElement("canvas").getContext("2d");
  const light = color => {
    canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map(one => one / 255)
      .map(one => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = element => {
    for (; element; element = element.parentElement) {
      const color = getComputedStyle(element).backgroundColor;
      if (color !== "rgba(0, 0, 0, 0)") return color;
    }
  };
  const found = [];
  for (const element of document.body.querySelectorAll("*")) {
    if (![...element.childNodes].some(one => one.nodeType === 3 && one.data.trim())) continue;
    if (element.tagName === "title") continue;
    const style = getComputedStyle(element);
    const ink = light(element.closest("svg") ? style.fill : style.color);
    const paper = light(behind(element));
    const contrast = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
    if (contrast < 4.5) found.push([element.tagName, element.textContent, contrast]);
  }
  return found;
})()
"""
"""Texts whose contrast with their background is below what WCAG 2 requires of ordinary text (AA)."""


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with chromium() as one:
        yield one


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A port to which nothing may connect."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        one.setblocking(False)
        yield one
        with suppress(BlockingIOError):
            somebody, _ = one.accept()
            somebody.close()
            raise AssertionError("somebody connected")


def texts(page, selector):
    return page.evaluate(f"[...document.querySelectorAll('{selector}')].map(one => one.innerText)")


def nothing_left_the_page(page, url):
    assert page.requested() == [url]
    assert page.complaints() == []


@pytest.fixture
async def report(home, tmp_path):
    """The report on the sample, beside a gateway that has answered searches."""
    shutil.rmtree(home.workspace)
    shutil.copytree(ROOT / "gateway/sample/workspace", home.workspace)
    (home.workspace / "memory/link.md").symlink_to(home.workspace / "MEMORY.md")
    async with home.gateway() as client:
        await client.call("sync")
        for query in ("boiler", QUESTION, "xyzzy"):
            await client.call("memory_search", {"query": query})
        file = tmp_path / "report.html"
        done = home.run("report", "--output", str(file), "--question", QUESTION)
        assert (done.returncode, done.stderr) == (0, "")
    return file


async def test_a_browser_shows_everything_and_complains_of_nothing(page, report):
    url = report.as_uri()
    page.open(url)
    nothing_left_the_page(page, url)
    assert texts(page, "h1") == ["Memory of agent main"]
    assert texts(page, "h2") == [
        "What was asked", "Notes", "People and things named most", "Links", "Calendar", "Languages",
        "By day", "Indexed, and not", "Sizes", "Freshness",
        "Searches", "Most shown notes", "Recalled by itself", "Providers", "How it is set up",
    ]  # fmt: skip
    notes = len(list((ROOT / "gateway/sample/workspace").rglob("*.md")))
    shown = page.evaluate("document.body.innerText")
    for said in (
        QUESTION,
        f"{notes} of {notes}",
        "Each column is a day.",
        "links are never followed",
        "English",
        "boiler",
    ):
        assert said.casefold() in shown.casefold(), said
    assert "boiler" in [one.casefold() for one in texts(page, "mark")]
    shares = page.evaluate(
        "[...document.querySelectorAll('.hit')].map(hit => [...hit.querySelectorAll('.lines td:nth-child(2)')]"
        ".reduce((sum, cell) => sum + parseFloat(cell.innerText || 0), 0))"
    )
    assert shares
    assert all(95 <= one <= 105 for one in shares)
    assert page.evaluate(
        "[...document.querySelectorAll('svg')].every(one => one.getBoundingClientRect().height > 20)"
    )


def shown_rows(page):
    return page.evaluate(
        "[...document.querySelectorAll('.notes > li')].filter(one => one.getBoundingClientRect().height)"
        ".map(one => one.querySelector('bdi').innerText)"
    )


async def test_notes_are_found_by_title_tag_and_day_and_read_without_a_server(page, home, tmp_path):
    for number in range(20):
        home.write(f"memory/note{number}.md", f"# Plain {number}\n\n- nothing\n")
    home.write("memory/2026-02-08.md", "# Übergabe\n\n- see [[Keys]] #house/door\n")
    home.write("memory/keys.md", "# Keys\n\n- The **spare** one hangs in the shed\n")
    file = tmp_path / "report.html"
    assert home.run("report", "-o", str(file), "--with-text").returncode == 0
    page.open(file.as_uri())
    nothing_left_the_page(page, file.as_uri())
    asked = "const field = document.querySelector('#find'); field.value = {!r}; field.dispatchEvent(new Event('input'))"
    for question in ("ubergabe", "#house", "2026-02-08"):
        page.evaluate(f"(() => {{ {asked.format(question)} }})()")
        assert shown_rows(page) == ["Übergabe"], question
    page.evaluate("document.querySelector('.notes > li:not([hidden]) summary').click()")
    page.evaluate("document.querySelector('.notes [open] a[href^=\"#n\"]').click()")
    page.evaluate(f"(() => {{ {asked.format('')} }})()")
    page.evaluate("new Promise(done => setTimeout(done))")
    assert page.evaluate("document.querySelector(location.hash + ' strong').innerText") == "spare"
    assert page.evaluate("document.querySelector(location.hash + ' details').open")
    page.evaluate("document.querySelector('.grid [data-find=\"2026-02-08\"]').click()")
    assert shown_rows(page) == ["Übergabe"]


def test_a_click_on_a_tag_finds_the_notes_that_are_counted_beside_it(page, home, tmp_path):
    for number, tag in enumerate(("car", "car/Tyres", "career", "cars", "Car")):
        home.write(f"memory/tagged{number}.md", f"# Tagged {number}\n\n- said #{tag}\n")
    file = tmp_path / "report.html"
    assert home.run("report", "-o", str(file)).returncode == 0
    page.open(file.as_uri())
    clicked = """
        [...document.querySelectorAll('.chips [data-find^="#"]')].map(chip => {
          chip.click();
          const found = [...document.querySelectorAll('.notes > li')].filter(one => !one.hidden).length;
          return [chip.innerText, found, Number(chip.parentElement.querySelector('.soft').innerText)];
        })
    """
    found = {name: (rows, shown) for name, rows, shown in page.evaluate(clicked)}
    assert found["#car"] == (3, 3)
    assert found["#career"] == found["#cars"] == found["#car/Tyres"] == (1, 1)
    assert all(rows == shown for rows, shown in found.values())


LOWEST_WORD = (
    'Math.min(...[...document.querySelectorAll("svg text")]'
    ".map(one => one.getBoundingClientRect().height))"
)


@pytest.mark.parametrize("width", [1200, 1100, 400, 390])
async def test_nothing_hangs_over_the_edge_and_every_text_can_be_read(page, report, width):
    papers = set()
    for dark in (False, True):
        page.open(report.as_uri(), dark=dark, width=width)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(UNREADABLE) == []
        assert page.evaluate(LOWEST_WORD) >= 8, "words in pictures shrink with the page"
        papers.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(papers) == 2


def test_what_somebody_wrote_into_notes_and_names_does_nothing(home, page, listener, tmp_path):
    hostile = [one.replace("PORT", str(listener.getsockname()[1])) for one in HOSTILE]
    for number, text in enumerate(hostile):
        name = text.replace("/", "∕")[:80]
        home.write(
            f"memory/{number}{name}.md",
            f"---\ntitle: '{number} {text}'\n---\n\n# {text}\n\n- xylophone {text}\n",
        )
    assert home.run("index").returncode == 0
    file = tmp_path / "report.html"
    question = f"xylophone {hostile[0]} \u202e"
    assert home.run("report", "-o", str(file), "-q", question, "--with-text").returncode == 0
    page.open(file.as_uri())
    nothing_left_the_page(page, file.as_uri())
    assert page.evaluate("typeof pwned") == "undefined"
    assert page.evaluate("document.title") == "Memory of agent main"
    assert texts(page, "b bdi") == [question.replace("\u202e", "\\u202e")]
    assert len(texts(page, ".hit")) == 6
    assert page.evaluate(
        "[...new Set([...document.querySelectorAll('body *')].map(one => one.localName))].sort()"
    ) == [
        "a", "article", "b", "bdi", "code", "details", "div", "h1", "h2", "h3", "h4", "header", "input", "li", "line",
        "mark", "p", "rect", "script", "section", "span", "summary", "svg", "table", "tbody", "td", "text", "th",
        "thead", "title", "tr", "ul",
    ]  # fmt: skip
    assert page.evaluate("document.scripts.length") == 1
    assert page.evaluate(
        "[...document.querySelectorAll('*')].flatMap(one => [...one.attributes])"
        ".filter(one => /^(on|style$|src$)/.test(one.name)"
        " || (one.name === 'href' && !/^(#n|file:\\/\\/\\/)/.test(one.value)))"
        ".map(one => `${one.name}=${one.value}`)"
    ) == []  # fmt: skip


def test_what_got_past_escaping_would_still_be_refused(home, page, listener, tmp_path):
    """Scripts, images, styles, frames and forms are put into the page in spite of escaping."""
    port = listener.getsockname()[1]
    assert home.run("index").returncode == 0
    file = tmp_path / "report.html"
    assert home.run("report", "-o", str(file)).returncode == 0
    injected = (
        f"<script>pwned = 1</script><img src=http://127.0.0.1:{port}/a onerror='pwned = 1'>"
        "<p id=victim style='color: #010203'>x</p><style>#victim { background: #010203 }</style>"
        "<iframe srcdoc='<script>parent.pwned = 1</script>'></iframe>"
        f"<link rel=stylesheet href=http://127.0.0.1:{port}/d>"
    )
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("</body>", f"{injected}</body>"), encoding="utf-8")
    page.open(file.as_uri())
    assert page.evaluate("typeof pwned") == "undefined"
    style = "getComputedStyle(document.querySelector('#victim'))"
    assert page.evaluate(f"{style}.color") != "rgb(1, 2, 3)"
    assert page.evaluate(f"{style}.backgroundColor") == "rgba(0, 0, 0, 0)"
    assert page.complaints()
