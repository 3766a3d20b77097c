"""Apps inside apps: each tool has the resources and the hooks of the innermost app that has it."""

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from toolyard import App, Context, Run, SecretName, Toolkit, Upstream
from toolyard.model.errors import DefinitionError, SettingsError
from toolyard.model.run import each_once
from toolyard.model.tool import Proceed
from toolyard.runners.loader import load
from toolyard.testing import Person, call, client

from ..runners.imports import forgetting

HUB = Upstream("Hub", mcp="https://tools.example.com/mcp")


def kit_of(name: str) -> Toolkit:
    kit = Toolkit(name, version="1.0.0")

    @kit.tool
    async def shared(ctx: Context) -> Any:
        """Tells what it shares."""
        return ctx.resources

    return kit


def lifespan_of(name: str, life: list[str]) -> Callable[[], AsyncIterator[str]]:
    async def lifespan() -> AsyncIterator[str]:
        life.append(f"{name} made")
        yield name
        life.append(f"{name} closed")

    return lifespan


def hook_of(app: App, name: str, seen: list[str]) -> None:
    @app.around
    async def hook(run: Run, proceed: Proceed) -> Any:
        seen.append(f"{name} around {run.tool.id} with {run.resources}")
        return await proceed()


def nested(life: list[str], seen: list[str]) -> App:
    """An app in an app in an app."""
    innermost = App(kit_of("C"), lifespan=lifespan_of("c", life))
    inner = App(kit_of("B"), innermost, lifespan=lifespan_of("b", life))
    outer = App(kit_of("A"), inner, lifespan=lifespan_of("a", life))
    for app, name in ((innermost, "c"), (inner, "b"), (outer, "a")):
        hook_of(app, name, seen)
    return outer


def test_each_tool_has_what_its_own_app_has_however_deep_that_is() -> None:
    life: list[str] = []
    seen: list[str] = []
    with client(nested(life, seen)) as yard:
        assert [yard.call(f"{name}.Shared") for name in "ABC"] == ["a", "b", "c"]
        assert life == ["a made", "b made", "c made"]
    assert life[3:] == ["c closed", "b closed", "a closed"]
    assert seen == [f"{name} around {name.upper()}.Shared with {name}" for name in "abc"]


def test_a_person_of_a_test_hears_the_tools_of_inner_apps() -> None:
    asking = Toolkit("Asking")

    @asking.tool
    async def seat(ctx: Context) -> Any:
        """Asks for a seat."""
        return await ctx.ask("Which seat?", name="seat")

    person = Person({"seat": "window"})
    assert call(App(kit_of("A"), App(asking)), "Asking.Seat", person=person) == "window"


def test_an_app_that_is_in_two_others_lives_once() -> None:
    life: list[str] = []
    shared = App(kit_of("C"), lifespan=lifespan_of("c", life))
    with client(App(kit_of("A"), shared, App(kit_of("B"), shared), shared)) as yard:
        assert len(yard.list()) == 3
        assert yard.call("C.Shared") == "c"
    assert life == ["c made", "c closed"]


def test_an_inner_app_alone_is_what_it_was() -> None:
    life: list[str] = []
    seen: list[str] = []
    inner = nested(life, seen).inner[0]
    with client(inner) as yard:
        assert [tool["id"] for tool in yard.list()] == ["B.Shared@1.0.0", "C.Shared@1.0.0"]
        assert yard.call("C.Shared") == "c"
    assert seen == ["c around C.Shared with c"]


def test_a_toolkit_of_both_is_the_outer_apps() -> None:
    kit, seen = kit_of("A"), list[str]()
    inner, outer = App(kit), App(kit)
    for app in (App(inner, kit), App(kit, inner), outer):
        hook_of(app, "outer", seen)
        assert call(app, "A.Shared") is None
    assert len(seen) == 3


def test_tools_that_an_inner_app_gets_while_it_is_served_are_served() -> None:
    kit = kit_of("A")
    with client(App(App(kit))) as yard:

        @kit.tool
        def later() -> int:
            """Came later."""
            return 5

        assert yard.call("A.Later") == 5
        kit.remove("Shared")
        assert [tool["id"] for tool in yard.list()] == ["A.Later@1.0.0"]


# --- upstreams -----------------------------------------------------------------------------------


