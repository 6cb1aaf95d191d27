"""Measures how the code is divided: modules, lines, imports, and the code that a request runs through.

Counts the four floors of a checkout, then starts its real gateway under a profiler and notes which of its
modules and functions one warm keyword search and one saved note (until it has its vector) run through.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import IO, Any, Final, NamedTuple

import anyio
import grimp
from rich.console import Console

from benchmarks.embedding_server import embedding_server
from benchmarks.hash_embedder import HashEmbedder
from benchmarks.running import embedding_with, facts, home

FLOORS: Final = ("gateway", "backends", "providers", "config")
LONG: Final = 40
_WITHOUT_CODE: Final = frozenset(
    {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
    }
)
_PATIENCE_S: Final = 60.0

# Runs inside the gateway. SIGUSR1 begins a record; SIGUSR2 writes it to the file that is named first.
_PROFILED: Final = """
import json, os, signal, sys, threading
target, root = sys.argv.pop(1), sys.argv.pop(1)
record = None
def note(frame, event, argument):
    if record is not None and event == "call":
        code = frame.f_code
        if code.co_filename.startswith(root):
            record.add((code.co_filename, code.co_qualname))
def begin(*_):
    global record
    record = set()
def write(*_):
    global record
    calls, record = record, None
    ours = sorted({m.__file__ for m in list(sys.modules.values()) if getattr(m, "__file__", None)})
    with open(target + ".new", "w") as file:
        json.dump({"calls": sorted(calls), "loaded": ours}, file)
    os.replace(target + ".new", target)
