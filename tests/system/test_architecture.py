"""The code has the structure that the documentation describes."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

from drawing.picture import ImportCircleError, mermaid, replaced
from drawing.units import FLOORS, imports_between_units
from fakes.each import each

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
MODULES = sorted(path for floor in FLOORS for path in (ROOT / floor).rglob("*.py"))


def test_the_picture_of_the_import_graph_is_the_present_one():
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    assert replaced(text, mermaid(imports_between_units())) == text, (
        "run ./scripts/draw_architecture"
    )


def test_an_arrow_that_follows_from_others_is_not_drawn():
    a, b, c = (("gateway", name) for name in "abc")
    drawn = mermaid([(a, b), (b, c), (a, c), (a, ("gateway", ""))])
    assert "gateway_a --> gateway_b" in drawn
    assert "gateway_b --> gateway_c" in drawn
    assert drawn.count("-->") == 2


def test_a_circle_of_packages_is_reported_with_the_way_around_it():
    a, b, c, other = (("gateway", name) for name in ("agent", "rpc", "tools", "cli"))
    with pytest.raises(ImportCircleError) as caught:
        mermaid([(other, a), (a, b), (b, c), (c, a)])
    way = str(caught.value).partition(": ")[0].split(" -> ")
    around = [(f"gateway/{one[1]}", f"gateway/{two[1]}") for one, two in ((a, b), (b, c), (c, a))]
    assert sorted(pairwise(way)) == sorted(around)


def test_every_module_says_what_it_owns():
    silent = [path for path in MODULES if ast.get_docstring(ast.parse(path.read_bytes())) is None]
    assert silent == []


@each("document", DOCUMENTS)
def test_the_modules_that_documents_name_exist(document):
    text = document.read_text(encoding="utf-8")
    named = {
        word for word in text.split("`")[1::2] if word.startswith(tuple(f"{f}/" for f in FLOORS))
    }
    lost = [
        word for word in named if not (ROOT / word).exists() and not (ROOT / f"{word}.py").exists()
    ]
    assert lost == []


def test_no_module_of_ours_is_imported_by_a_string_which_no_contract_sees():
    libraries = {
        "backends/builtin/store/sqlite/vector_engines.py",
        "providers/local/worker/llama.py",
        "providers/local/worker/onnx.py",
    }
    by_name = {
        str(path.relative_to(ROOT))
        for path in MODULES
        if {"import_module", "__import__"} & set(_names(ast.parse(path.read_bytes())))
    }
    assert by_name == libraries


UNKNOWN = {
    "gateway": {"apsw", "psycopg", "sqlite3", "httpx2", "numpy", "asyncio"},
    "backends": {"httpx2", "asyncio"},
    "providers": {"apsw", "psycopg", "sqlite3", "asyncio"},
    "config": {"apsw", "psycopg", "sqlite3", "httpx2", "numpy", "asyncio"},
}
"""The libraries that each floor never imports."""


@each("floor", FLOORS)
def test_a_floor_imports_no_library_of_what_it_never_knows(floor):
    for path in (ROOT / floor).rglob("*.py"):
        known = {name.partition(".")[0] for name in _imported(ast.parse(path.read_bytes()))}
        assert not known & UNKNOWN[floor], path.relative_to(ROOT)


def _imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def test_of_the_builtin_backend_only_its_stores_hold_sql():
    statement = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|PRAGMA)\s[^.]*[a-z_*]")
    for path in (ROOT / "backends/builtin").rglob("*.py"):
        if {"sqlite", "postgres"} & set(path.parts):
            continue
        for node in ast.walk(ast.parse(path.read_bytes())):
            is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
            assert not (is_text and statement.match(node.value)), (path, node.lineno)


def _names(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


_PLAIN = {
    "dict",
    "list",
    "tuple",
    "str",
    "int",
    "float",
    "Any",
    "Raw",
    "msgspec",
    "limit",
    "_array_type",
}
"""Names of types that msgspec need not learn first."""


def test_functions_decode_only_into_types_that_are_prepared_for_several_threads():
    """At their first use by two threads at once the process would end; see `config.runtime.decoding`."""
    for path in set(MODULES) - {ROOT / "config/runtime/decoding.py"}:
        for definition in ast.parse(path.read_bytes()).body:
            if isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                for call, kind in _decodings(definition):
                    assert set(_names(kind)) <= _PLAIN | {"prepared"}, (path, call.lineno)


def _decodings(definition):
    for call in ast.walk(definition):
        name = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
        if not name.startswith("msgspec."):
            continue
        of_keyword = [one.value for one in call.keywords if one.arg == "type"]
        kinds = {"convert": call.args[1:2], "Decoder": call.args[:1], "decode": of_keyword}
        for kind in kinds.get(name.rpartition(".")[2], []):
            is_prepared = isinstance(kind, ast.Call) and ast.unparse(kind.func) == "prepared"
            yield call, (kind.func if is_prepared else kind)


def test_no_two_public_classes_have_one_name():
    """Stores that implement one port may share a name."""
    places = defaultdict(set)
    for path in MODULES:
        for node in ast.parse(path.read_bytes()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                place = str(path.relative_to(ROOT))
                places[node.name].add(re.sub("store/(sqlite|postgres)/", "store/", place))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_two_modules_have_one_name():
    """Implementations of one port may share a name: stores, backends and embedders."""
    places = defaultdict(set)
    for path in MODULES:
        place = str(path.relative_to(ROOT))
        places[path.name].add(re.sub("store/(sqlite|postgres)/", "store/", place))
    for name in ("__init__.py", "__main__.py", "backend.py", "embedder.py"):
        del places[name]
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


CLAUSES = frozenset(
    "What Whether Where How As Why Which Of By Until That Who When If Whoever".split()
)


def test_docstrings_are_statements():
    """None begins with a subordinate clause."""
    clauses = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in [*MODULES, *(ROOT / "memory_gateway").rglob("*.py")]
        for node in _docstrings(ast.parse(path.read_bytes()))
        if str(node.value.value).split(maxsplit=1)[0].rstrip(",:") in CLAUSES
    ]
    assert clauses == []


def _docstrings(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node
