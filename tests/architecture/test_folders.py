"""The folders: which of them may import which inside `trust/` and `server/`, and that none has become a drawer.

`test_layers` holds the arrows between the layers, as the program runs. Here imports for type checking alone count as
well: whoever reads a module has to know what it is about, whether or not Python loads that.
"""

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import toolyard

SOURCE = Path(toolyard.__file__).parent
Graph = Mapping[str, set[str]]

TRUST: Graph = {
    "": set(),  # tables and settings, beside the folders
    "sealing": set(),
    "access": {""},
    "audit": {"sealing"},
    "credentials": {"", "access"},
    "limits": {"", "access"},
    "approvals": {"", "access", "sealing"},
    "requirements": {"", "access", "approvals", "credentials", "sealing"},
}
"""Folders of `trust/`, and which others each may import. The empty name stands for the modules beside the folders."""

_BELOW = {"", "settings", "intake", "http"}
_PEOPLE = _BELOW | {"pages"}
_FEATURES = {"oxp", "lifecycle", "mcp", "approvals", "accounts", "pages", "openapi"}
SERVER: Graph = {
    "": {"settings"},
    "settings": set(),
    "intake": set(),
    "http": {"settings", "intake"},
    "pages": _BELOW,
    "openapi": {"http"},
    "oxp": _BELOW,
    "lifecycle": _BELOW,
    "mcp": _BELOW,
    "approvals": _PEOPLE,
    "accounts": _PEOPLE,
    "admin": _BELOW | _FEATURES,
    "console": _BELOW | _FEATURES | {"admin"},
    "group": {"", "settings", "intake", "http"},
    "app": _BELOW | _FEATURES | {"admin", "console", "group"},
}
"""The same of `server/`: what one sees and operates stands on HTTP, the console on the operator's verbs, and the
composition root on everything."""

MOST_MODULES = 25
ONE_FILE_A_VERB = SOURCE / "cli" / "verbs"
SAME_PREFIX = 4
THIS_MACHINE = "text/addresses.py"


@cache
def modules() -> dict[str, Path]:
    """Every module by its dotted name."""
    return {_dotted(path): path for path in SOURCE.rglob("*.py")}


def _dotted(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports() -> dict[str, set[str]]:
    """What each module imports of this package, those for type checking included."""
    return {name: set(_imported(name, path)) - {name} for name, path in modules().items()}


def _imported(name: str, path: Path) -> Iterator[str]:
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom):
            continue
        base = package[: len(package) - node.level + 1] if node.level else []
        source = ".".join([*base, *([node.module] if node.module else [])])
        if source.partition(".")[0] == SOURCE.name:
            # `from . import chain` names a module, `from .chain import verify` something in one.
            yield from (full if (full := f"{source}.{each.name}") in modules() else source for each in node.names)


def folder_of(module: str) -> str:
    """The folder of a module. A module beside the layers, as `lazy.py`, is a folder of its own."""
    is_package = modules()[module].name == "__init__.py"
    return module if is_package or module.count(".") == 1 else module.rpartition(".")[0]


def room_of(module: str, layer: str) -> str | None:
    """The folder of a layer that a module is in, whichever folder below it; None for another layer's."""
    path = modules()[module].relative_to(SOURCE).parts
    if path[0] != layer:
        return None
    return path[1] if len(path) > 2 else ""


@pytest.mark.parametrize(("layer", "arrows"), [("trust", TRUST), ("server", SERVER)])
def test_a_folder_of_a_layer_imports_only_what_it_may(layer: str, arrows: Graph) -> None:
    found = {
        f"{module} -> {imported}"
        for module, all_imported in imports().items()
        for imported in all_imported
        if (here := room_of(module, layer)) is not None
        and (there := room_of(imported, layer)) is not None
        and there not in arrows[here] | {here}
    }
    assert found == set()


@pytest.mark.parametrize(("layer", "arrows"), [("trust", TRUST), ("server", SERVER)])
def test_every_folder_of_a_layer_has_its_arrows(layer: str, arrows: Graph) -> None:
    folders = {path.name for path in (SOURCE / layer).iterdir() if list(path.glob("*.py"))}
    assert folders | {""} == set(arrows)


@pytest.mark.parametrize("layer", ["trust", "engine"])
def test_the_store_is_known_by_its_contract_alone(layer: str) -> None:
    allowed = {f"toolyard.store.{name}" for name in ("contract", "values", "hints", "write_behind")}
    of_the_store = {
        imported
        for module, all_imported in imports().items()
        for imported in all_imported
        if room_of(module, layer) is not None and room_of(imported, "store") is not None
    }
    assert of_the_store, "nothing of the store is imported: this test reads nothing"
    assert of_the_store <= allowed


def test_folders_form_no_cycle() -> None:
    folders: dict[str, set[str]] = {}
    for module, all_imported in imports().items():
        here = folder_of(module)
        folders.setdefault(here, set()).update({folder_of(imported) for imported in all_imported} - {here})
    assert cycle_in(folders) == []


def test_modules_form_no_cycle() -> None:
    assert cycle_in(imports()) == []


def test_a_cycle_is_found() -> None:
    assert set(cycle_in({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == {"a", "b", "c"}


def cycle_in(graph: Graph) -> list[str]:
    """One cycle, first and last the same; none where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def test_the_reader_of_imports_sees_them() -> None:
    seen = imports()
    assert "toolyard.trust.audit.chain" in seen["toolyard.trust.audit.key_check"]  # from . import
    assert "toolyard.trust.sealing.ring" in seen["toolyard.trust.audit.chain"]
    assert "toolyard.server.accounts.parts" in seen["toolyard.server.app.compose"]  # for type checking alone


def test_no_folder_is_a_drawer() -> None:
    counted = Counter(path.parent for path in modules().values() if path.name != "__init__.py")
    full = {folder for folder, count in counted.items() if count > MOST_MODULES}
    assert full <= {ONE_FILE_A_VERB}


def test_no_prefix_does_a_folders_work() -> None:
    prefixes = Counter(
        (path.parent, path.stem.partition("_")[0]) for path in modules().values() if "_" in path.stem[1:]
    )
    assert [(str(folder), prefix) for (folder, prefix), count in prefixes.items() if count >= SAME_PREFIX] == []


def test_one_module_says_what_this_machine_is() -> None:
    """Where two modules answer whether an address is loopback, one of the answers is a hole."""
    found = {
        str(path.relative_to(SOURCE))
        for path in modules().values()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Attribute) and node.attr == "is_loopback")
        or (isinstance(node, ast.Constant) and node.value is not None and _names_localhost(node.value))
    }
    assert found == {THIS_MACHINE}


def _names_localhost(value: object) -> bool:
    """As a value of its own, or the host of an address: not in a sentence."""
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    return isinstance(text, str) and text.rpartition("//")[2].partition(":")[0] == "localhost"
