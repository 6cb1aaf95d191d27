"""Changing a configuration file on the disk: read, changed as a text, written over just what was read.

Which text is right is for the caller; whether it can be read is checked by loading it before it is written.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from config.errors import ConfigInvalidError, ConfigProblem
from config.runtime.files import keep_copy, make_directories, read_file, replace_file
from config.source.json5 import MAX_BYTES

_NEW_MODE: Final = 0o600


class EditedFile(msgspec.Struct, frozen=True):
    """One file as it is; `data` is None where there is none."""

    path: Path
    """Behind links: what a dotfile manager put elsewhere is changed there."""
    data: bytes | None

    @property
    def text(self) -> str:
        return (self.data or b"").decode()

    def write(self, text: str, *, keeps_copy: bool = False) -> Path | None:
        """Replaces the content; an empty text removes the file. Returns the copy of what was there, if one is kept.

        Raises ConfigInvalidError, and then nothing has changed.
        """
        copy = None
        try:
            self._check_unchanged()
            if not text:
                self._remove()
                return None
            make_directories(self.path.parent)
            mode = _NEW_MODE
            if self.data is not None:
                mode = self.path.stat().st_mode & 0o777
                if keeps_copy:
                    copy = keep_copy(self.path, self.data, mode=mode)
            replace_file(self.path, text.encode(), mode=mode, check=self._check_unchanged)
        except OSError as error:
            raise _failed(self.path, f"cannot be written: {error.strerror}") from None
        return copy

    def _remove(self) -> None:
        self.path.unlink(missing_ok=True)
        if not any(self.path.parent.iterdir()):
            self.path.parent.rmdir()

    def _check_unchanged(self) -> None:
        if _read(self.path) != self.data:
            raise self.changed()

    def changed(self) -> ConfigInvalidError:
        """What to raise where the file is not what a change was made for."""
        return _failed(self.path, "was changed by somebody else in this moment")


def open_file(path: Path) -> EditedFile:
    """Raises ConfigInvalidError."""
    real = Path(os.path.realpath(path))
    try:
        found = EditedFile(real, _read(real))
        found.text  # noqa: B018 - no text at all is refused here
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise _failed(real, f"cannot be read: {why}") from None
    return found


def _read(path: Path) -> bytes | None:
    try:
        return read_file(path, MAX_BYTES)
    except FileNotFoundError:
        return None


def _failed(path: Path, message: str) -> ConfigInvalidError:
    problem = ConfigProblem(message=message, file=str(path))
    return ConfigInvalidError([problem], remedy="Nothing was written; try again.")
