"""Every option of `@toolkit.tool`: what it does, and what it refuses."""

import math
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import Field

from toolyard import App, Context, Hidden, Icon, InvalidInput, Toolkit, authorization, secret, user_id
from toolyard.authoring.options import camel_case
from toolyard.model.errors import DefinitionError
from toolyard.model.tool import Authorization, Requirements, ToolHints, Version
from toolyard.testing import call, client

from .trying import kit_of, listed, named, tool_of


def tried(a: int = 1) -> int:
    """Tries."""
    return a


async def tried_later(a: int = 1) -> int:
    """Tries."""
    return a


LINE = tried.__code__.co_firstlineno


# --- the decorator -------------------------------------------------------------------------------


def test_bare_and_with_arguments_are_the_same() -> None:
    kit = Toolkit("Kit", version="1.2.3", description="A kit.")

    @kit.tool
    def bare() -> int:
        """Is bare."""
        return 1

    @kit.tool()
    def called() -> int:
        """Is called."""
        return 2

    @kit.tool(title="Named")
    def with_option() -> int:
        """Has an option."""
        return 3

    assert [tool.id for tool in kit.tools] == ["Kit.Bare", "Kit.Called", "Kit.WithOption"]
    assert [bare(), called(), with_option()] == [1, 2, 3]
    assert bare.__name__ == "bare"


def test_the_decorated_function_is_the_function_itself() -> None:
    def plain(a: int) -> int:
        """Is plain."""
        return a

    kit = Toolkit("Kit")
    assert kit.tool(plain) is plain
    assert kit.tool(name="Other")(plain) is plain
    assert plain(3) == 3
    assert call(kit, "Kit.Other", {"a": 4}) == 4


@pytest.mark.parametrize(
    ("name", "id"),
    [
        ("add", "Add"),
        ("get_emails", "GetEmails"),
        ("getEmails", "GetEmails"),
        ("get__two", "GetTwo"),
        ("_private", "Private"),
        ("class_", "Class"),
        ("HTTPGet", "HTTPGet"),
        ("v2_list", "V2List"),
    ],
)
def test_names_become_camel_case(name: str, id: str) -> None:
    assert camel_case(name) == id


def test_a_tool_has_what_its_toolkit_has_unless_it_says_otherwise() -> None:
    kit = Toolkit("Kit", version="1.2.3", description="A kit.")
    kit.tool(tried)
    tool = kit.tools[0]
    assert (tool.id, tool.reference, tool.wire_name) == ("Kit.Tried", "Kit.Tried@1.2.3", "Kit_Tried")
    assert (tool.title, tool.description) == (None, "Tries.")
    assert (tool.timeout, tool.concurrency, tool.on_lost, tool.runs) == (None, None, "unknown", "thread")
    assert (tool.tags, tool.icons, tool.annotations) == ((), (), {})
    assert (tool.task, tool.asks, tool.returns_content) == ("optional", (), False)
    assert not tool.requirements
    assert tool.hints == ToolHints()


def test_every_option_arrives() -> None:
    tool = tool_of(
        tried_later,
        wire_name="try-it",
        version="2.0.1",
        title="Try",
        description="Tries hard.",
        annotations={"audience": ["user"]},
        requires=[secret("KEY"), user_id],
        timeout=1.5,
        concurrency=2,
        idempotent=True,
        destructive=True,
        on_lost="unknown",
        runs="process",
        tags=["a", "b"],
        icons=["https://example.com/a.png", Icon("b.png", mime_type="image/png")],
    )
    assert (tool.wire_name, str(tool.version), tool.title, tool.description) == (
        "try-it",
        "2.0.1",
        "Try",
        "Tries hard.",
    )
    assert tool.annotations == {"audience": ["user"]}
    assert tool.requirements == Requirements(secrets=("KEY",), user_id=True)
    assert (tool.timeout, tool.concurrency, tool.on_lost, tool.runs) == (1.5, 2, "unknown", "process")
    assert tool.hints == ToolHints(idempotent=True, destructive=True)
    assert tool.tags == ("a", "b")
    assert tool.icons == (Icon("https://example.com/a.png"), Icon("b.png", mime_type="image/png"))


