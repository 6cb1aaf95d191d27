"""The examples of CONTRIBUTING.md and of the page about providers work as printed."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from backends import interface
from backends.builtin.backend import open_builtin
from backends.interface import SearchRequest
from config import vendors
from config.vendors import VENDORS
from drawing.units import FLOORS
from fakes.each import each
from fakes.loopback import LoopbackHandler, LoopbackHost, LoopbackServer
from fakes.settings import make_settings
from fakes.vendors import FakeVendor

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PROVIDER = (ROOT / "docs/add-a-provider.md").read_text(encoding="utf-8")
ROW, FORMAT, BODIES, CASE, NO_JOBS, BACKEND = re.findall(
    r"```python\n(.*?)```", PROVIDER + TEXT, re.DOTALL
)


class ExampleHandler(LoopbackHandler):
    """A host that accepts `POST /embed` with the right key."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        may = self.headers["Authorization"] == "Bearer key-of-the-test"
        vectors = [[float(len(text)), 1.0, 0.5] for text in asked["texts"]]
        body = json.dumps(
            {"vectors": vectors} if asked["model"] == "example-embed" else {}
        ).encode()
        self.send_response(200 if may else 401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class ExampleVendor(LoopbackHost[None]):
    def __init__(self):
        self.serve(LoopbackServer(ExampleHandler))


class Outsider:
    """A copy of the two lower floors, changed as the page about providers says."""

    def __init__(self, root):
        self.root = root
        for floor in ("config", "providers"):
            shutil.copytree(ROOT / floor, root / floor)

    def edit(self, file, old, new):
        path = self.root / file
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, (file, old)
        path.write_text(text.replace(old, new), encoding="utf-8")

    def add_row(self, row):
        own = '    Vendor(\n        "ollama",\n'
        self.edit("config/vendors.py", own, f"    {row.rstrip()},\n{own}")

    def name_wire(self):
        self.edit("config/vendors.py", '"voyage"]\n', '"voyage", "example"]\n')

    def missing_places(self):
        """Returns the functions without a case for every wire format, as mypy names them."""
        options = ["--config-file=", "--strict", "--follow-imports=skip"]
        done = subprocess.run(
            [sys.executable, "-m", "mypy", *options, "config", "providers"],
            cwd=self.root,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        found = re.findall(r"(.*):(\d+): .*assert_never.*'example'", done.stdout)
        return {(file, self._function(file, int(line))) for file, line in found}

    def _function(self, file, line):
        functions = [
            node
            for node in ast.walk(ast.parse((self.root / file).read_bytes()))
            if isinstance(node, ast.FunctionDef) and node.lineno < line <= node.end_lineno
        ]
        return functions[-1].name

    def embed(self, address, key, tmp_path):
        """Returns the lengths of the vectors of a query and of two documents."""
        done = subprocess.run(
            [sys.executable, "-c", EMBED, self.root, ROOT / "tests", tmp_path, address, key],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


EMBED = """
import json, sys
root, tests, home, address, key = sys.argv[1:]
sys.path[:0] = [root, tests]
from pathlib import Path
import anyio
from config.vendors import KEY_VARIABLES
from fakes.settings import make_settings, remote
from providers.choosing import provider
from providers.provider_interface import ProviderRequest

async def main():
    settings = make_settings(Path(home), search={"provider": "example-vendor", "remote": remote(address, key)})
    request = ProviderRequest(settings, "primary")
    assert provider("example-vendor").assess(request).usable
    embedder = provider("example-vendor").create(request)
    query = await embedder.embed_query("tea")
    batch = await embedder.embed_documents(["tea", "coffee"])
    await embedder.aclose()
    assert "EXAMPLE_VENDOR_API_KEY" in KEY_VARIABLES
    assert embedder.limits.max_items == 512  # cautious: this is not the vendor's own address
    print(json.dumps([len(query), *map(len, batch.items)]))

anyio.run(main)
"""


@pytest.fixture
def outsider(tmp_path):
    return Outsider(tmp_path / "checkout")


def test_a_vendor_that_speaks_openais_wire_is_one_row(outsider, tmp_path):
    outsider.add_row(ROW)
    with FakeVendor("openai", models=("example-embed",)) as host:
        size = host.dimensions
        assert outsider.embed(host.base_url, host.key, tmp_path) == [size, size, size]


def test_of_another_wire_mypy_names_every_place_that_lacks_it(outsider, tmp_path):
    outsider.name_wire()
    assert outsider.missing_places() == {
        ("providers/remote/wires.py", "format_of"),
        ("providers/batch/__init__.py", "open_jobs_host"),
    }
    outsider.edit("config/vendors.py", "\n_MIB: Final", f"\n{FORMAT}\n_MIB: Final")
    outsider.add_row(ROW.replace("limits=", "wire=EXAMPLE, limits=", 1))
    unknown = "        case unknown:\n"
    outsider.edit("providers/remote/wires.py", unknown, CASE + unknown)
    with (outsider.root / "providers/remote/wires.py").open("a", encoding="utf-8") as wires:
        wires.write(f"\n\n{BODIES}")
    outsider.edit("providers/batch/__init__.py", unknown, NO_JOBS + unknown)
    assert outsider.missing_places() == set()
    with ExampleVendor() as host:
        address = f"http://127.0.0.1:{host.port}"
        assert outsider.embed(address, "key-of-the-test", tmp_path) == [3, 3, 3]


def test_no_two_rows_are_of_one_vendor():
    assert [row.name for row in vendors._ROWS] == list(VENDORS)


def test_every_vendor_has_its_row_in_the_table_of_providers():
    page = (ROOT / "docs/providers.md").read_text(encoding="utf-8")
    for vendor in VENDORS.values():
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{vendor.name}`")]
        said = (vendor.base_url, vendor.key_variable, vendor.model)
        assert [one for one in said if one and f"`{one}`" not in row] == []


async def test_a_backend_before_another_needs_only_what_it_changes(tmp_path):
    names = dict(vars(interface))
    exec(BACKEND, names)
    settings = make_settings(tmp_path, search={"provider": "none"})
    settings.workspace.mkdir()
    (settings.workspace / "MEMORY.md").write_text("The kettle is red.\n", encoding="utf-8")
    async with open_builtin(settings) as inner:
        backend = names["Counting"](inner)
        answer = await backend.search(SearchRequest(query="kettle"))
        assert [hit.path for hit in answer.hits] == ["MEMORY.md"]
        assert backend.searches == 1
        assert (await backend.status()).backend == "builtin"


def test_the_commands_it_names_are_there():
    for script in re.findall(r"\./scripts/([\w-]+)\b(?!\*)", TEXT + PROVIDER):
        assert (ROOT / "scripts" / script).is_file(), script
    for path, name in re.findall(r"(tests/[\w/]+\.py)(?:::(\w+))?", TEXT + PROVIDER):
        assert name in (ROOT / path).read_text(encoding="utf-8")


def test_every_benchmark_that_a_page_names_is_there():
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
    named = set(re.findall(r"scripts/bench (\w+)", pages + TEXT))
    listed = subprocess.run([ROOT / "scripts/bench"], capture_output=True, check=True, text=True)
    assert len(named) > 20
    assert named - {"NAME"} <= {line.split()[0] for line in listed.stdout.splitlines()}


def named_tests():
    """Returns the paths in the command of each package that has a row in the table."""
    rows = {}
    for names, command in re.findall(
        r"^\| (`.*`) \| `\./scripts/test (.*)` \|$", TEXT, re.MULTILINE
    ):
        for name in re.findall(r"`(.+?)`", names):
            assert name not in rows
            rows[name] = paths_in(command)
    return rows


def paths_in(command):
    """Returns the paths that a shell makes of a command's arguments."""
    paths = re.sub(r" (-n|--ignore) \S+", "", command)
    done = subprocess.run(
        ["bash", "-c", f"printf '%s\\n' {paths}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_every_path_in_the_tables_of_tests_is_there():
    commands = re.findall(r"^\| .* \| `\./scripts/test (.*)` \|$", TEXT, re.MULTILINE)
    assert commands
    paths = [path for command in commands for path in paths_in(command)]
    assert [path for path in paths if not (ROOT / path).exists()] == []


def packages():
    for floor in FLOORS:
        for file in sorted((ROOT / floor).rglob("__init__.py")):
            yield str(file.parent.relative_to(ROOT))


def files_of(paths):
    for path in paths:
        place = ROOT / path
        yield from [place] if place.is_file() else sorted(place.rglob("test_*.py"))


def paths_for(package):
    """Returns the paths of the package's row, else the same path below `tests`, else those of the package around it."""
    if package in (rows := named_tests()):
        return rows[package]
    mirrored = f"tests/{package}"
    return [mirrored] if (ROOT / mirrored).is_dir() else paths_for(package.rpartition("/")[0])


def test_every_package_has_one_command_that_runs_its_tests():
    assert named_tests().keys() <= set(packages())
    without = {
        (package, path)
        for package in packages()
        for path in paths_for(package)
        if not any(files_of([path]))
    }
    assert without == set()


@each("package", list(named_tests()))
def test_the_tests_that_the_table_names_for_a_package_import_it(package):
    module = re.escape(package.replace("/", "."))
    imports = re.compile(rf"^(?:from|import) {module}[. ]", re.MULTILINE)
    files = files_of(named_tests()[package])
    assert any(imports.search(file.read_text(encoding="utf-8")) for file in files)
