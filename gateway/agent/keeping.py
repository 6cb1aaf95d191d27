"""Writing down, while the memory is open, what was recalled and whether it was of use."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from backends.errors import IndexUnavailableError
from config.runtime.logs import Log
from config.runtime.tasks import BoundedWork
from gateway.recalled import RECORD_KEY, UseRecord

if TYPE_CHECKING:
    from backends.builtin.store.port import Store

_log = Log()

_EVERY_S: Final = 10.0
_PATIENCE_S: Final = 5.0
_LAST_S: Final = 0.5
"""What the end of the process waits for it."""


async def keep_record(store: Store, record: UseRecord) -> None:
    """Until cancelled; then once more. What cannot be written now is written later."""
    work = BoundedWork("record of what was recalled")
    await _read_former(work, store, record)
    try:
        while True:
            await anyio.sleep(_EVERY_S)
            await _write(work, store, record, _PATIENCE_S)
    finally:
        with anyio.CancelScope(shield=True):
            await _write(work, store, record, _LAST_S)


async def _write(work: BoundedWork, store: Store, record: UseRecord, patience_s: float) -> None:
    if not record.is_new:
        return
    text = record.write()
    try:
        await work.run(partial(_put, store, text), patience_s)
    except (TimeoutError, IndexUnavailableError) as error:
        record.is_new = True
        _log.debug("what was recalled is not written down yet", error=str(error))


async def _read_former(work: BoundedWork, store: Store, record: UseRecord) -> None:
    try:
        record.add(await work.run(partial(_read, store), _PATIENCE_S))
    except (TimeoutError, IndexUnavailableError) as error:
        _log.warning("what was recalled before is not known", error=str(error))


def _read(store: Store) -> str | None:
    with store.view() as view:
        return view.remembered(RECORD_KEY)


def _put(store: Store, text: str) -> None:
    with store.writer(_PATIENCE_S) as writer:
        writer.remember(RECORD_KEY, text)
