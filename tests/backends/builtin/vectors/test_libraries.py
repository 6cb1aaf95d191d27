"""Interpreters in which a library does not exist: what still works, and the messages."""

import json

SCRIPT = """
import hashlib, json, logging, random, sys
from array import array
from pathlib import Path
import apsw, structlog
from backends.builtin.store.port import Unavailable
from backends.builtin.store.sqlite.vectors import SqliteVectorSpace, SqliteVectorMemory
from config.settings import VectorStoreSettings

before = {"numpy", "simsimd", "sqlite_vec"} & set(sys.modules)
events = []
def keep(_logger, _name, event):
    events.append(event)
    raise structlog.DropEvent
structlog.configure(processors=[keep])

connection = apsw.Connection(sys.argv[1] if len(sys.argv) > 1 else PATH)
connection.execute("BEGIN")
number = connection.execute("SELECT id FROM fingerprints").get
query = array("f", connection.execute(
    "SELECT vector FROM embeddings JOIN excerpts AS x USING (text_hash)"
    " JOIN chunks AS c ON c.id = x.chunk_id WHERE c.text = 'text 7'"
).get)
report = {"before": sorted(before)}
def measured(space, answer):
    space.background(query)
    excerpts = space.excerpts(query, space.chunks_of([hit.excerpt_id for hit in answer.hits]), {})
    return sum(map(len, excerpts.values()))
space = SqliteVectorSpace(connection, SqliteVectorMemory(VectorStoreSettings()), number)
answer = space.search(query, limit=3)
if not isinstance(answer, Unavailable):
    report["first"] = [answer.engine, measured(space, answer), "numpy" in sys.modules]
for name in ("auto", "sqlite-vec", "numpy"):
    space = SqliteVectorSpace(connection, SqliteVectorMemory(VectorStoreSettings(engine=name)), number)
    for _ in range(2):
        space.refresh()
        answer = space.search(query, limit=3)
    status = space.status()
    report[name] = {
        "engine": status.engine,
        "unavailable": status.unavailable,
        "bytes": status.resident_bytes,
        "measured": None if isinstance(answer, Unavailable) else measured(space, answer),
        "found": None if isinstance(answer, Unavailable) else [hit.excerpt_id for hit in answer.hits],
        "reason": answer.reason,
    }
report["events"] = [f"{e['event']}: {e.get('library', '')}" for e in events]
print(json.dumps(report))
"""


def run(library, python):
    library.write("memory/a.md", *(f"text {number}" for number in range(100)))
    library.embed()
    return json.loads(python(f"PATH = {str(library.path)!r}\n{SCRIPT}"))


def test_no_library_is_imported_before_a_search_needs_it(library, python_without):
    report = run(library, python_without())
    assert report["before"] == []
    assert report["first"] == ["sqlite-vec", 3, False]
    assert report["auto"]["engine"] == "resident"
    assert report["auto"]["measured"] == 3
    assert report["events"] == []


def test_without_simsimd_the_resident_engine_uses_float32(library, python_without):
    report = run(library, python_without("simsimd"))
    assert report["auto"]["engine"] == "resident"
    assert report["auto"]["bytes"] > 100 * 48 * 4
    assert report["auto"]["found"] == report["sqlite-vec"]["found"] == report["numpy"]["found"]
    assert report["auto"]["found"][0] == 8
    assert report["events"] == ["vector library missing: simsimd"]


def test_without_sqlite_vec_numpy_takes_its_place(library, python_without):
    report = run(library, python_without("sqlite_vec"))
    assert report["auto"]["engine"] == "resident"
    assert report["first"] == ["numpy", 3, True]
    assert report["sqlite-vec"]["engine"] == "numpy"
    reason = report["sqlite-vec"]["unavailable"]["sqlite-vec"]
    assert reason.startswith("sqlite-vec is not installed")
    assert report["sqlite-vec"]["found"] == report["auto"]["found"]
    # Once for the first search and once for the engine of this name; the numpy engine never needs it.
    assert report["events"] == ["sqlite-vec not loaded: "] * 2


def test_without_numpy_sqlite_vec_answers_alone(library, python_without):
    report = run(library, python_without("numpy", "simsimd"))
    assert report["auto"]["engine"] == "sqlite-vec"
    assert report["auto"]["found"][0] == 8
    assert report["auto"]["measured"] == 3
    assert "numpy cannot be imported" in report["auto"]["unavailable"]["resident"]
    assert report["numpy"]["engine"] is None
    assert report["numpy"]["found"] is None
    assert "install the gateway with its extra 'vector'" in report["numpy"]["reason"]
    assert report["events"] == ["vector library missing: numpy"]


def test_without_any_library_a_search_says_why_for_each_engine(library, python_without):
    report = run(library, python_without("numpy", "simsimd", "sqlite_vec"))
    assert report["auto"]["engine"] is None
    assert set(report["auto"]["unavailable"]) == {"resident", "sqlite-vec", "numpy"}
    for name in ("resident", "sqlite-vec", "numpy"):
        assert f"{name}: " in report["auto"]["reason"]