def test_an_app_has_the_upstreams_that_it_is_given() -> None:
    other = Upstream("Files", command=("npx",), env={"TOKEN": SecretName("FILES")})
    app = App(kit_of("A"), HUB, App(other, HUB), HUB)
    assert app.upstreams == (HUB,)
    assert [each.upstreams for each in each_once([app])] == [(HUB,), (other, HUB)]
    assert app.only(app.toolkits[0]).upstreams == ()


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (Upstream("Hub", mcp="https://other.example.com/mcp"), "two upstreams are called Hub"),
        (App(Upstream("hub", command=("npx",))), "two upstreams are called hub"),
        (Upstream("Hub_Two", command=("npx",)), "tools of the upstreams Hub and Hub_Two could get the same names"),
    ],
)
def test_upstreams_that_cannot_be_told_apart_are_refused_where_the_app_is_made(other: Any, said: str) -> None:
    with pytest.raises(DefinitionError, match=said) as refusal:
        App(HUB, other)
    assert refusal.value.place is not None
    assert refusal.value.place.file == __file__


def test_an_upstream_that_is_called_like_a_toolkit_is_refused_when_it_is_served() -> None:
    named = "the upstream Hub is called like the toolkit Hub; give it another name"
    with pytest.raises(SettingsError, match=named), client(App(kit_of("Hub"), HUB)):
        pass


# --- an author's file ----------------------------------------------------------------------------

NESTED = """
import os
from toolyard import App, Context, Toolkit

a, b, c, left_out = Toolkit("A"), Toolkit("B"), Toolkit("C"), Toolkit("D")

async def lifespan():
    yield "inner"

@a.tool
def one(ctx: Context) -> str:
    "One."
    return str(ctx.resources)

@b.tool(runs="process")
def two(ctx: Context) -> str:
    "Two."
    return f"{ctx.resources} in {os.getpid()}"

@left_out.tool
def three() -> None:
    "Three."

inner = App(b, lifespan=lifespan)
app = App(a, inner, App(c))
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    with forgetting(tmp_path):
        monkeypatch.chdir(tmp_path)
        yield tmp_path / "nested.py"


def test_the_outer_app_of_a_file_is_what_it_offers(file: Path) -> None:
    file.write_text(NESTED)
    said: list[str] = []
    sources = load("nested.py", said.append)
    assert [[tool.id for tool in source.tools] for source in sources] == [["A.One"], ["B.Two"], []]
    assert said == [
        "nested.py: left_out is not served: it is not in the app; write App(…, left_out), or serve nested.py:left_out "
        "too"
    ]
    assert [tool.id for source in load("nested.py:inner") for tool in source.tools] == ["B.Two"]
    assert [tool.id for source in load("nested.py:b") for tool in source.tools] == ["B.Two"]
    assert load("nested.py:c")[0].host is not load("nested.py:app")[0].host, "its own app's"


def test_a_child_process_has_what_the_inner_app_shares(file: Path) -> None:
    file.write_text(NESTED)
    with client(*load("nested.py")) as yard:
        assert yard.call("A.One") == "None"
        assert yard.call("B.Two").startswith("inner in ")


def test_two_apps_of_which_none_is_inside_the_other_are_to_be_chosen_from(file: Path) -> None:
    file.write_text(NESTED + "\nother = App(inner)\n")
    with pytest.raises(DefinitionError, match=r"has several apps; choose one: nested\.py:app or nested\.py:other"):
        load("nested.py")


def test_an_upstream_that_cannot_be_is_told_with_its_line(file: Path) -> None:
    file.write_text('from toolyard import App, Upstream\n\napp = App(Upstream("the hub", mcp="https://a.example"))\n')
    with pytest.raises(DefinitionError) as refusal:
        load("nested.py")
    assert str(refusal.value).endswith(
        "nested.py:3: cannot be loaded, it raised ValueError: name must have 1 to 48 letters, digits or underscores, "
        "got 'the hub'"
    )


def test_a_file_may_have_upstreams_alone(file: Path) -> None:
    file.write_text('from toolyard import App, Upstream\n\napp = App(Upstream("Hub", mcp="https://a.example"))\n')
    assert [up.name for source in load("nested.py") for up in source.upstreams] == ["Hub"]
    assert json.dumps([source.tools for source in load("nested.py")]) == "[[]]"
