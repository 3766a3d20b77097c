"""The import arrows: what each layer may import, and that nothing heavy loads before it is used."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import toolyard
from toolyard.cli.verbs import VERBS, load_verb
from toolyard.lazy import LAZY, load

SOURCE = Path(toolyard.__file__).parent

ARROWS: dict[str, set[str]] = {
    "text": set(),
    "version": set(),
    "lazy": set(),
    "supervision": set(),
    "model": {"text"},
    "authoring": {"model", "text", "lazy"},
    "catalogue": {"model"},
    "runners": {"model", "text", "supervision"},
    "store": {"model", "supervision"},
    "trust": {"model", "text", "store", "lazy", "supervision"},
    "engine": {"model", "text", "catalogue", "runners", "store", "trust", "supervision"},
    "wires": {"model", "text", "version"},
    "client": {"model", "text", "wires", "lazy"},
    "upstream": {"model", "text", "wires", "client"},
    "worker": {"model", "text", "runners", "wires", "client", "supervision"},
    "server": {
        "model",
        "text",
        "authoring",
        "catalogue",
        "runners",
        "store",
        "trust",
        "engine",
        "wires",
        "upstream",
        "lazy",
        "supervision",
        "version",
    },
    "operator": {
        "model",
        "text",
        "catalogue",
        "runners",
        "store",
        "trust",
        "engine",
        "wires",
        "client",
        "server",
        "lazy",
    },
    "cli": {
        "version",
        "model",
        "text",
        "authoring",
        "catalogue",
        "runners",
        "wires",
        "client",
        "worker",
        "server",
        "operator",
        "lazy",
    },
    "testing": {"model", "text", "client", "server", "wires"},
    "reference": {"toolyard"},
    "demo": {"toolyard", "model", "text", "wires", "client", "server", "operator", "lazy"},
    "__init__": {"model", "authoring", "client", "lazy"},
    "__main__": {"cli"},
}

HEAVY = {"joserfc", "cryptography", "prometheus_client", "httpx2", "starlette", "fastapi", "mcp", "asyncpg", "rich"}
OF_A_START = {"command_line", "serve", "sources", "validator"}
"""The rows of `lazy.py` that every server needs: they are there for the sake of the layers, or of other verbs."""
USED_BY_SOME = (
    "docstring_parser.",
    "html.",
    "mmap.",
    "toolyard.authoring.content.",
    "toolyard.server.accounts.handlers.",
    "toolyard.server.accounts.pages.",
    "toolyard.server.admin.calls.",
    "toolyard.server.approvals.page.",
    "toolyard.server.console.login.",
    "toolyard.server.openapi.",
    "toolyard.server.pages.forms.",
    "toolyard.server.pages.layout.",
    "toolyard.trust.requirements.connect_flow.",
    "toolyard.wires.admin.calls.",
)
"""Modules and packages for pages, for operators, for several processes, and for tools with longer descriptions."""
"""What must not be loaded in an idle server without authentication."""


def layer_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_layers(path: Path) -> Iterator[str]:
    """The layers a file imports, imports for type checking alone left aside."""
    depth = len(path.relative_to(SOURCE).parts)
    for node in _executed(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == depth:
            names = [node.module.split(".")[0]] if node.module else [alias.name for alias in node.names]
            yield from names
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "toolyard":
            parts = (node.module or "").split(".")
            yield parts[1] if len(parts) > 1 else "toolyard"


def _executed(tree: ast.Module) -> Iterator[ast.stmt]:
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
        elif isinstance(node, ast.stmt):
            yield node


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_file_imports_only_what_its_layer_may(path: Path) -> None:
    layer = layer_of(path)
    allowed = ARROWS[layer] | {layer}
    assert set(imported_layers(path)) <= allowed, f"{layer} may import {sorted(allowed)}"


STORE = {"contract", "values", "hints", "write_behind"}
"""What layers above may know of the ledger: its promises, not how a store keeps them."""


@pytest.mark.parametrize("layer", ["trust", "engine"])
def test_a_layer_knows_the_store_by_its_contract_alone(layer: str) -> None:
    known = {
        (node.module or "").removeprefix("toolyard.").removeprefix("store.")
        for path in (SOURCE / layer).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("store", "toolyard.store"))
    }
    assert known
    assert known <= STORE


def test_the_reader_of_imports_sees_them() -> None:
    assert "catalogue" in set(imported_layers(SOURCE / "engine" / "plans.py"))
    assert "server" in set(imported_layers(SOURCE / "cli" / "verbs" / "serve.py"))


def test_every_layer_has_its_arrows() -> None:
    layers = {layer_of(path) for path in SOURCE.rglob("*.py")}
    assert layers == set(ARROWS)


@pytest.mark.parametrize("door", sorted(LAZY))
def test_every_door_opens(door: str) -> None:
    assert load(door) is not None


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_is_there(verb: str) -> None:
    assert callable(load_verb(verb))


PLAIN_TOOL = """
from toolyard import Toolkit
kit = Toolkit("Kit", version="1.0.0", description="A tool.")
@kit.tool
async def add(a: float, b: float) -> float:
    'Adds two numbers.'
    return a + b
"""
START = """
import json, os, sys
import uvicorn
began = uvicorn.Server.startup
async def startup(self, sockets=None):
    await began(self, sockets)
    print(json.dumps(sorted(sys.modules)), flush=True)
    os._exit(0)
uvicorn.Server.startup = startup
from toolyard.cli import main
main()
"""


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The modules that a server with a plain tool has loaded when it begins to take calls."""
    folder = tmp_path_factory.mktemp("idle")
    (folder / "tools.py").write_text(PLAIN_TOOL, encoding="utf-8")
    arguments = [sys.executable, "-c", START, "serve", "tools.py", "--port", "0"]
    found = subprocess.run(arguments, check=True, capture_output=True, text=True, cwd=folder).stdout
    return set(json.loads(found.splitlines()[-1]))


def test_nothing_heavy_is_loaded_in_an_idle_server(idle: set[str]) -> None:
    assert HEAVY & {name.partition(".")[0] for name in idle} == set()


def test_an_idle_server_has_opened_no_door_but_those_of_its_start(idle: set[str]) -> None:
    opened = {door for door, place in LAZY.items() if place.partition(":")[0] in idle}
    assert opened == OF_A_START


def test_an_idle_server_has_loaded_nothing_that_only_some_use(idle: set[str]) -> None:
    """A start, and the memory that is held at idle, have bounds (`bench/`), and each of these would take its part."""
    assert {name for name in idle if f"{name}.".startswith(USED_BY_SOME)} == set()


def test_the_entry_point_imports_nothing_before_it_tells_the_garbage_collector() -> None:
    code = "import sys; before = set(sys.modules); import toolyard.cli; print(*sorted(sys.modules.keys() - before))"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert {name for name in found if name.startswith("toolyard")} == {"toolyard", "toolyard.lazy", "toolyard.cli"}
    assert {"asyncio", "logging", "msgspec", "typer"} & set(found) == set()


def test_an_authors_file_loads_no_server() -> None:
    code = "import sys, toolyard; print([n for n in sys.modules if n.startswith('toolyard.server') or n == 'uvicorn'])"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert found.strip() == "[]"


def test_the_public_names_are_few_and_there() -> None:
    assert len(toolyard.__all__) <= 30
    assert [name for name in toolyard.__all__ if not hasattr(toolyard, name)] == []
