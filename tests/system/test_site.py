"""The documentation as pages: every page is in the menu, and links lead to the same places as in the repository."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site():
    """The hook, without mkdocs, of which it uses only the type of a file."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("mkdocs", "mkdocs.structure", "mkdocs.structure.files"):
            module = ModuleType(name)
            module.File = module.Files = object
            patch.setitem(sys.modules, name, module)
        from publishing import site as found

        yield found


def pages(menu):
    for entry in menu:
        (value,) = entry.values()
        yield from [value] if isinstance(value, str) else pages(value)


def test_the_menu_names_every_page_once(site):
    menu = list(pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]))
    docs = [one.name for one in (ROOT / "docs").glob("*.md")]
    assert sorted(menu) == sorted([*docs, *site.PAGES.values()])
    assert all((ROOT / one).is_file() for one in site.PAGES)


def test_pages_that_are_opened_as_files_load_the_worker_of_their_search_from_beside_them():
    """The plugin `offline` would load one from a host, unless a polyfill of this name is there."""
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    (script,) = settings["extra"]["polyfills"]
    assert "iframe-worker" in script
    assert (ROOT / settings["theme"]["custom_dir"] / script).is_file()


@pytest.mark.parametrize(
    ("text", "folder", "expected"),
    [
        ("[a](docs/notes.md#b)", ".", "[a](notes.md#b)"),
        ("![a](docs/demo.svg)", ".", "![a](demo.svg)"),
        ("[a](../README.md)", "docs", "[a](start.md)"),
        ("[a](../CONTRIBUTING.md#b)", "docs", "[a](contributing.md#b)"),
        ("[a](notes.md)", "docs", "[a](notes.md)"),
        ("[a](#b)", "docs", "[a](#b)"),
        ("[a](https://example.com/x.md)", "docs", "[a](https://example.com/x.md)"),
        ("[a](../config/vendors.py)", "docs", "a (`config/vendors.py`)"),
        ("`[a](../x.py)`", "docs", "`[a](../x.py)`"),
    ],
)
def test_a_link_leads_where_it_led(site, text, folder, expected):
    assert site.relinked(text, Path(folder)) == expected


def test_every_link_leads_to_a_file_and_a_heading():
    """The links are those of the repository; the site is made of the same text."""
    missing = []
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]:
        text = re.sub(
            r"```.*?```|`[^`\n]*`|^ {4}.*$",
            "",
            page.read_text("utf-8"),
            flags=re.DOTALL | re.MULTILINE,
        )
        for target in re.findall(r"\]\(([^()\s]+)\)", text):
            name, _, anchor = target.partition("#")
            if re.match(r"[a-z]+:", target):
                continue
            place = (page.parent / name).resolve() if name else page
            if not place.exists() or (anchor and anchor not in anchors(place)):
                missing.append(f"{page.name}: {target}")
    assert missing == []


def test_every_file_that_a_page_names_is_there():
    """They may be named with or without suffix; the changelog names files that are gone."""
    floors = "backends|config|deploy|gateway|plugins|providers|publish|scripts|systemd|tests"
    missing = [
        f"{page.name}: {name}"
        for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
        if page.name != "CHANGELOG.md"
        for name in re.findall(rf"`((?:{floors})/[\w./-]+)`", page.read_text("utf-8"))
        if not any((ROOT / f"{name}{suffix}").exists() for suffix in ("", ".py", ".js"))
    ]
    assert missing == []


def anchors(page):
    """Returns the anchors that GitHub makes of headings."""
    found = {}
    for heading in re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-")
        found[slug] = found.get(slug, -1) + 1
        if found[slug]:
            found[f"{slug}-{found[slug]}"] = 0
    return found
