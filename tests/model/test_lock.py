"""The lock: what is in it, and what it finds."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from toolyard import Icon, Toolkit, authorization, secret, user_id
from toolyard.model.lock.lock import LockedTool, described, difference, differences, locked, read, write
from toolyard.model.tool import Requirements, Tool, ToolHints, Version


def made(**options: Any) -> Tool:
    kit = Toolkit("Kit", version="1.0.0", description="A kit.")

    @kit.tool(**{"title": "A tool"} | options)
    def tool(a: int, b: float = 1.0) -> str:
        """Does it."""
        return f"{a}{b}"

    return kit.tools[0]


EVERYTHING: dict[str, Any] = {
    "annotations": {"audience": ["user"]},
    "requires": [secret("B"), secret("A"), authorization("google", scopes=["y", "x"]), user_id],
    "idempotent": True,
    "destructive": False,
    "tags": ["two", "one"],
    "icons": [Icon("https://a.example/i.png")],
    "task": "preferred",
}
TOOL = made(**EVERYTHING)


def lock_of(*tools: Tool) -> dict[str, LockedTool]:
    return {tool.reference: locked(tool) for tool in tools}


def test_a_lock_says_everything_that_a_client_relies_on() -> None:
    assert described(TOOL) == {
        "wire_name": "Kit_Tool",
        "title": "A tool",
        "description": "Does it.",
        "toolkit_description": "A kit.",
        "input_schema": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "number", "default": 1}},
            "required": ["a"],
            "additionalProperties": False,
        },
        "output_schema": {"type": "string"},
        "requirements": {"authorization": {"google": ["x", "y"]}, "secrets": ["A", "B"], "user_id": True},
        "hints": {"idempotent": True, "destructive": False},
        "annotations": {"audience": ["user"]},
        "tags": ["one", "two"],
        "icons": [{"src": "https://a.example/i.png"}],
        "task": "preferred",
    }


@pytest.mark.parametrize(
    "change",
    [
        {"name": "Other"},
        {"version": Version(1, 0, 1)},
        {"wire_name": "other"},
        {"title": None},
        {"description": "Does that."},
        {"toolkit": replace(TOOL.toolkit, description="Another.")},
        {"input_schema": {"type": "object"}},
        {"output_schema": None},
        {"output_schema": {}},
        {"requirements": Requirements()},
        {"hints": ToolHints()},
        {"hints": ToolHints(idempotent=True)},
        {"annotations": {}},
        {"tags": ("one",)},
        {"icons": ()},
        {"task": "optional"},
        {"asks": ("form",)},
        {"returns_content": True},
    ],
    ids=str,
)
def test_each_of_them_changes_the_fingerprint(change: dict[str, Any]) -> None:
    assert locked(replace(TOOL, **change)).fingerprint != locked(TOOL).fingerprint


@pytest.mark.parametrize(
    "change",
    [
        {"code": made().code},
        {"timeout": 5.0},
        {"concurrency": 1},
        {"runs": "inline"},
        {"on_lost": "unknown"},
        {"tags": ("one", "two")},
        {"tenants": ("acme",)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_how_and_where_it_runs_does_not(change: dict[str, Any]) -> None:
    assert locked(replace(TOOL, **change)).fingerprint == locked(TOOL).fingerprint


def test_a_fingerprint_is_the_same_tomorrow() -> None:
    """A lock that was written by one version of toolyard must be read by the next."""
    assert locked(TOOL).fingerprint == "sha256:7fa85eb4823200ce6d39ac5ca656604fbdb703c1d4d275fe88ba9cd30fd0001c"


def test_what_is_written_is_read_again() -> None:
    lock = lock_of(TOOL, made(version="2.0.0"))
    lock["A.B@1.0.0"] = replace(lock[TOOL.reference], reference="A.B@1.0.0", by="worker")
    assert read(write(lock)) == lock
    assert write(read(write(lock))) == write(lock)
    assert list(read(write(lock))) == ["A.B@1.0.0", "Kit.Tool@1.0.0", "Kit.Tool@2.0.0"]


def test_the_order_of_parameters_does_not_matter() -> None:
    turned = replace(
        TOOL,
        input_schema={
            **dict(reversed(TOOL.input_schema.items())),
            "properties": dict(reversed(TOOL.input_schema["properties"].items())),
        },
    )
    assert write(lock_of(turned)) == write(lock_of(TOOL))


def _without_a_member(given: Any) -> None:
    del given["tools"]["Kit.Tool@1.0.0"]["input_schema"]


def _with_other_words(given: Any) -> None:
    given["tools"]["Kit.Tool@1.0.0"]["description"] = "Does whatever I say."


def _under_another_name(given: Any) -> None:
    given["tools"]["Kit.Other@1.0.0"] = given["tools"].pop("Kit.Tool@1.0.0")


def _without_a_version(given: Any) -> None:
    given["tools"]["Kit.Tool"] = given["tools"].pop("Kit.Tool@1.0.0")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_without_a_member, "its entry Kit.Tool@1.0.0 is not that of a tool"),
        (_with_other_words, "the fingerprint of Kit.Tool@1.0.0 does not fit what is said of it"),
        (_under_another_name, "the fingerprint of Kit.Other@1.0.0 does not fit what is said of it"),
        (_without_a_version, "its entry Kit.Tool is not that of a tool"),
        (lambda given: given.update(lock=2), 'its "lock" is 2, and this toolyard reads 1'),
        (lambda given: given.pop("tools"), 'this is not a lock; it has no "tools"'),
    ],
)
def test_a_lock_that_was_changed_by_hand_is_found_out(damage: Callable[[Any], Any], said: str) -> None:
    given = json.loads(write(lock_of(TOOL)))
    damage(given)
    with pytest.raises(ValueError, match=said):
        read(json.dumps(given))


@pytest.mark.parametrize("text", ["", "{", "[]", "<<<<<<< ours"])
def test_what_is_no_lock_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="this is not"):
        read(text)


def test_a_tool_as_it_was_approved_is_no_difference() -> None:
    assert difference(lock_of(TOOL), locked(made(**EVERYTHING))) is None
    assert differences(lock_of(TOOL), [locked(TOOL)]) == []


def test_a_new_tool_a_new_version_and_one_that_is_gone() -> None:
    other = replace(TOOL, name="Other")
    newer = replace(TOOL, version=Version(1, 1), description="Does more.")
    found = {each.reference: each for each in differences(lock_of(TOOL), [locked(other), locked(newer)])}
    assert list(found) == ["Kit.Other@1.0.0", "Kit.Tool@1.0.0", "Kit.Tool@1.1.0"]
    assert str(found["Kit.Other@1.0.0"]) == "Kit.Other@1.0.0 is not in the lock\n  additive  tool: is new"
    assert str(found["Kit.Tool@1.0.0"]) == "Kit.Tool@1.0.0 is locked and not there\n  breaking  tool: was removed"
    assert str(found["Kit.Tool@1.1.0"]) == (
        "Kit.Tool@1.1.0 is not in the lock, which has 1.0.0\n  additive  version: is new\n"
        '  wording   description: was "Does it." and is "Does more."'
    )
    assert [each.is_new for each in found.values()] == [True, False, False]


def test_a_worker_is_not_asked_for_what_it_cannot_say() -> None:
    offered = replace(TOOL, annotations={}, icons=())
    assert difference(lock_of(TOOL), locked(offered, by="worker")) is None
    changed = replace(offered, description="Does that.")
    assert difference(lock_of(TOOL), locked(changed, by="worker")) is not None
    assert difference(lock_of(TOOL), locked(replace(TOOL, annotations={}))) is not None, "the server's own can"