signal.signal(signal.SIGUSR1, begin)
signal.signal(signal.SIGUSR2, write)
threading.setprofile(note)
sys.setprofile(note)
from gateway.__main__ import main
main()
"""


class Division(NamedTuple):
    """The figures that come from the files of a checkout, without running them."""

    modules: int
    """The number of modules, without `__init__` files."""
    packages: int
    code_lines: int
    """Lines with code on them: no comments, docstrings or blank lines."""
    per_module: float
    median_module: float
    longest_module: int
    import_share: float
    """The share of import lines among the lines with code."""
    with_one_importer: int
    long_functions: int
    """Functions of more than `LONG` lines."""
    mentions_of_any: int
    """The occurrences of `Any` in annotations and expressions."""
    classes_twice: int
    """Names that several public classes have; two stores that implement one port count as one."""
    files_twice: int
    """Names of modules in several packages, likewise; without `__main__`, `backend` and `embedder`."""


class Journey(NamedTuple):
    """The part of our own code that ran between two moments."""

    modules: int
    functions: int
    loaded: int
    """Modules of ours that the process had imported by then."""


def divide(checkout: Path) -> Division:
    files = [path for floor in FLOORS for path in sorted((checkout / floor).rglob("*.py"))]
    lines = {path: _code_lines(path) for path in files}
    modules = [path for path in files if path.name != "__init__.py"]
    lengths = [len(path.read_text(encoding="utf-8").splitlines()) for path in modules]
    total = sum(code for code, _ in lines.values())
    return Division(
        modules=len(modules),
        packages=len(files) - len(modules),
        code_lines=total,
        per_module=total / len(modules),
        median_module=median(lengths),
        longest_module=max(lengths),
        import_share=sum(imports for _, imports in lines.values()) / total,
        with_one_importer=_with_one_importer(checkout),
        **_names(checkout, modules),
    )


def _names(checkout: Path, modules: Sequence[Path]) -> dict[str, int]:
    """Returns the figures of `Division` that come from the syntax trees."""
    classes, files = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    long = mentions = 0
    for path in modules:
        place = re.sub("store/(sqlite|postgres)/", "store/", str(path.relative_to(checkout)))
        files[path.name].add(place)
        tree = ast.parse(path.read_bytes())
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name].add(place)
        for inner in ast.walk(tree):
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                long += (inner.end_lineno or inner.lineno) - inner.lineno >= LONG
            mentions += isinstance(inner, ast.Name) and inner.id == "Any"
    for name in ("__main__.py", "backend.py", "embedder.py"):
        files.pop(name, None)
    return {
        "long_functions": long,
        "mentions_of_any": mentions,
        "classes_twice": sum(len(found) > 1 for found in classes.values()),
        "files_twice": sum(len(found) > 1 for found in files.values()),
    }


def _code_lines(path: Path) -> tuple[int, int]:
    """Returns the number of lines with code, and of those that belong to imports."""
    text = path.read_text(encoding="utf-8")
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _WITHOUT_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    imports: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        lines = range(getattr(node, "lineno", 0), (getattr(node, "end_lineno", 0) or 0) + 1)
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports.update(lines)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            code.difference_update(lines)  # a docstring
    return len(code), len(imports)


def _with_one_importer(checkout: Path) -> int:
    sys.path.insert(0, str(checkout))
    try:
        graph = grimp.build_graph(*FLOORS, cache_dir=None)
    finally:
        sys.path.remove(str(checkout))
    modules = [name for name in graph.modules if not graph.find_children(name)]
    importers = Counter(len(graph.find_modules_that_directly_import(name)) for name in modules)
    return importers[1]


async def journeys(checkout: Path) -> tuple[Journey, Journey]:
    """Records a warm keyword search, and a note from its saving to its stored vector."""
    async with embedding_server(HashEmbedder()) as server:
        search = embedding_with(server) | {"model": HashEmbedder.name}
        search |= {"sync": {"watchDebounceMs": 50}}
        keywords = await anyio.to_thread.run_sync(_search, checkout, {})
        return keywords, await anyio.to_thread.run_sync(_save, checkout, search, server)


def _search(checkout: Path, settings: dict[str, Any]) -> Journey:
    with _profiled(checkout, settings) as gateway:
        _wait_until(gateway.is_settled)  # what the start does in the background is no part of it
        for _ in range(3):
            gateway.ask("memory_search", query="boiler pressure")
        gateway.begin()
        gateway.ask("memory_search", query="boiler pressure")
        return gateway.end()


def _save(checkout: Path, settings: dict[str, Any], server: Any) -> Journey:
    with _profiled(checkout, settings) as gateway:
        gateway.ask("memory_search", query="boiler pressure")
        _wait_until(lambda: server.items >= 2)  # both notes, or a note and the query
        _wait_until(lambda: _is_quiet(server))
        items = server.items
        gateway.begin()
        note = "# Later\n\nThe chimney sweep comes on Friday.\n"
        (gateway.workspace / "memory/2026-02-02.md").write_text(note, encoding="utf-8")
        _wait_until(lambda: server.items > items)
        _wait_until(lambda: _is_quiet(server))
        return gateway.end()


def _is_quiet(server: Any) -> bool:
    """Returns whether nothing was embedded for a while, so that the last answer is stored."""
    before = server.items
    time.sleep(0.5)
    return bool(server.items == before)


class _Gateway(NamedTuple):
    process: subprocess.Popen[bytes]
    workspace: Path
    record: Path
    root: Path

    def ask(self, method: str, **params: object) -> Any:
        line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        _stream(self.process.stdin).write(line.encode() + b"\n")
        _stream(self.process.stdin).flush()
        return json.loads(_stream(self.process.stdout).readline())

    def is_settled(self) -> bool:
        """Returns whether no sync runs or was done for a while, after a first one."""
        before = len(self.ask("status")["result"]["recentSyncs"])
        time.sleep(1)
        after = self.ask("status")["result"]
        return bool(after["syncing"] is None and len(after["recentSyncs"]) == before > 0)

    def begin(self) -> None:
        self.process.send_signal(signal.SIGUSR1)
        time.sleep(0.1)  # the signal is handled between two instructions of the main thread

    def end(self) -> Journey:
        self.process.send_signal(signal.SIGUSR2)
        _wait_until(self.record.exists)
        found = json.loads(self.record.read_bytes())
        floors = tuple(str(self.root / floor) + os.sep for floor in FLOORS)
        calls = [call for call in found["calls"] if call[0].startswith(floors)]
        return Journey(
            modules=len({path for path, _ in calls}),
            functions=len(calls),
            loaded=sum(path.startswith(floors) for path in found["loaded"]),
        )


def _stream(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


@contextmanager
def _profiled(checkout: Path, search: dict[str, Any]) -> Iterator[_Gateway]:
    root = checkout.resolve()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        workspace = place / "workspace"
        (workspace / "memory").mkdir(parents=True)
        (workspace / "MEMORY.md").write_text("# Memory\n\n- The boiler is serviced in May.\n")
        note = "# Sunday\n\nThe boiler pressure was low again.\n"
        (workspace / "memory/2026-02-01.md").write_text(note)
        arguments = ["serve", *home(place / "state", workspace, **search)]
        record = place / "record.json"
        with subprocess.Popen(
            [root / ".venv/bin/python", "-c", _PROFILED, record, f"{root}{os.sep}", *arguments],
            cwd=root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "XDG_RUNTIME_DIR": folder},
        ) as process:
            try:
                yield _Gateway(process, workspace, record, root)
            finally:
                _stream(process.stdin).close()
                process.wait(_PATIENCE_S)


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the gateway did not get there")
        time.sleep(0.02)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    here = Path(__file__).resolve().parents[2]
    parser.add_argument("--checkout", type=Path, default=here, help="another one, with a .venv")
    checkout = parser.parse_args().checkout
    division = divide(checkout)
    search, note = anyio.run(journeys, checkout)
    rows = {
        "modules (and packages)": f"{division.modules} ({division.packages})",
        "lines of code": f"{division.code_lines:,}",
        "lines of code per module": f"{division.per_module:.0f}",
        "lines of a module: median, longest": f"{division.median_module:.0f}, {division.longest_module}",
        "share of imports": f"{100 * division.import_share:.1f} %",
        "modules with one importer": division.with_one_importer,
        f"functions over {LONG} lines": division.long_functions,
        "mentions of Any": division.mentions_of_any,
        "names that stand twice": f"{division.classes_twice} classes, {division.files_twice} files",
        "a warm keyword search passes": f"{search.modules} modules, {search.functions} functions",
        "a saved note passes": f"{note.modules} modules, {note.functions} functions",
        "our modules loaded at the first answer": search.loaded,
    }
    Console(width=100).print(facts("Structure", rows))


if __name__ == "__main__":
    main()
