"""Tools that are added and removed while they are served."""

import pytest

from toolyard import App, Toolkit, ToolNotFound
from toolyard.client.client import Client
from toolyard.model.errors import DefinitionError
from toolyard.testing import client


def two() -> int:
    """Two."""
    return 2


@pytest.fixture
def kit() -> Toolkit:
    kit = Toolkit("Kit")

    @kit.tool
    def one() -> int:
        """One."""
        return 1

    return kit


def names(yard: Client) -> list[str]:
    return [tool["id"].partition("@")[0] for tool in yard.list()]


@pytest.mark.parametrize("is_app", [False, True])
def test_a_tool_comes_and_goes(kit: Toolkit, is_app: bool) -> None:
    with client(App(kit) if is_app else kit) as yard:
        kit.tool(two)
        assert names(yard) == ["Kit.One", "Kit.Two"]
        assert yard.call("Kit.Two") == 2
        kit.remove("One")
        assert names(yard) == ["Kit.Two"]
        with pytest.raises(ToolNotFound):
            yard.call("Kit.One")
    kit.tool(name="Three")(two)
    with client(kit) as again:
        assert names(again) == ["Kit.Three", "Kit.Two"]


def test_a_tool_that_cannot_be_served_changes_nothing(kit: Toolkit) -> None:
    with client(kit) as yard:
        with pytest.raises(DefinitionError, match="defined twice"):
            kit.tool(name="One")(two)
        assert names(yard) == ["Kit.One"]
        assert yard.call("Kit.One") == 1
    assert [tool.name for tool in kit.tools] == ["One"]


def test_what_is_not_there_cannot_be_removed(kit: Toolkit) -> None:
    with pytest.raises(LookupError, match="Kit has no tool 'Two'"):
        kit.remove("Two")


def test_a_server_that_has_stopped_is_not_told(kit: Toolkit) -> None:
    with client(kit):
        pass
    kit.tool(two)
    assert len(kit.tools) == 2