def test_one_is_as_good_as_a_list_of_one() -> None:
    tool = tool_of(tried, tags="alone", icons="a.png", requires=secret("KEY"))
    assert tool.tags == ("alone",)
    assert tool.icons == (Icon("a.png"),)
    assert tool.requirements.secrets == ("KEY",)


def test_none_is_as_good_as_nothing() -> None:
    nothing: dict[str, Any] = dict.fromkeys(
        ("tags", "icons", "requires", "annotations", "timeout", "runs", "recursion", "task", "asks")
    )
    tool = tool_of(tried, **nothing)
    assert (tool.task, tool.asks) == ("optional", ())
    assert (tool.tags, tool.icons, tool.annotations, tool.timeout, tool.runs) == ((), (), {}, None, "thread")


@pytest.mark.parametrize("task", ["forbidden", "optional", "preferred", "required"])
def test_a_tool_says_whether_a_call_of_it_is_a_task(task: str) -> None:
    assert tool_of(tried, task=task).task == task


def test_a_tool_says_what_its_questions_need_of_a_client() -> None:
    assert tool_of(tried_later, asks="form").asks == ("form",)
    assert tool_of(tried_later, asks=["url", "form", "url"]).asks == ("url", "form")
    assert tool_of(tried_later, asks=("form", "url", "sampling", "roots")).asks == ("form", "url", "sampling", "roots")


@pytest.mark.parametrize(
    ("options", "on_lost"),
    [
        ({}, "unknown"),
        ({"idempotent": True}, "rerun"),
        ({"read_only": True}, "rerun"),
        ({"read_only": True, "on_lost": "unknown"}, "unknown"),
        ({"on_lost": "rerun"}, "rerun"),
    ],
)
def test_a_lost_attempt_is_run_again_only_where_that_is_harmless(options: dict[str, Any], on_lost: str) -> None:
    assert tool_of(tried, **options).on_lost == on_lost


def test_a_name_is_taken_as_it_is_given() -> None:
    kit = Toolkit("my_kit")
    kit.tool(name="do_it")(tried)
    assert (kit.tools[0].id, kit.tools[0].wire_name) == ("my_kit.do_it", "my_kit_do_it")
    assert call(kit, "my_kit.do_it") == 1


