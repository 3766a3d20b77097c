"""The catalogue: every spelling of a tool, versions in their order, changes that happen whole or not at all."""

from collections.abc import Callable
from typing import Any

import pytest

from toolyard import Toolkit
from toolyard.catalogue import LONGEST_REFERENCE, Catalogue
from toolyard.model.errors import DefinitionError, ToolNotFound
from toolyard.model.tool import SHORT_NAME, Tool

LATEST_LAST = ("0.9.0", "1.0.0", "1.2.0", "2.0.0", "10.0.0")


def function() -> None:
    """Does nothing."""


def tool(toolkit: str = "Kit", name: str = "Tool", version: str = "1.0.0", **options: Any) -> Tool:
    kit = Toolkit(toolkit)
    kit.tool(name=name, version=version, **options)(function)
    return kit.tools[0]


@pytest.fixture
def catalogue() -> Catalogue:
    return Catalogue(tool(version=version) for version in reversed(LATEST_LAST))


@pytest.mark.parametrize(
    ("reference", "version"),
    [
        ("Kit.Tool", "10.0.0"),
        ("Kit.Tool@1", "1.0.0"),
        ("Kit.Tool@10", "10.0.0"),
        ("Kit.Tool@1.2.0", "1.2.0"),
        ("Kit.Tool@0.9.0", "0.9.0"),
        ("Kit.Tool@01.02.00", "1.2.0"),
        ("Kit.Tool@02", "2.0.0"),
    ],
)
def test_a_reference_means_one_version(catalogue: Catalogue, reference: str, version: str) -> None:
    assert catalogue.resolve(reference).reference == f"Kit.Tool@{version}"


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ("Kit.Other", "Kit.Other is not a tool of this server"),
        ("kit.tool", "kit.tool is not a tool of this server"),
        ("Kit.Tool@3", "Kit.Tool version 3.0.0 is not available; available: 0.9.0, 1.0.0, 1.2.0, 2.0.0, 10.0.0"),
        ("Kit.Tool@1.2.1", "Kit.Tool version 1.2.1 is not available"),
        ("Kit.Tool@0", "Kit.Tool version 0.0.0 is not available"),
        ("", "'' is not a tool id; expected Toolkit.Tool, Toolkit.Tool@1 or Toolkit.Tool@1.2.3"),
        ("Kit", "'Kit' is not a tool id"),
        ("Kit_Tool", "'Kit_Tool' is not a tool id"),
        ("Kit.Tool@", "'Kit.Tool@' is not a tool id"),
        ("Kit.Tool@1.2", "'Kit.Tool@1.2' is not a tool id"),
        ("Kit.Tool@latest", "'Kit.Tool@latest' is not a tool id"),
        (" Kit.Tool", "' Kit.Tool' is not a tool id"),
        ("Kit.Tool\n", r"'Kit.Tool\n' is not a tool id"),
        ("Kit.Tool@1\u0662", "is not a tool id"),
        ("Kit." + "T" * LONGEST_REFERENCE, "TTT...' is not a tool id"),
    ],
)
def test_what_is_not_there_is_not_found_and_says_why(catalogue: Catalogue, reference: str, why: str) -> None:
    with pytest.raises(ToolNotFound, match="was not found") as refusal:
        catalogue.resolve(reference)
    assert refusal.value.developer_message is not None
    assert why in refusal.value.developer_message
    assert len(refusal.value.developer_message) < 200


def test_latest_is_a_word_of_the_draft_alone(catalogue: Catalogue) -> None:
    assert str(catalogue.resolve("Kit.Tool@latest", latest=True).version) == "10.0.0"
    for reference in ("Kit.Tool@1@latest", "Kit.Other@latest", "@latest", "Kit.Tool@latest@1", "Kit.Tool@LATEST"):
        with pytest.raises(ToolNotFound):
            catalogue.resolve(reference, latest=True)


def test_lists_are_ordered_by_id_and_then_by_version() -> None:
    mixed = Catalogue([tool("B", "A"), tool("A", "B", "10.0.0"), tool("A", "B", "9.0.0"), tool("A", "A")])
    assert [t.reference for t in mixed.newest()] == ["A.A@1.0.0", "A.B@10.0.0", "B.A@1.0.0"]
    assert [t.reference for t in mixed.all()] == ["A.A@1.0.0", "A.B@9.0.0", "A.B@10.0.0", "B.A@1.0.0"]
    assert len(mixed) == 3


# --- changes -------------------------------------------------------------------------------------


def test_each_change_has_a_version_and_is_told(catalogue: Catalogue) -> None:
    told: list[int] = []
    catalogue.subscribe(lambda change: told.append(catalogue.version))
    before, added = catalogue.version, tool("Other")
    catalogue.add(added)
    catalogue.remove(added)
    assert told == [before + 1, before + 2]


def test_a_removed_version_makes_room_for_the_one_before(catalogue: Catalogue) -> None:
    catalogue.remove(catalogue.resolve("Kit.Tool"))
    assert str(catalogue.resolve("Kit.Tool").version) == "2.0.0"
    with pytest.raises(ToolNotFound):
        catalogue.resolve("Kit.Tool@10")


