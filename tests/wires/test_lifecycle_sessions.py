"""Sessions and workers: what opens them, and how they are shown."""

from typing import Any

import msgspec
import pytest

from toolyard.model.errors import ToolError
from toolyard.model.lifecycle import State, WaitingFor
from toolyard.model.session import Event, NewSession, RequestEvent, Session, SessionStanding, SessionTool
from toolyard.model.tool import Authorization, Requirements
from toolyard.model.worker import ToolDefinition
from toolyard.wires.lifecycle.sessions import (
    decode_session,
    encode_awaiting,
    encode_event,
    encode_ready,
    encode_session,
    encode_session_created,
    encode_turn,
)
from toolyard.wires.lifecycle.worker_tools import decode_worker, definition_json, encode_worker

from .records import call, complete, failed
from .refusals import problems

TOOL: dict[str, Any] = {"name": "find", "description": "Finds.", "input_schema": {"type": "object"}}


def encoded(value: Any) -> bytes:
    return msgspec.json.encode(value)


# -- sessions ---------------------------------------------------------------------------------------


def test_a_session_may_be_opened_with_nothing() -> None:
    assert decode_session(b"") == decode_session(b"{}") == decode_session(b'{"tools": []}') == NewSession()


def test_a_session_brings_its_tools() -> None:
    tools = [TOOL, TOOL | {"name": "Maps.find-2", "output_schema": {"type": "array"}}]
    tools.append(TOOL | {"name": "nothing", "output_schema": None})
    assert decode_session(encoded({"tools": tools, "metadata": {"user": 7}})) == NewSession(
        (
            SessionTool("find", "Finds.", {"type": "object"}),
            SessionTool("Maps.find-2", "Finds.", {"type": "object"}, {"type": "array"}),
            SessionTool("nothing", "Finds.", {"type": "object"}),
        ),
        {"user": 7},
    )


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({"tools": {}}, {"tools"}),
        ({"tools": None}, {"tools"}),
        ({"tools": ["find"]}, {"tools[0]"}),
        ({"tools": [{}]}, {"tools[0].name", "tools[0].description", "tools[0].input_schema"}),
        ({"tools": [TOOL | {"name": "a b"}]}, {"tools[0].name"}),
        ({"tools": [TOOL | {"name": "a" * 129}]}, {"tools[0].name"}),
        ({"tools": [TOOL | {"name": "a\n"}]}, {"tools[0].name"}),
        ({"tools": [TOOL | {"input_schema": True}]}, {"tools[0].input_schema"}),
        ({"tools": [TOOL | {"output_schema": "x"}]}, {"tools[0].output_schema"}),
        ({"tools": [TOOL | {"strict": True}]}, {"tools[0].strict"}),
        ({"tools": [TOOL, TOOL]}, {"tools[1].name"}),
        ({"metadata": []}, {"metadata"}),
        ({"id": "mine"}, {"id"}),
    ],
)
def test_a_session_that_is_not_one_says_where(body: Any, wrong: set[str]) -> None:
    assert problems(decode_session, encoded(body)).keys() == wrong


def test_a_session_is_shown_with_its_requests() -> None:
    session = Session("s-1", "default", "ada", [], {"user": 7}, open=1)
    created = encode_session_created(session)
    assert (created.status, msgspec.json.decode(created.body)) == (
        201,
        {"sessionId": "s-1", "status": "awaiting_tools"},
    )
    pending = {"requestId": "t-1", "tool": "find_locations", "state": "PENDING", "attempt": 0}
    done = pending | {"state": "COMPLETE", "attempt": 1}
    standing = SessionStanding("s-1", 14, 1, 1)
    requests = [
        RequestEvent("t-1", "find_locations", State.PENDING, 0, WaitingFor.APPROVAL),
        RequestEvent("t-1", "find_locations", State.COMPLETE, 1),
    ]
    assert msgspec.json.decode(encode_session(standing, b'{"user": 7}', requests).body) == {
        "sessionId": "s-1",
        "status": "awaiting_tools",
        "requests": [pending | {"waitingFor": "approval"}, done],
        "metadata": {"user": 7},
    }
    turn = encode_turn([call()])
    assert (turn.status, msgspec.json.decode(turn.body)) == (200, {"requests": [pending]})


def test_results_are_there_or_awaited() -> None:
    assert encode_awaiting().status == 202
    assert msgspec.json.decode(encode_awaiting().body) == {"status": "awaiting_tools"}
    ready = encode_ready({"messages": []})
    assert (ready.status, msgspec.json.decode(ready.body)) == (200, {"status": "ready", "messages": []})


def test_an_event_is_one_block_of_lines() -> None:
    event = Event(7, "request", msgspec.json.encode({"requestId": "t\n1"}))
    assert encode_event(event) == b'id: 7\nevent: request\ndata: {"requestId":"t\\n1"}\n\n'


# -- workers ----------------------------------------------------------------------------------------