# --- refusals ------------------------------------------------------------------------------------

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"tiemout": 3}, r"has no option 'tiemout'; the options are annotations, approval, asks, concurrency, .*wire_name"),
    ({"version": "1.2"}, r"'1\.2' is not a version; write three numbers such as '1\.2\.3'"),
    ({"version": "one"}, "'one' is not a version"),
    ({"version": "1.0.0-beta"}, "is not a version"),
    ({"version": 1.0}, r"1\.0 is not a version"),
    ({"version": ""}, "'' is not a version"),
    ({"name": "do it"}, "cannot be named 'do it'; use letters, digits and underscores"),
    ({"name": "do.it"}, "cannot be named 'do.it'"),
    ({"name": "été"}, "cannot be named 'été'"),
    ({"name": 3}, "has name=3; it must be text"),
    ({"wire_name": "a b"}, r"cannot have the wire name 'a b' \(3 characters\); use 1 to 128 letters"),
    ({"wire_name": "a" * 129}, r"\(129 characters\)"),
    ({"wire_name": 3}, "has wire_name=3; it must be text"),
    ({"name": "A" * 125}, r"cannot have the wire name 'Kit_A+' \(129 characters\); .*wire_name="),
    ({"title": 3}, "has title=3; it must be text"),
    ({"description": ["text"]}, "has description=.*it must be text"),
    ({"read_only": True, "destructive": True}, "cannot be both read_only and destructive"),
    ({"runs": "somewhere"}, "has runs='somewhere'; choose one of inline, thread, process"),
    ({"on_lost": "ignore"}, "has on_lost='ignore'; choose one of rerun, unknown"),
    ({"recursion": "deep"}, "has recursion='deep'; choose one of refuse, open"),
    ({"timeout": 0}, "has timeout=0; it must be a number greater than 0"),
    ({"timeout": -1.5}, r"has timeout=-1\.5; it must be"),
    ({"timeout": "10"}, "has timeout='10'; it must be"),
    ({"timeout": True}, "has timeout=True; it must be"),
    ({"timeout": math.nan}, "has timeout=nan; it must be"),
    ({"timeout": math.inf}, "has timeout=inf; it must be"),
    ({"concurrency": 0}, "has concurrency=0; it must be a whole number greater than 0"),
    ({"concurrency": 1.5}, r"has concurrency=1\.5; it must be a whole number"),
    ({"concurrency": True}, "has concurrency=True; it must be"),
    ({"tags": [1]}, r"has tags=\[1\]; it must be one or a list of texts"),
    ({"tags": 3}, "has tags=3; it must be one or a list of texts"),
    ({"icons": [3]}, r"has icons=\[3\]; it must be one or a list of addresses or Icon"),
    ({"annotations": ["a"]}, r"has annotations=\['a'\]; it must be a dict of JSON values"),
    ({"annotations": {"a": object()}}, "has annotations=.*; it must be a dict of JSON values"),
    ({"requires": "KEY"}, "has requires='KEY'; it must be one or a list of authorization.*secret.*user_id"),
    ({"requires": ["KEY"]}, r"has requires=\['KEY'\]; it must be"),
    ({"task": "always"}, "has task='always'; choose one of forbidden, optional, preferred, required"),
    ({"asks": "money"}, "has asks='money'; choose from form, url, sampling, roots"),
    ({"asks": ["form", "money"]}, "has asks='money'; choose from form, url, sampling, roots"),
    ({"asks": [1]}, r"has asks=\[1\]; it must be one or a list of form, url, sampling, roots"),
    ({"asks": "form"}, "is not async, and only an async tool can ask: async def"),
    ({"requires": secret}, "has requires=<function secret.*; it must be"),
]


@pytest.mark.parametrize(("options", "sentence"), WRONG, ids=named)
def test_a_wrong_option_is_refused_with_the_functions_line(options: dict[str, Any], sentence: str) -> None:
    kit = Toolkit("Kit")
    with pytest.raises(DefinitionError, match=sentence) as refusal:
        kit.tool(**{"name": "Tried", **options})(tried)
    assert str(refusal.value).startswith(f"{__file__}:{LINE}: ")
    assert "\n" not in str(refusal.value)
    assert kit.tools == ()


def test_an_async_function_does_not_run_in_a_thread() -> None:
    with pytest.raises(
        DefinitionError, match='is async, which does not run in a thread; use runs="inline" or "process"'
    ):
        tool_of(tried_later, runs="thread")
    assert tool_of(tried, runs="inline").runs == "inline"


def test_a_tool_in_a_child_process_does_not_ask() -> None:
    with pytest.raises(DefinitionError, match='cannot ask from a child process; use runs="inline"'):
        tool_of(tried_later, asks="form", runs="process")


@pytest.mark.parametrize("name", ["", "my kit", "my.kit", "kit-1", "été", None, 3])
def test_a_toolkits_name_is_checked_where_it_is_made(name: Any) -> None:
    with pytest.raises(DefinitionError, match="cannot name a toolkit; use letters, digits and underscores") as refusal:
        Toolkit(name)
    assert refusal.value.place is not None
    assert refusal.value.place.file == __file__


@pytest.mark.parametrize("version", ["", "1.2", "one", None, 3, "1.2.3.4", "-1.0.0"])
def test_a_toolkits_version_is_checked_where_it_is_made(version: Any) -> None:
    with pytest.raises(DefinitionError, match="is not a version") as refusal:
        Toolkit("Kit", version=version)
    assert refusal.value.place is not None
    assert refusal.value.place.file == __file__


def test_one_number_is_a_version_too() -> None:
    assert Toolkit("Kit", version="3").info.version == Version(3, 0, 0)


