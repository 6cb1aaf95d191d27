"""The benchmark of vector engines: it writes rows of its own into an index, and so has to know its tables."""

from __future__ import annotations

from benchmarks.vectors import compare, random_vectors


def test_it_measures_each_engine_on_an_index_and_beside_a_table_of_vectors():
    measured, bytes_each = compare(*random_vectors(300, 16), table=True)
    recall = {one.engine: one.recall for one in measured}
    assert recall.keys() == {"float table", "numpy", "sqlite-vec", "resident"}
    assert recall["float table"] == recall["numpy"] == 1.0
    assert min(recall.values()) > 0.9
    assert bytes_each > 16
