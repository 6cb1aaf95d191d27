"""The place of a day's note: an agent's is in `memory/`, a person's among that person's daily notes.

Those are where Obsidian is set to make them, else beside the newest note whose name is a day, else in `memory/`.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from backends.files.roots import Location, MemoryRoots
from backends.files.safe_open import opened
from backends.files.scan import scan
from backends.interface import FileUnreadableError, PathNotAllowedError
from backends.text.times import MONTH_NAMES, WEEKDAY_NAMES, date_of
from config.runtime.decoding import prepared
from config.settings import Settings
from gateway.session_start import MEMORY_DIRECTORY, daily_log

_MONTHS: Final = MONTH_NAMES["en"].split()
_TOKENS: Final[Mapping[str, Callable[[date], str]]] = {
    "YYYY": lambda day: f"{day.year:04}",
    "MMMM": lambda day: _MONTHS[day.month - 1],
    "MMM": lambda day: _MONTHS[day.month - 1][:3],
    "MM": lambda day: f"{day.month:02}",
    "M": lambda day: str(day.month),
    "DD": lambda day: f"{day.day:02}",
    "D": lambda day: str(day.day),
    "dddd": lambda day: WEEKDAY_NAMES[day.weekday()],
    "ddd": lambda day: WEEKDAY_NAMES[day.weekday()][:3],
}
"""The common part of moment's format, in which Obsidian writes names."""
_PIECE: Final = re.compile(
    r"\[(?P<text>[^\[\]]*)\]|(?P<token>(?P<letter>[A-Za-z])(?P=letter)*)|(?P<other>[^A-Za-z\[\]\\])"
)
_USUAL: Final = "YYYY-MM-DD"
_NAMES: Final = (
    _USUAL, "YYYY_MM_DD", "YYYY.MM.DD", "YYYYMMDD", "YYYY-MM-DD dddd", "YYYY-MM-DD ddd", "DD.MM.YYYY", "D.M.YYYY",
    "D MMMM YYYY", "DD MMMM YYYY", "MMMM D, YYYY", "YYYY年MM月DD日", "YYYY年M月D日", "DD",
)  # fmt: skip
_FOLDERS: Final = (
    "YYYY", "YYYY-MM", "YYYY_MM", "MM", "MM-MMMM", "MM MMMM", "MMMM", "YYYY年", "MM月",
)  # fmt: skip
"""The forms of names of folders of a year or a month. A note `DD` has to be in both, or its path gives no day."""
_SETTINGS: Final = (".obsidian", "daily-notes.json")
_SETTINGS_BYTES: Final = 64 * 1024
_NAME_BYTES: Final = 255


class DailyNote(NamedTuple):
    path: str
    """Relative to the workspace or the folder of notes."""
    heading: str = ""
    """The first line of a new note; empty among a person's daily notes, where the name says the day."""
    new_folder: str | None = None
    """The folder that would have to be made, although nobody has chosen it."""


class _ObsidianDaily(msgspec.Struct, frozen=True):
    folder: str = ""
    format: str = ""


def write_day(form: str, day: date) -> str | None:
    """Returns the day in moment's format; None where the format uses more than its common part."""
    written, at = "", 0
    while at < len(form):
        piece = _PIECE.match(form, at)
        if piece is None:
            return None
        if token := piece["token"]:
            if token not in _TOKENS:
                return None
            written += _TOKENS[token](day)
        else:
            written += piece["text"] or piece["other"] or ""
        at = piece.end()
    return written


def set_in_obsidian(data: bytes, day: date) -> str | None:
    """Returns the day's note by `.obsidian/daily-notes.json`; None where that is not understood or leads outside."""
    try:
        chosen = msgspec.json.decode(data, type=prepared(_ObsidianDaily))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    name = write_day(chosen.format.strip() or _USUAL, day)
    folder = chosen.folder.strip().strip("/")
    return _checked("/".join(filter(None, (folder, name)))) if name else None


def as_the_newest(paths: Iterable[str], day: date) -> str | None:
    """Returns the note of the day beside the newest one whose whole name is a day, named in the same form.

    Notes of later days are plans and do not count. Of two forms with the same newest day, the one with more
    notes is taken.
    """
    newest: dict[str, date] = {}
    counts: Counter[str] = Counter()
    for path in paths:
        its_day = date_of(path)
        if its_day is None or its_day > day:
            continue
        if form := _form_of(path, its_day):
            newest[form] = max(newest.get(form, its_day), its_day)
            counts[form] += 1
    if not newest:
        return None
    best = max(newest, key=lambda form: (newest[form], counts[form], form))
    name = write_day(best, day)
    return _checked(name) if name else None


def _form_of(path: str, day: date) -> str | None:
    """Returns the form of a path in moment's format, folders included; None where the name is more than the day."""
    *folders, name = path.removesuffix(".md").split("/")
    form = _fitting(_NAMES, name, day)
    if form is None or any(one in path for one in "[]"):
        return None
    return "/".join([*(_fitting(_FOLDERS, one, day) or f"[{one}]" for one in folders), form])


def _fitting(forms: Iterable[str], name: str, day: date) -> str | None:
    return next((form for form in forms if write_day(form, day) == name), None)


def _checked(name: str) -> str | None:
    """Returns the path of this note if it is inside the folder, visible and can be made; else None."""
    parts = f"{name}.md".split("/")
    is_note = all(
        part == part.strip()
        and part not in {"", ".md"}
        and not part.startswith(".")
        and "\\" not in part
        and part.isprintable()
        and len(part.encode()) <= _NAME_BYTES
        for part in parts
    )
    return "/".join(parts) if is_note else None


def daily_note(settings: Settings, day: date) -> DailyNote:
    """Returns the note of a day. Blocking: lists the folder of a person whose Obsidian says nothing."""
    (note,) = daily_notes(settings, (day,))
    return note


def daily_notes(settings: Settings, days: Sequence[date]) -> list[DailyNote]:
    """Returns the notes of several days. Blocking: lists the folder once at most."""
    folder = settings.notes_folder
    if folder is None:
        return [_ours(day) for day in days]
    roots = MemoryRoots.of(settings)
    data = _obsidian_settings(folder)
    chosen = [None if data is None else set_in_obsidian(data, day) for day in days]
    if not all(path is not None and roots.locate(path) for path in chosen):
        paths = [one.path for one in scan(roots).files]
        chosen = [as_the_newest(paths, day) for day in days]
    has_ours = os.path.lexists(folder / MEMORY_DIRECTORY)
    return [
        _of_person(_ours(day), path, has_ours=has_ours)
        for day, path in zip(days, chosen, strict=True)
    ]


def _ours(day: date) -> DailyNote:
    return DailyNote(daily_log(day), heading=f"# {day.isoformat()}")


def _of_person(ours: DailyNote, path: str | None, *, has_ours: bool) -> DailyNote:
    if path is not None and path != ours.path:
        return DailyNote(path)
    return ours if path or has_ours else ours._replace(new_folder=MEMORY_DIRECTORY)


def _obsidian_settings(folder: Path) -> bytes | None:
    location = Location(path="/".join(_SETTINGS), anchor=str(folder), names=_SETTINGS)
    with suppress(FileNotFoundError, PathNotAllowedError, FileUnreadableError):
        with opened(location) as descriptor, os.fdopen(os.dup(descriptor), "rb") as file:
            data = file.read(_SETTINGS_BYTES + 1)
        return data if len(data) <= _SETTINGS_BYTES else None
    return None