# --- several versions, several apps --------------------------------------------------------------


def versions() -> Toolkit:
    kit = Toolkit("Kit", version="2.0.0")

    def made(version: str | None) -> Callable[[], str]:
        def say() -> str:
            """Says which version it is."""
            return version or "the toolkit's"

        return say

    for version in (None, "1.0.0", "1.2.0", "10.0.0"):
        kit.tool(name="Say", version=version)(made(version))
    return kit


def test_the_same_tool_in_several_versions() -> None:
    with client(versions()) as yard:
        assert yard.call("Kit.Say") == "10.0.0"
        assert yard.call("Kit.Say@1") == "1.0.0"
        assert yard.call("Kit.Say@1.2.0") == "1.2.0"
        assert yard.call("Kit.Say@2.0.0") == "the toolkit's"
        assert [tool["version"] for tool in yard.list()] == ["10.0.0"]
        assert [tool["version"] for tool in yard.list(all_versions=True)] == ["1.0.0", "1.2.0", "2.0.0", "10.0.0"]


def test_the_same_toolkit_serves_several_apps() -> None:
    kit = kit_of(tried)
    with client(App(kit)) as one, client(App(kit)) as other, client(kit) as alone:
        assert [yard.call("Kit.Tried", {"a": 2}) for yard in (one, other, alone)] == [2, 2, 2]


def test_a_toolkit_that_an_app_is_given_twice_is_there_once() -> None:
    kit = kit_of(tried)
    with client(App(kit, kit)) as yard:
        assert len(yard.list()) == 1


def test_hints_and_requirements_are_listed() -> None:
    tool = listed(tried, requires=[authorization("google", scopes=["mail"]), authorization("google", scopes=["drive"])])
    assert tool["requirements"]["authorization"] == [{"id": "google", "oauth2": {"scopes": ["mail", "drive"]}}]


def test_requirements_are_combined() -> None:
    tool = tool_of(
        tried,
        requires=[
            authorization("google", scopes=["a", "b"]),
            secret("KEY"),
            authorization("github"),
            secret("KEY"),
            authorization("google", scopes=["b", "c"]),
            user_id,
        ],
    )
    assert tool.requirements == Requirements(
        authorization=(Authorization("google", ("a", "b", "c")), Authorization("github")),
        secrets=("KEY",),
        user_id=True,
    )


def test_scopes_are_a_list() -> None:
    with pytest.raises(DefinitionError, match=r"scopes='mail' is not a list; write scopes=\['mail'\]") as refusal:
        authorization("google", scopes="mail")
    assert refusal.value.place is not None
    assert refusal.value.place.file == __file__


# --- a schema of the author's own ----------------------------------------------------------------

EVEN: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"even": {"$anchor": "even", "type": "integer", "multipleOf": 2}},
    "properties": {"a": {"$ref": "#/$defs/even"}},
    "if": {"required": ["a"]},
    "additionalProperties": False,
}


def test_an_input_schema_is_listed_as_it_is() -> None:
    assert tool_of(tried, input_schema=EVEN).input_schema == EVEN


def test_an_input_schema_is_checked_and_the_signature_makes_the_values() -> None:
    kit = kit_of(tried, input_schema=EVEN)
    assert call(kit, "Kit.Tried", {"a": 2}) == 2
    assert call(kit, "Kit.Tried") == 1
    with pytest.raises(InvalidInput):
        call(kit, "Kit.Tried", {"a": 3})


OPEN: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}


def test_what_an_input_schema_allows_is_taken_and_passed_over_where_the_function_does_not_name_it() -> None:
    assert call(kit_of(tried, input_schema=OPEN), "Kit.Tried", {"a": 2, "other": "x"}) == 2


