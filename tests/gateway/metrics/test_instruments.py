"""Counters and histograms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as read_textfile

from gateway.metrics import (
    SECONDS,
    Counter,
    Family,
    Histogram,
    Sample,
    openmetrics_text,
    write_textfile,
)


def test_a_counter_without_labels_begins_at_nothing():
    counter = Counter("x", "Things.")
    assert counter.family().samples == (Sample(value=0.0),)
    counter.add()
    counter.add(amount=2)
    assert (counter.total(), counter.family().samples) == (3, (Sample(value=3.0),))


def test_a_counter_keeps_labels_apart_and_tells_them_in_order():
    counter = Counter("x", "Things.", "kind")
    counter.add("b")
    counter.add("a", amount=2)
    family = counter.family()
    assert (family.name, family.kind, family.labels) == ("x", "counter", ("kind",))
    assert family.samples == (Sample(labels=("a",), value=2), Sample(labels=("b",), value=1))


@given(st.lists(st.floats(0, 100), min_size=1, max_size=50))
def test_buckets_count_what_is_at_most_their_bound(observed):
    histogram = Histogram("x", "Durations.")
    for seconds in observed:
        histogram.observe(seconds)
    (sample,) = histogram.family().samples
    assert list(sample.buckets) == [
        sum(seconds <= bound for seconds in observed) for bound in (*SECONDS, float("inf"))
    ]
    assert sample.value == pytest.approx(sum(observed), abs=1e-5)


@given(st.lists(st.floats(0, 60), min_size=1, max_size=50), st.floats(0.01, 1))
def test_a_quantile_lies_in_the_bucket_of_the_exact_one(observed, share):
    histogram = Histogram("x", "Durations.")
    for seconds in observed:
        histogram.observe(seconds)
    rank = share * len(observed)
    exact = next(value for count, value in enumerate(sorted(observed), 1) if count >= rank)
    bound = next(bound for bound in SECONDS if exact <= bound)
    below = max((one for one in SECONDS if one < bound), default=0.0)
    found = histogram.quantile(share)
    assert found is not None and below <= found <= bound


def test_without_observations_there_is_no_quantile():
    assert Histogram("x", "Durations.").quantile(0.5) is None


def test_beyond_all_bounds_the_highest_one_stands():
    histogram = Histogram("x", "Durations.")
    histogram.observe(1000)
    assert histogram.quantile(0.5) == SECONDS[-1]


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
