"""Two statuses as one: of who answers now, with what the other has to say. Pure."""

from __future__ import annotations

import msgspec

from backends.interface import BackendStatus


def combine(qmd: BackendStatus, builtin: BackendStatus, reason: str | None) -> BackendStatus:
    """`reason` says why QMD does not answer now; None when it does, or has not been asked yet."""
    section = qmd.details.get("qmd", {})
    if reason is None and not section.get("available"):
        reason = qmd.issues[0] if qmd.issues else "QMD is not available."
    answering, other = (qmd, builtin) if reason is None else (builtin, qmd)
    details = {**builtin.details, **qmd.details}
    weaknesses = answering.weaknesses
    if reason is not None:
        details["fallback"] = {"from": "qmd", "reason": reason}
        weaknesses = (replaced(reason), *weaknesses)
    return msgspec.structs.replace(
        answering,
        issues=tuple(dict.fromkeys((*answering.issues, *other.issues))),
        syncing=answering.syncing or other.syncing,
        recent_syncs=(*answering.recent_syncs, *other.recent_syncs),
        weaknesses=weaknesses,
        details=details,
    )


def replaced(reason: str) -> str:
    return f"The builtin index answers in place of QMD: {reason}"
