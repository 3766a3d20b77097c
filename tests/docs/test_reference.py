"""The pages keep up with the code: settings, public names, options, the version."""

import inspect
import re
from importlib.metadata import version

import toolyard
from toolyard import Context, Toolkit
from toolyard.model.worker import ToolDefinition

from ..architecture.test_layers import ARROWS
from .markdown import ROOT, pages
from .settings_page import page

BESIDE_THE_LAYERS = {"version", "lazy", "supervision"}
AUTHORING = ROOT / "docs" / "guides" / "authoring.md"


def test_the_page_of_settings_is_what_the_table_gives() -> None:
    written = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    assert written == page(), "make it again: python tests/docs/settings_page.py > docs/reference/settings.md"


def test_every_public_name_is_in_the_documentation() -> None:
    documentation = "\n".join(page.read_text(encoding="utf-8") for page in pages() if "docs" in page.parts)
    missing = [name for name in toolyard.__all__ if not re.search(rf"\b{name}\b", documentation)]
    assert not missing


def test_every_member_of_the_context_is_in_the_authoring_guide() -> None:
    guide = AUTHORING.read_text(encoding="utf-8")
    members = [name for name, _ in inspect.getmembers(Context) if not name.startswith("_")]
    assert members
    assert [name for name in members if f"`ctx.{name}" not in guide] == []


def test_every_option_of_a_tool_is_in_the_authoring_guide() -> None:
    """`typing` keeps the overload that names them."""
    from typing import get_overloads

    guide = AUTHORING.read_text(encoding="utf-8")
    options = {name for each in get_overloads(Toolkit.tool) for name in inspect.signature(each).parameters}
    assert {"name", "runs"} <= options
    assert sorted(name for name in options - {"self", "function"} if f"| `{name}" not in guide) == []


def test_every_member_of_a_workers_definition_is_in_the_pages_about_workers() -> None:
    listed = {"id", "version", "wire_name", "description", "input_schema", "output_schema"}
    """What `GET /tools` says of every tool."""
    members = set(ToolDefinition.__struct_fields__) - listed
    guide = (ROOT / "docs" / "guides" / "workers.md").read_text(encoding="utf-8")
    clauses = (ROOT / "docs" / "protocols" / "lifecycle.md").read_text(encoding="utf-8")
    (clause,) = (line for line in clauses.splitlines() if line.startswith("| LIFE-DEC-61 "))
    assert sorted(name for name in members if f"`{name}`" not in guide) == []
    assert sorted(name for name in members - {"requirements"} if name not in clause) == []


def test_the_change_log_starts_with_this_version() -> None:
    log = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## \[?([0-9.]+)", log, re.MULTILINE)
    assert newest is not None
    assert newest[1] == version("toolyard")


def test_the_make_targets_that_the_pages_name_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {name for each in pages() for name in re.findall(r"`make ([a-z]+)", each.read_text(encoding="utf-8"))}
    assert named
    assert named <= targets


def test_the_licence_is_apache_2() -> None:
    licence = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in licence
    assert "Version 2.0, January 2004" in licence


def test_the_layers_are_those_that_the_architecture_test_holds() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    written: dict[str, set[str]] = {}
    for layer, imports in re.findall(r"^\| `([a-z]+)(?:/|\.py)` \|[^|]*\|([^|]*)\|$", text, re.MULTILINE):
        written[layer] = set(written) if "all above" in imports else set(re.findall(r"`(\w+)`", imports))
    layers = [layer for layer in ARROWS if layer not in BESIDE_THE_LAYERS and "__" not in layer]
    assert written == {layer: ARROWS[layer] - BESIDE_THE_LAYERS for layer in layers}
