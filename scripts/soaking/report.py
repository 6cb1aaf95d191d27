"""The outcome of a soak as a table and as JSON, and whether it is good."""

from __future__ import annotations

from typing import Any, Final

from rich.console import Console
from rich.table import Table

from benchmarks.scoring import percentile
from soaking.figures import quarters, slope
from soaking.soak import Outcome

WARM_UP: Final = 0.15
"""The share of the samples that is not judged: caches fill, arenas grow."""
_MIB: Final = 1 << 20


def summary(outcome: Outcome) -> dict[str, Any]:
    samples = outcome.samples
    warm = samples[int(len(samples) * WARM_UP) :]
    resident = [one.resident_mib for one in warm]
    first, last = quarters(resident)
    growth = slope([one.at_s for one in warm], resident)
    descriptors = quarters([one.descriptors for one in warm])
    findings = outcome.findings
    return {
        "minutes": samples[-1].at_s / 60,
        "samples": len(samples),
        "activities": dict(sorted(findings.done.items())),
        "searches": len(findings.search_s),
        "modes": dict(findings.modes),
        "staleAnswers": findings.stale,
        "errors": findings.errors,
        "wrong": findings.wrong,
        "searchMs": {
            name: percentile(findings.search_s, share) * 1000
            for name, share in (("p50", 0.5), ("p95", 0.95), ("max", 1.0))
        },
        "residentMiB": {
            "first": samples[0].resident_mib,
            "warmQuarter": first,
            "lastQuarter": last,
            "max": max(one.resident_mib for one in samples),
            "slopePerHour": list(growth),
        },
        "descriptors": {"warmQuarter": descriptors[0], "lastQuarter": descriptors[1]},
        "threadsMax": max(one.threads for one in samples),
        "childrenMax": max(one.children for one in samples),
        "walMiBMax": max(one.wal_bytes for one in samples) / _MIB,
        "databaseMiB": {
            "max": max(one.database_bytes for one in samples) / _MIB,
            "end": outcome.database_bytes / _MIB,
            "fresh": outcome.fresh_bytes / _MIB,
        },
        "exitCode": outcome.exit_code,
    }


def show(found: dict[str, Any], console: Console) -> None:
    resident, database, ms = found["residentMiB"], found["databaseMiB"], found["searchMs"]
    value, low, high = resident["slopePerHour"]
    descriptors = found["descriptors"]
    table = Table(title=f"Soak of {found['minutes']:.1f} minutes", title_justify="left")
    table.add_column("figure")
    table.add_column("value", justify="right")
    for name, shown in (
        ("activities", f"{sum(found['activities'].values()):,}"),
        ("searches with a known answer", f"{found['searches']:,}"),
        ("of them with vectors / words only", f"{found['modes'].get('hybrid', 0):,} / {found['modes'].get('keyword', 0):,}"),
        ("errors", str(len(found["errors"]))),
        ("wrong or empty answers", str(len(found["wrong"]))),
        ("answers that said they were stale", str(found["staleAnswers"])),
        ("search p50 / p95 / max, ms", f"{ms['p50']:.0f} / {ms['p95']:.0f} / {ms['max']:.0f}"),
        ("resident MiB, quarter after warm-up / last", f"{resident['warmQuarter']:.1f} / {resident['lastQuarter']:.1f}"),
        ("resident MiB, first sample / max", f"{resident['first']:.1f} / {resident['max']:.1f}"),
        ("slope, MiB an hour (95 %)", f"{value:+.1f} ({low:+.1f} to {high:+.1f})"),
        ("descriptors, quarter after warm-up / last", f"{descriptors['warmQuarter']:g} / {descriptors['lastQuarter']:g}"),
        ("threads, children, max", f"{found['threadsMax']}, {found['childrenMax']}"),
        ("write-ahead log, MiB max", f"{found['walMiBMax']:.1f}"),
        ("database MiB, max / end / fresh", f"{database['max']:.1f} / {database['end']:.1f} / {database['fresh']:.1f}"),
        ("exit code", str(found["exitCode"])),
    ):  # fmt: skip
        table.add_row(name, shown)
    console.print(table)
    console.print(", ".join(f"{name} {count}" for name, count in found["activities"].items()))
    for fault in [*found["errors"], *found["wrong"]][:20]:
        console.print(fault[:600], markup=False)
