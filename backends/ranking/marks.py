"""What stands in a snippet and in no file."""

from typing import Final

GAP: Final = "\n…\n"
"""Between stretches of a snippet that do not follow one another in the file."""
BREADCRUMB: Final = "§ "
"""Begins a line with the headings above what follows."""
