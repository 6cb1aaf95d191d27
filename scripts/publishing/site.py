"""Hooks of mkdocs: the pages of the root belong to the site, and links between all pages lead there.

A link to another file, such as one of the code, becomes its path alone: the pages do not know where the repository is.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any, Final

from mkdocs.structure.files import File, Files

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = {
    "README.md": "start.md",
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "RELEASING.md": "releasing.md",
    "SECURITY.md": "security-policy.md",
}
"""The pages of the root, with their names on the site."""
_LINK: Final = re.compile(
    r"(?P<picture>!?)\[(?P<text>(?:[^\[\]]|\[[^\[\]]*\])*)\]\((?P<target>[^()\s]+)\)"
)
_FENCE: Final = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    for source, name in PAGES.items():
        files.append(File.generated(config, name, content=(ROOT / source).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    del config, files
    name = page.file.src_uri
    return relinked(markdown, Path() if name in PAGES.values() else Path("docs"))


def relinked(markdown: str, folder: Path) -> str:
    """Returns a page of `folder` with its links for the site, where all pages are in one folder."""
    parts = _FENCE.split(markdown)  # every second one is code, where nothing is a link
    parts[::2] = [_LINK.sub(lambda link: _link(link, folder), part) for part in parts[::2]]
    return "".join(parts)


def _link(link: re.Match[str], folder: Path) -> str:
    target, mark, anchor = link["target"].partition("#")
    if not target or re.match(r"[a-z]+:", target):
        return link[0]
    place = posixpath.normpath(posixpath.join(folder.as_posix(), target))
    if place in PAGES:
        return f"{link['picture']}[{link['text']}]({PAGES[place]}{mark}{anchor})"
    if place.startswith("docs/"):
        return f"{link['picture']}[{link['text']}]({place.removeprefix('docs/')}{mark}{anchor})"
    return f"{link['text']} (`{place}`)"
