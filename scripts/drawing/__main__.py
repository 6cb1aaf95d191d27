"""Puts the picture of the import graph into docs/architecture.md."""

from __future__ import annotations

import sys
from pathlib import Path

from drawing.picture import ImportCircleError, mermaid, replaced
from drawing.units import imports_between_units

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "architecture.md"


def main() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    try:
        picture = mermaid(imports_between_units())
    except ImportCircleError as error:
        sys.exit(str(error))
    DOCUMENT.write_text(replaced(text, picture), encoding="utf-8")


if __name__ == "__main__":
    main()
