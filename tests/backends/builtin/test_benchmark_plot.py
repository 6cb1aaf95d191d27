"""The plots of the benchmarks are well-formed images with every line in its place."""

import xml.etree.ElementTree as ET

from benchmarks.plot import Axis, draw

SVG = "{http://www.w3.org/2000/svg}"


def test_decades_lie_at_equal_distances():
    axis = Axis.of([12, 800], 0, 300)
    assert axis.decades() == [10, 100, 1_000]
    assert [round(axis.place(value)) for value in (10, 100, 1_000)] == [0, 150, 300]


def test_a_single_value_still_has_an_axis():
    assert Axis.of([10, 10], 0, 100).decades() == [10, 100]


def test_every_line_is_drawn_and_named(tmp_path):
    path = tmp_path / "plot.svg"
    lines = {"a < b": [(1_000, 2.0), (10, 1.0)], "limit": [(10, 0.1), (1_000, 0.5)]}
    draw(path, lines, title="Title", x="chunks", y="ms", dashed="limit")
    root = ET.fromstring(path.read_text(encoding="utf-8"))
    drawn = root.findall(f"{SVG}polyline")
    assert [line.get("stroke-dasharray") for line in drawn] == [None, "6 4"]
    places = [float(pair.split(",")[0]) for pair in drawn[0].get("points").split()]
    assert places == sorted(places)
    assert len(root.findall(f"{SVG}circle")) == 2
    names = {text.text for text in root.findall(f"{SVG}text")}
    assert {"a < b", "limit", "Title", "chunks", "ms", "10", "1,000"} <= names
