"""A key has one spelling in messages and documents: the short one."""

import re
from pathlib import Path

from config.sections import MEMORY, SEARCH

ROOT = Path(__file__).resolve().parents[2]
TEXTS = [
    *(one for floor in ("config", "providers", "backends", "gateway") for one in ROOT.glob(f"{floor}/**/*.py")),
    *(one for one in ROOT.glob("docs/*.md") if one.name != "migration.md"),  # it is about the other spellings
    ROOT / "README.md",
]  # fmt: skip
LONG = {f"{section.name}.{key.path}" for section in (SEARCH, MEMORY) for key in section.keys}


def test_no_message_and_no_document_spells_a_key_otherwise():
    found = {
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in TEXTS
        for match in re.finditer(r"(?<![\w.])memory(?:Search)?(?:\.[A-Za-z]+)+", path.read_text(encoding="utf-8"))
        if match[0] in LONG
    }  # fmt: skip
    assert found == set()