def test_a_worker_offers_what_another_server_lists() -> None:
    listed = {
        "id": "Reports.Build@2.0.0",
        "name": "Reports_Build",
        "description": "Builds.",
        "version": "2.0.0",
        "input_schema": {"type": "object"},
        "output_schema": None,
        "requirements": {
            "authorization": [{"id": "google", "oauth2": {"scopes": ["mail"]}}, {"id": "slack"}],
            "secrets": [{"id": "KEY"}],
            "user_id": True,
        },
    }
    assert decode_worker(encoded({"tools": [listed]})) == [
        ToolDefinition(
            "Reports.Build",
            "2.0.0",
            "Reports_Build",
            "Builds.",
            {"type": "object"},
            None,
            Requirements((Authorization("google", ("mail",)), Authorization("slack")), ("KEY",), True),
        )
    ]


def test_a_definition_needs_an_id_and_no_more() -> None:
    tools = [{"id": "A.B"}, {"id": "A.B@2"}, {"id": "A.B@3.0.1"}, {"id": "A.B", "version": "04.0.0"}]
    versions = [(tool.id, tool.version) for tool in decode_worker(encoded({"tools": tools}))]
    assert versions == [("A.B", "1.0.0"), ("A.B", "2.0.0"), ("A.B", "3.0.1"), ("A.B", "4.0.0")]


EVERYTHING = ToolDefinition(
    "A.B",
    "1.2.3",
    "a-b",
    "Does.",
    {"type": "object"},
    {"type": "string"},
    Requirements((Authorization("google", ("mail",)),), ("KEY",), True),
    "A title",
    2.5,
    "rerun",
    True,
    True,
    "A toolkit.",
)


@pytest.mark.parametrize(
    "tool",
    [
        EVERYTHING,
        ToolDefinition("A.B"),
        ToolDefinition("A.B", output_schema=None),
        ToolDefinition("A.B", requirements=Requirements(secrets=("KEY",))),
    ],
)
def test_what_a_worker_says_of_a_tool_is_what_the_server_hears(tool: ToolDefinition) -> None:
    assert decode_worker(encoded({"tools": [definition_json(tool)]})) == [tool]


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"id": "AB"}, "tools[0].id"),
        ({"id": "A.B@latest"}, "tools[0].id"),
        ({"id": "A.B\n"}, "tools[0].id"),
        ({"id": "A." + "b" * 300}, "tools[0].id"),
        ({"id": None}, "tools[0].id"),
        ({"version": "1"}, "tools[0].version"),
        ({"version": "1.0.0-rc"}, "tools[0].version"),
        ({"id": "A.B@2", "version": "1.0.0"}, "tools[0].version"),
        ({"name": "A B"}, "tools[0].name"),
        ({"description": None}, "tools[0].description"),
        ({"input_schema": None}, "tools[0].input_schema"),
        ({"output_schema": []}, "tools[0].output_schema"),
        ({"timeout": 0}, "tools[0].timeout"),
        ({"timeout": None}, "tools[0].timeout"),
        ({"on_lost": "retry"}, "tools[0].on_lost"),
        ({"read_only": 1}, "tools[0].read_only"),
        ({"idempotent": "no"}, "tools[0].idempotent"),
        ({"title": 1}, "tools[0].title"),
        ({"toolkit_description": 1}, "tools[0].toolkit_description"),
        ({"handler": "x"}, "tools[0].handler"),
        ({"requirements": []}, "tools[0].requirements"),
        ({"requirements": {"approval": True}}, "tools[0].requirements.approval"),
        ({"requirements": {"user_id": 1}}, "tools[0].requirements.user_id"),
        ({"requirements": {"secrets": ["KEY"]}}, "tools[0].requirements.secrets[0]"),
        ({"requirements": {"secrets": [{"id": ""}]}}, "tools[0].requirements.secrets[0].id"),
        ({"requirements": {"secrets": [{"id": "K", "v": 1}]}}, "tools[0].requirements.secrets[0].v"),
        (
            {"requirements": {"authorization": [{"id": "g", "oauth2": {"grant": "x"}}]}},
            "tools[0].requirements.authorization[0].oauth2.grant",
        ),
        (
            {"requirements": {"authorization": [{"id": "g", "oauth2": {"scopes": [1]}}]}},
            "tools[0].requirements.authorization[0].oauth2.scopes[0]",
        ),
    ],
)
def test_a_definition_that_is_not_one_says_where(change: Any, wrong: str) -> None:
    assert problems(decode_worker, encoded({"tools": [{"id": "A.B"} | change]})).keys() == {wrong}


def test_a_worker_has_tools_each_once() -> None:
    assert problems(decode_worker, b'{"tools": []}').keys() == {"tools"}
    assert problems(decode_worker, b"{}").keys() == {"tools"}
    twice = [{"id": "A.B"}, {"id": "A.B@1"}]
    assert problems(decode_worker, encoded({"tools": twice})) == {"tools[1].id": "A.B@1.0.0 is there already"}


def test_a_worker_is_told_how_long_it_is_known() -> None:
    reply = encode_worker("box-1", [ToolDefinition("A.B", "2.0.0")], 30_000)
    assert msgspec.json.decode(reply.body) == {"name": "box-1", "tools": ["A.B@2.0.0"], "leaseMs": 30_000}


def test_the_states_of_requests_are_those_of_the_document() -> None:
    shown = [call(), call(state=State.PROCESSING), complete({}), failed(ToolError("no"))]
    states = [each["state"] for each in msgspec.json.decode(encode_turn(shown).body)["requests"]]
    assert states == ["PENDING", "PROCESSING", "COMPLETE", "ERROR"]
