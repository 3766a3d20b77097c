"""No input makes checking it slow, and no schema makes the server ask somebody else.

The limit is far above what a check takes (milliseconds) and far below what a careless one would (minutes, and more).
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from toolyard import Toolkit
from toolyard.model.errors import DefinitionError
from toolyard.runners.validation import compile_schema

from .raw import DEADLINE_S, ask, assert_serves, request

SLOW_S = 30.0
"""What is quick takes a second on a busy machine; what is not takes minutes."""
MANY = 100_000
PRIME = 2**61 - 1
"""Python's integers hash to their remainder by it."""


def status_of(server: str, tool_id: str, input: Any) -> int:
    """How a call of a server is answered, and that it is soon."""
    body = json.dumps({"tool_id": tool_id, "input": input}).encode()
    started = time.monotonic()
    reply = ask(server, request("POST", "/tools/call", body=body))
    took = time.monotonic() - started
    assert took < SLOW_S, f"{took:.1f} s"
    assert reply.status in (200, 422), reply
    assert len(reply.body) < 10_000
    assert_serves(server)
    return reply.status


@pytest.mark.parametrize(
    ("text", "status"),
    [("a" * MANY, 200), ("a" * MANY + "!", 422), ("ab" * MANY, 422), ("a" * 30 + "!", 422), ("ä" * MANY, 422)],
    ids=["fits", "at the end", "at the start", "short", "beyond ascii"],
)
def test_a_pattern_cannot_be_made_to_backtrack(server: str, text: str, status: int) -> None:
    assert status_of(server, "Kit.Match", {"text": text}) == status


@pytest.mark.parametrize("pattern", [r"^(?=a)(a+)+$", r"^(a+)\1$", r"(?<!a)b", "(", "a{1000000}"])
def test_a_pattern_that_cannot_be_checked_in_linear_time_is_refused_when_it_is_written(pattern: str) -> None:
    with pytest.raises(DefinitionError, match=r"Kit\.Take"):
        compile_schema({"type": "string", "pattern": pattern}, kit.tools[0])


@pytest.mark.parametrize("doubled", [False, True])
@pytest.mark.parametrize(
    ("tool_id", "item"),
    [
        ("Kit.Strings", lambda number: f"{number:x}"),
        ("Kit.Numbers", lambda number: number),
        ("Kit.Numbers", lambda number: number / 7),
        ("Kit.Numbers", lambda number: 2**63 + number),
        ("Kit.Numbers", lambda number: 10**30 + number),
        ("Kit.Numbers", lambda number: PRIME * (number + 1)),
        ("Kit.Numbers", lambda number: 1e200 * (number + 1)),
        ("Kit.Objects", lambda number: {"id": number, "of": [number]}),
        ("Kit.Objects", lambda number: {f"k{number}": None}),
        ("Kit.Objects", lambda number: {"a": PRIME * number}),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value(1)!r}"[:30],
)
def test_many_items_that_must_differ_are_compared_quickly(
    server: str, tool_id: str, item: Callable[[int], Any], doubled: bool
) -> None:
    count = MANY // 2 if "of" in str(item(0)) else MANY  # a body may have so many values, and no more
    items = [item(number) for number in range(count)]
    given = [*items, items[0]] if doubled else items
    assert status_of(server, tool_id, {"items": given}) == (422 if doubled else 200)


@pytest.mark.parametrize(
    ("items", "status"),
    [
        ([1, 2, 3.5], 200),
        ([1, 1.0], 422),
        ([0, -0.0], 422),
        ([10**30, 1e30], 200),
        ([2**70, float(2**70)], 422),
        ([2**53, 2**53 + 1], 200),
    ],
)
def test_numbers_are_the_same_where_json_schema_says_so(server: str, items: list[Any], status: int) -> None:
    assert status_of(server, "Kit.Numbers", {"items": items}) == status


@pytest.mark.parametrize(
    ("items", "status"),
    [
        ([{"a": 1}, {"a": True}, {"a": "1"}, {"a": None}, {"a": [1]}, {"a": {}}, {}], 200),
        ([{"a": 1, "b": 2}, {"b": 2.0, "a": 1}], 422),
        ([{"a": [1, 2]}, {"a": [2, 1]}], 200),
        ([{"a": {"b": [1]}}, {"a": {"b": [1.0]}}], 422),
        ([{"a": True}, {"a": True}], 422),
        ([{"a": 0}, {"a": False}], 200),
    ],
)
def test_objects_are_the_same_where_json_schema_says_so(server: str, items: list[Any], status: int) -> None:
    assert status_of(server, "Kit.Objects", {"items": items}) == status


@pytest.mark.parametrize(
    "items",
    [["x"] * MANY, [[]] * MANY, [{"a": "x"}] * MANY, [["x"]] * MANY, [{f"k{number}": "x" for number in range(MANY)}]],
    ids=["texts", "arrays", "objects", "arrays of texts", "one object"],
)
def test_many_things_that_are_wrong_are_not_counted_one_by_one(server: str, items: list[Any]) -> None:
    assert status_of(server, "Kit.Rows", {"items": [*items, None]}) == 422


def test_many_unknown_parameters_are_not_told_one_by_one(server: str) -> None:
    assert status_of(server, "Kit.Echo", {f"k{number}": number for number in range(MANY)}) == 422


def test_forms_within_forms_are_told_apart_quickly(server: str) -> None:
    wrong: Any = "x"
    for _ in range(3):
        wrong = [wrong, {"a": wrong}, [wrong]]
    assert status_of(server, "Kit.Nested", {"value": wrong}) == 422
    assert status_of(server, "Kit.Nested", {"value": [wrong] * 1000}) == 422
    assert status_of(server, "Kit.Nested", {"value": [[[1]]]}) == 200


class Touched(BaseHTTPRequestHandler):
    """Remembers that somebody came."""

    visits: list[str] = []

    def do_GET(self) -> None:
        self.visits.append(self.path)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nobody is listening."""


@pytest.fixture
def elsewhere() -> Iterator[str]:
    """The address of a server that nobody should ask."""
    Touched.visits.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Touched) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join(DEADLINE_S)


kit = Toolkit("Kit")


@kit.tool
async def take(value: int) -> int:
    """Takes."""
    return value


def somewhere(schema: dict[str, Any], address: str) -> dict[str, Any]:
    """The schema with the address in place of `…`."""
    filled: dict[str, Any] = json.loads(json.dumps(schema, ensure_ascii=False).replace("…", address))
    return filled


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "…/schema.json"},
        {"properties": {"value": {"$ref": "…/schema.json#/$defs/a"}}},
        {"$id": "…/", "properties": {"value": {"$ref": "schema.json"}}},
        {"$dynamicRef": "…/schema.json#a"},
        {"$schema": "…/meta.json"},
        {"anyOf": [{"$ref": "…/schema.json"}, True]},
    ],
)
def test_a_schema_that_refers_to_another_place_is_refused_and_not_fetched(
    elsewhere: str, schema: dict[str, Any]
) -> None:
    with pytest.raises(DefinitionError, match=r"Kit\.Take"):
        compile_schema(somewhere(schema, elsewhere), kit.tools[0])
    assert Touched.visits == []


def test_a_schema_that_only_names_another_place_does_not_make_anyone_go_there(elsewhere: str) -> None:
    schema = {"$id": "…/schema.json", "type": "object"}
    checked = compile_schema(somewhere(schema, elsewhere), kit.tools[0])
    assert checked.is_valid({"$ref": f"{elsewhere}/input.json", "$schema": elsewhere})
    assert Touched.visits == []
