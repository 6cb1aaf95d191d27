"""Families as text for a monitoring system: OpenMetrics, and the older format of Prometheus, which the
textfile collector of the node exporter reads.

Owns the prefix of the names and the spelling; the tests read both back with the library of Prometheus.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from config.disk.replacing import replace_file
from gateway.metrics.instruments import SECONDS, Family

PREFIX: Final = "memory_gateway_"
_BOUNDS: Final = (*map(str, SECONDS), "+Inf")
_TOTAL: Final = "_total"
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def openmetrics_text(families: Iterable[Family]) -> str:
    return "".join(line for family in families for line in _lines(family)) + "# EOF\n"


def write_textfile(path: Path, families: Iterable[Family]) -> None:
    """Replaces the file in one step, for everybody to read. Raises OSError."""
    text = "".join(line for family in families for line in _lines(family, counter=_TOTAL))
    replace_file(path, text.encode(), mode=0o644)


def _lines(family: Family, *, counter: str = "") -> Iterator[str]:
    """`counter` is what the family of a counter is called beyond its name: the formats differ in that."""
    name = PREFIX + family.name
    head = name + (counter if family.kind == "counter" else "")
    yield f"# HELP {head} {family.help.translate(_ESCAPES)}\n"
    yield f"# TYPE {head} {family.kind}\n"
    for sample in family.samples:
        labels = dict(zip(family.labels, sample.labels, strict=True))
        if family.kind != "histogram":
            total = _TOTAL if family.kind == "counter" else ""
            yield f"{name}{total}{_written(labels)} {sample.value}\n"
            continue
        for bound, count in zip(_BOUNDS, sample.buckets, strict=True):
            yield f"{name}_bucket{_written({'le': bound, **labels})} {count}\n"
        yield f"{name}_count{_written(labels)} {sample.buckets[-1]}\n"
        yield f"{name}_sum{_written(labels)} {sample.value}\n"


def _written(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""