def test_a_tool_without_versions_is_gone(catalogue: Catalogue) -> None:
    catalogue.remove(*catalogue.all())
    assert len(catalogue) == 0
    assert catalogue.newest() == catalogue.all() == []
    with pytest.raises(ToolNotFound, match="Kit_Tool"):
        catalogue.resolve("Kit.Tool")


def test_what_is_not_there_is_not_missed(catalogue: Catalogue) -> None:
    catalogue.remove(tool())
    assert len(catalogue.all()) == len(LATEST_LAST)


def test_the_same_tool_may_be_added_again(catalogue: Catalogue) -> None:
    catalogue.add(*catalogue.all())
    assert len(catalogue.all()) == len(LATEST_LAST)


def test_all_are_added_or_none(catalogue: Catalogue) -> None:
    told: list[str] = []
    catalogue.subscribe(lambda change: told.append("changed"))
    before = catalogue.version
    with pytest.raises(DefinitionError):
        catalogue.add(tool("New"), tool())
    assert (catalogue.version, told) == (before, [])
    with pytest.raises(ToolNotFound):
        catalogue.resolve("New.Tool")


# --- conflicts -----------------------------------------------------------------------------------


def defined_elsewhere() -> Callable[[], None]:
    def another() -> None:
        """Stands at another line."""

    return another


def other_tool(toolkit: str, name: str, version: str = "1.0.0", **options: Any) -> Tool:
    kit = Toolkit(toolkit)
    kit.tool(name=name, version=version, **options)(defined_elsewhere())
    return kit.tools[0]


def test_the_same_id_and_version_twice_names_both_places(catalogue: Catalogue) -> None:
    second = other_tool("Kit", "Tool", "1.2.0")
    with pytest.raises(DefinitionError, match=r"Kit\.Tool@1\.2\.0 is defined twice") as refusal:
        catalogue.add(second)
    places = [f"{__file__}:{f.__code__.co_firstlineno}" for f in (function, defined_elsewhere())]
    assert all(place in str(refusal.value) for place in places)
    assert refusal.value.place == second.code.origin.place


def test_the_same_wire_name_twice_names_both_tools(catalogue: Catalogue) -> None:
    second = other_tool("Other", "Tool", wire_name="Kit_Tool")
    with pytest.raises(DefinitionError, match=r"Other\.Tool and Kit\.Tool .* same wire name 'Kit_Tool'") as refusal:
        catalogue.add(second)
    places = [f"{__file__}:{f.__code__.co_firstlineno}" for f in (function, defined_elsewhere())]
    assert all(place in str(refusal.value) for place in places)


def test_ids_that_only_look_alike_on_the_wire_are_told_apart_by_an_author() -> None:
    with pytest.raises(DefinitionError, match="wire_name="):
        Catalogue([tool("A_B", "C"), tool("A", "B_C")])
    assert len(Catalogue([tool("A_B", "C"), tool("A", "B_C", wire_name="other")])) == 2


def test_versions_of_a_tool_share_its_wire_name() -> None:
    both = Catalogue([tool(version="1.0.0", wire_name="w"), tool(version="2.0.0", wire_name="w")])
    assert [t.wire_name for t in both.all()] == ["w", "w"]


def test_a_call_is_found_in_one_step_however_many_tools_there_are() -> None:
    many = Catalogue(tool("Kit", f"T{number}") for number in range(200))
    found = {many.resolve(f"Kit.T{number}@1").name for number in range(200)}
    assert len(found) == 200


# --- names on wires that have less ---------------------------------------------------------------


@pytest.mark.parametrize("name", ["Kit_Tool", "a", "a-b_C", "a" * 64])
def test_a_name_that_every_wire_allows_is_the_same_on_all(name: str) -> None:
    assert tool(wire_name=name).short_name == name


def test_a_longer_name_has_a_shorter_one_that_never_changes() -> None:
    assert tool(wire_name="files.read").short_name == "files_read_601e4eb6"
    long = tool(wire_name="a.b-" + "c" * 124)
    assert SHORT_NAME(long.short_name)
    assert len(long.short_name) == 64
    shorts = {tool(wire_name=name).short_name for name in ("a.b", "a_b", "a-b", "a.b.", "x" * 65, "x" * 66)}
    assert len(shorts) == 6


def test_a_tool_is_found_by_either_name() -> None:
    made = tool("Kit", "Tool", wire_name="files.read")
    catalogue = Catalogue([made])
    assert catalogue.named("files.read") is catalogue.named(made.short_name) is made
    catalogue.remove(made)
    assert catalogue.named("files.read") is catalogue.named(made.short_name) is None


@pytest.mark.parametrize("name", ["Kit.Tool", tool(wire_name="files.read").short_name])
def test_a_name_that_means_another_tool_is_refused(name: str) -> None:
    first = tool("Kit", "Tool", wire_name="files.read")
    with pytest.raises(DefinitionError, match=rf"Other\.Tool and Kit\.Tool .* same wire name '{name}'"):
        Catalogue([first, tool("Other", "Tool", wire_name=name)])
    with pytest.raises(DefinitionError, match=rf"Kit\.Tool and Other\.Tool .* same wire name '{name}'"):
        Catalogue([tool("Other", "Tool", wire_name=name), first])
    assert len(Catalogue([tool("Kit", "Tool", wire_name="Kit.Tool")])) == 1, "its own id is nobody else's"
