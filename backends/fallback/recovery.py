"""When QMD is asked again after it has let a question wait in vain.

Owns the pause after time-outs, which cost the whole deadline; other failures are told at once and cost
nothing, so that QMD is asked again by the next question.
"""

from __future__ import annotations

from typing import Final

from backends.qmd.errors import QmdUnavailableError
from config.runtime.tasks import Backoff

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 8.0


class Recovery:
    """The memory of QMD's last failure."""

    def __init__(self) -> None:
        self._pause = Backoff(FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, LONGEST_PAUSE_S)
        self.reason: str | None = None
        """Why the last question was not answered by QMD; None when it was, or none was asked."""

    def check(self) -> None:
        """Raises the last failure again while QMD is to be left alone."""
        if self.reason is not None and self._pause.left_s:
            raise QmdUnavailableError("not_ready", self.reason)

    def failed(self, error: QmdUnavailableError) -> bool:
        """Remembers a failure; whether it is a new one."""
        is_new = self.reason is None
        self.reason = str(error)
        if error.cause == "timeout":
            self._pause.failed()
        return is_new

    def succeeded(self) -> None:
        self.reason = None
        self._pause.succeeded()
