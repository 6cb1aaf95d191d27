"""The text for monitoring systems, read back by the parser of its own library."""

from __future__ import annotations

from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as read_textfile

from gateway.metrics import Counter, Family, Histogram, Sample, openmetrics_text, write_textfile


def families() -> tuple[Family, ...]:
    counter = Counter("requests", "Requests.", "method")
    counter.add('odd "name"\n')
    histogram = Histogram("request_seconds", "How long.", "method")
    histogram.observe(0.003, "x")
    histogram.observe(99.0, "x")
    gauge = Family(name="chunks", kind="gauge", help="Chunks.", samples=(Sample(value=7),))
    return counter.family(), histogram.family(), gauge


def values(parsed) -> dict[str, float]:
    return {
        " ".join([one.name, *one.labels.values()]): one.value
        for family in parsed
        for one in family.samples
    }


def test_openmetrics_holds_every_kind():
    text = openmetrics_text(families())
    assert text.endswith("# EOF\n")
    found = values(text_string_to_metric_families(text))
    assert found['memory_gateway_requests_total odd "name"\n'] == 1
    assert found["memory_gateway_chunks"] == 7
    assert found["memory_gateway_request_seconds_bucket 0.0025 x"] == 0
    assert found["memory_gateway_request_seconds_bucket 0.005 x"] == 1
    assert found["memory_gateway_request_seconds_bucket +Inf x"] == 2
    assert found["memory_gateway_request_seconds_sum x"] == 99.003


def test_a_textfile_is_replaced_whole(tmp_path):
    file = tmp_path / "memory.prom"
    file.write_text("older", encoding="utf-8")
    write_textfile(file, families())
    assert [one.name for one in tmp_path.iterdir()] == ["memory.prom"]
    assert values(read_textfile(file.read_text(encoding="utf-8")))["memory_gateway_chunks"] == 7