def test_what_an_input_schema_allows_goes_into_the_functions_keywords() -> None:
    def taking(ctx: Context, a: Annotated[int, Field(alias="from")] = 1, **more: Any) -> dict[str, Any]:
        """Takes more."""
        return {"a": a, **more}

    own = {
        "type": "object",
        "properties": {"from": {"type": "integer"}, "b": {"type": "string"}},
        "patternProperties": {"^x-": {"type": "integer"}, "^(a|ctx)$": {}},
        "additionalProperties": False,
    }
    kit = kit_of(taking, input_schema=own)
    assert call(kit, "Kit.Tried", {"from": 2, "b": "y", "x-1": 3}) == {"a": 2, "b": "y", "x-1": 3}
    assert call(kit, "Kit.Tried", {"from": 2, "a": 7, "ctx": 8}) == {"a": 2}
    with pytest.raises(InvalidInput):
        call(kit, "Kit.Tried", {"other": 1})


def test_keywords_need_an_input_schema() -> None:
    def taking(**more: Any) -> None:
        """Takes anything."""

    with pytest.raises(DefinitionError, match="or has an input_schema"):
        kit_of(taking)


def test_what_the_author_does_to_an_input_schema_afterwards_changes_nothing() -> None:
    own = {"type": "object", "properties": {"a": {"type": "integer"}}}
    tool = tool_of(tried, input_schema=own)
    own["properties"].clear()  # type: ignore[attr-defined]
    assert tool.input_schema["properties"] == {"a": {"type": "integer"}}


@pytest.mark.parametrize(
    ("own", "sentence"),
    [
        ([], r"has input_schema=\[\]; it must be a dict of JSON values"),
        ({"type": "object", "properties": {"a": object()}}, "it must be a dict of JSON values"),
        ({"properties": {"a": {}}}, "is not one of an object"),
        ({"type": "object", "properties": [1]}, "is not one of an object"),
        ({"type": "object"}, "has the parameter 'a' not in its input_schema"),
        ({"type": "object", "properties": {"a": {}, "b": {}}}, "has the parameter 'b' not in its signature"),
    ],
)
def test_an_input_schema_that_is_none_of_this_function_is_refused(own: Any, sentence: str) -> None:
    with pytest.raises(DefinitionError, match=sentence):
        tool_of(tried, input_schema=own)


def test_an_input_schema_that_cannot_be_checked_is_refused_when_it_is_served() -> None:
    wrong = {"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}}
    with pytest.raises(DefinitionError, match="has a schema that cannot be checked"):
        call(kit_of(tried, input_schema=wrong), "Kit.Tried")


def test_an_input_schema_leaves_nothing_hidden() -> None:
    def hiding(a: Annotated[int, Hidden] = 1) -> int:
        """Hides."""
        return a

    with pytest.raises(DefinitionError, match="cannot have both an input_schema and a Hidden parameter"):
        tool_of(hiding, input_schema=EVEN)


def paid(a: int, b: int = 1, c: list[int] = Field(default_factory=list)) -> int:  # noqa: B008
    """Pays."""
    return a


@pytest.mark.parametrize(
    ("approval", "said"),
    [
        (lambda x: True, "has no parameter 'a', and the tool has one"),
        (lambda a, c=0: True, "has no parameter 'b', and the tool has one"),
        (lambda a, b, c=0, *, d: True, "has a parameter 'd', and the tool has none"),
        (lambda a, b, c: True, "has a parameter 'c' without a default, and callers may leave it out"),
        (lambda a, /, **more: True, "takes a parameter by position"),
    ],
)
def test_an_approval_function_must_fit_the_tool(approval: Any, said: str) -> None:
    kit = Toolkit("Kit")
    with pytest.raises(DefinitionError, match=f"paid has an approval function .*: it {said}") as refused:
        kit.tool(approval=approval)(paid)
    assert str(refused.value).startswith(f"{__file__}:{paid.__code__.co_firstlineno}: ")
    assert kit.tools == ()


@pytest.mark.parametrize(
    "approval", [lambda a, b: True, lambda **input: True, lambda a, **more: True, lambda b, a, c=1: True]
)
def test_an_approval_function_that_fits_is_taken(approval: Any) -> None:
    kit = Toolkit("Kit")

    @kit.tool(approval=approval)
    def pay(a: int, b: int = 1) -> int:
        """Pays."""
        return a

    assert kit.tools[0].approval is approval
