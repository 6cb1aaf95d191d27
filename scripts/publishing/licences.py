"""Which licence each locked library has, as SPDX expressions, read from what is installed.

A library that states none that is known here is named as such, never guessed.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Final, NamedTuple

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements.lock"
PAGE = ROOT / "docs" / "licences.md"

_IN_WORDS: Final = {
    "Apache 2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "ISC License": "ISC",
    "MIT License, Apache License, Version 2.0": "MIT OR Apache-2.0",
    "MIT, BSD": "MIT AND BSD-3-Clause",
    "3-Clause BSD License": "BSD-3-Clause",
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: MIT License": "MIT",
    "License :: OSI Approved :: Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
"""The unambiguous licence names of older metadata."""
_READ: Final = {
    "jinja2": "BSD-3-Clause",
    "prompt-toolkit": "BSD-3-Clause",
    "pyasn1-modules": "BSD-2-Clause",
}
"""Libraries whose metadata is ambiguous ("BSD"), with the licence that the text beside their code states."""


class Licence(NamedTuple):
    library: str
    version: str
    expression: str | None
    """SPDX; None where the metadata states nothing that is known here."""


def locked(lock: Path = LOCK) -> list[Requirement]:
    """Returns the libraries of a lock that apply to this machine."""
    lines = re.findall(r"^[A-Za-z0-9][^\\\n]*", lock.read_text(encoding="utf-8"), re.MULTILINE)
    found = map(Requirement, lines)
    return [one for one in found if one.marker is None or one.marker.evaluate()]


def core() -> set[str]:
    """Returns the names of what is installed without any extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = set[str]()
    waiting = list(project["dependencies"])
    while waiting:
        requirement = Requirement(waiting.pop())
        name = canonicalize_name(requirement.name)
        is_wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if is_wanted and name not in names:
            names.add(name)
            waiting += metadata.requires(name) or []
    return names


def licence_of(library: str) -> Licence:
    """Returns the licence of a library. Raises PackageNotFoundError if it is not installed."""
    about = metadata.metadata(library)
    name = canonicalize_name(library)
    words = [about.get("License-Expression"), _READ.get(name), about.get("License")]
    words += about.get_all("Classifier") or []
    stated = (_expression(one) for one in words if one)
    return Licence(name, about["Version"], next((one for one in stated if one), None))


def _expression(words: str) -> str | None:
    try:
        return canonicalize_license_expression(_IN_WORDS.get(words, words))
    except InvalidLicenseExpression:
        return None


def table(licences: Iterable[Licence]) -> Iterator[str]:
    yield "| library | licence |"
    yield "|---|---|"
    for one in sorted(licences):
        yield f"| {one.library} | {one.expression or 'unknown'} |"


def replaced(page: str, rows: Iterable[str]) -> str:
    """Returns the page with a new table."""
    return re.sub(
        r"^\|.*\|$\n(?:^\|.*\|$\n)*", "\n".join(rows) + "\n", page, count=1, flags=re.MULTILINE
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="./scripts/licences", description=__doc__)
    parser.add_argument("--core", action="store_true", help="only what is installed without extras")
    parser.add_argument("--write", action="store_true", help=f"write the table of {PAGE.name}")
    asked = parser.parse_args()
    names = {canonicalize_name(one.name) for one in locked()}
    rows = list(table(map(licence_of, core() if asked.core else names)))
    if asked.write:
        PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), rows), encoding="utf-8")
    else:
        print("\n".join(rows))


if __name__ == "__main__":
    main()
