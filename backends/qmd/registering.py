"""Making QMD know the planned collections, without ever losing one that is not ours.

Owns the two ways: the configuration written whole where the version keeps it, else one `collection`
command after another. The caller holds the lock of the home.
"""

from __future__ import annotations

import re

import msgspec
from anyio.to_thread import run_sync

from backends.qmd.collections import Collection
from backends.qmd.configuration import (
    Binding,
    Ledger,
    Reconciled,
    read_document,
    read_ledger,
    reconcile,
    write_document,
    write_ledger,
)
from backends.qmd.errors import QmdUnavailableError
from backends.qmd.program import WHOLE_CONFIG_SINCE
from backends.qmd.sidecar import Sidecar
from backends.qmd.yaml import UnknownYamlError

_LISTED = re.compile(r"^(\S+) \(qmd://", re.MULTILINE)


class Registered(msgspec.Struct, frozen=True):
    """`names` may be searched; `issues` says why others may not."""

    names: frozenset[str] = frozenset()
    issues: tuple[str, ...] = ()


async def register(
    sidecar: Sidecar, planned: tuple[Collection, ...], *, timeout_s: float
) -> Registered:
    """Adds what is missing, binds anew what changed, drops what is certainly ours and unwanted.

    Raises QmdUnavailableError and OSError; nothing is removed before everything is added.
    """
    home, version = sidecar.home, sidecar.program.version_text
    ledger = await run_sync(read_ledger, home.ledger)
    try:
        document = await run_sync(read_document, home.config_file)
        plan = reconcile(document, ledger, planned, sidecar.models, sidecar.named_models)
    except UnknownYamlError:
        plan = None
    issues: list[str] = []
    if plan is not None and sidecar.program.version >= WHOLE_CONFIG_SINCE:
        await run_sync(write_document, home.config_file, plan.document)
        ours = plan.ours
    else:
        ours, issues = await _add_by_commands(sidecar, planned, ledger, plan, timeout_s)
    # Until QMD has removed it, a dropped collection stays in the ledger as ours.
    kept = {name: ledger.collections[name] for name in (plan.dropped if plan else ())}
    await run_sync(write_ledger, home.ledger, Ledger(version, {**kept, **ours}))
    if plan is not None and plan.dropped:
        for name in plan.dropped:
            await sidecar.change("collection", "remove", name, timeout_s=timeout_s)
        await run_sync(write_ledger, home.ledger, Ledger(version, ours))
    conflicts = [
        f"QMD's collection {name!r} was bound to something else by hand and is left alone; "
        "rename it there or here."
        for name in (plan.conflicts if plan else ())
    ]
    return Registered(frozenset(ours), (*conflicts, *issues))


async def _add_by_commands(
    sidecar: Sidecar,
    planned: tuple[Collection, ...],
    ledger: Ledger,
    plan: Reconciled | None,
    timeout_s: float,
) -> tuple[dict[str, Binding], list[str]]:
    listing = await sidecar.run("collection", "list", timeout_s=timeout_s)
    listed = set(_LISTED.findall(listing.stdout))
    ours: dict[str, Binding] = {}
    issues = []
    for one in planned:
        binding = Binding(str(one.path), one.pattern)
        made = ledger.collections.get(one.name)
        if plan is not None and one.name in plan.conflicts:
            continue
        if one.name in listed and made != binding:
            if plan is None or (made is None and one.name not in plan.ours):
                issues.append(f"QMD's collection {one.name!r} cannot be judged and is left alone.")
                continue
            if made is not None:
                await sidecar.change("collection", "remove", one.name, timeout_s=timeout_s)
                listed.discard(one.name)
        if one.name not in listed:
            if not await run_sync(one.path.is_dir):
                continue
            await _add(sidecar, one, timeout_s)
        ours[one.name] = binding
    return ours, issues


async def _add(sidecar: Sidecar, one: Collection, timeout_s: float) -> None:
    arguments = ("collection", "add", str(one.path), "--name", one.name, "--mask", one.pattern)
    finished = await sidecar.run(*arguments, timeout_s=timeout_s, niced=True)
    if finished.returncode != 0 and "exists" not in finished.stderr + finished.stdout:
        raise QmdUnavailableError(
            "broken", f"QMD refused the collection {one.name!r}: {finished.complaint}."
        )
