"""The flow over MCP, step by step, with answers that a well-behaved server does not give."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from toolyard.client.client import command
from toolyard.client.flows import Flow, Pause
from toolyard.client.mcp_flows import MOST_PAGES, McpProtocol
from toolyard.model.call import Outcome
from toolyard.model.errors import (
    Busy,
    InternalError,
    NotAuthenticated,
    RequestError,
    ToolError,
    ToolNotFound,
    UnsupportedProtocol,
)
from toolyard.wires.contract import JSON, Reply, Request

Answer = Callable[[Request, Any], Reply]
COMPLETE = {"resultType": "complete"}
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def result(**members: Any) -> Answer:
    return lambda _, id: Reply(200, msgspec.json.encode({"jsonrpc": "2.0", "id": id, "result": members}), [JSON])


def refused(status: int, code: int | None, message: str = "no", *, data: Any = None, headers: Any = ()) -> Answer:
    error = {"code": code, "message": message, "data": data}
    said = {} if code is None else {"error": error}
    return lambda _, id: Reply(
        status, msgspec.json.encode({"jsonrpc": "2.0", "id": id, **said}) if said else b"", [JSON, *headers]
    )


def events(*lines: str, ending: str = "\n") -> Answer:
    """`ID` stands for the request's."""

    def answer(_: Request, id: Any) -> Reply:
        body = ending.join(lines).replace("ID", str(id)).encode()
        return Reply(200, body, [(b"content-type", b"text/event-stream; charset=utf-8")])

    return answer


def tool(name: str = "add", **members: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, **members}


def listed(*tools: dict[str, Any], **members: Any) -> Answer:
    return result(**COMPLETE, tools=[*tools] or [tool()], **members)


def text(said: str, **members: Any) -> Answer:
    return result(**COMPLETE, content=[{"type": "text", "text": said}], **members)


def driven(flow: Flow, *answers: Answer) -> tuple[list[Any], Any]:
    """What a flow asks for and how long it pauses, and what it ends with."""
    asked, given, reply = list[Any](), iter(answers), None
    while True:
        try:
            step = flow.send(reply)
        except StopIteration as end:
            assert list(given) == [], "every answer was wanted"
            return asked, end.value
        if isinstance(step, Pause):
            asked.append(step.seconds)
            reply = None
        else:
            body = msgspec.json.decode(step.body) if step.body else {}
            asked.append(body.get("method", step.method))
            reply = next(given)(step, body.get("id", LAST_ID))


LAST_ID = 4
"""Of the request whose stream is taken up again: two lists and a greeting came before."""
HELLO = result(protocolVersion="2025-11-25")


def called(
    *answers: Answer, tool_id: str = "add", retries: int = 0, speech: McpProtocol | None = None
) -> tuple[Any, Outcome]:
    speech = speech or McpProtocol("http://x/mcp")
    return driven(speech.call(command(tool_id, {"a": 1}), retries, wait=False), *answers)


def value(outcome: Outcome) -> Any:
    assert outcome.error is None, outcome.error
    return msgspec.json.decode(outcome.value or b"")


# --- streams -------------------------------------------------------------------------------------

RESPONSE = '{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","content":[{"type":"text","text":"ok"}]}}'
PROGRESS = '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}'
OTHER = '{"jsonrpc":"2.0","id":"other","result":{"content":[]}}'


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_a_stream_is_read_to_its_response(ending: str) -> None:
    half, comma, rest = RESPONSE.partition(",")
    before = (": hi", "event: message", f"data: {PROGRESS}", "", f"data:{OTHER}", "")
    lines = (*before, f"data: {half}{comma}", f"data: {rest}", "", f"data: {OTHER}", "")
    assert value(called(listed(), events(*lines, ending=ending))[1]) == "ok"


def test_a_character_that_ends_lines_elsewhere_ends_none_here() -> None:
    said = RESPONSE.replace("ok", "a\u2028b\x0bc".replace("\x0b", "\\u000b"))
    assert value(called(listed(), events(f"data: {said}", "", ""))[1]) == "a\u2028b\x0bc"


def test_a_stream_that_breaks_off_is_taken_up_again_when_the_server_wants_it() -> None:
    first = events("id: 7", "retry: 1500", "data: ", "", "")
    more, last = events("id: 8", f"data: {PROGRESS}", "", ""), events(f"data: {RESPONSE}", "", "")
    greeting = (refused(400, None), HELLO, refused(202, None), result(tools=[tool()]))
    asked, outcome = called(*greeting, first, more, last)
    assert asked[-6:] == ["tools/list", "tools/call", 1.5, "GET", 1.5, "GET"]
    assert value(outcome) == "ok"


def test_a_stream_without_a_response_is_an_error() -> None:
    """The newer era's streams cannot be taken up again."""
    with pytest.raises(InternalError, match="not one to this request"):
        called(listed(), events("id: 7", f"data: {PROGRESS}", "", ""))


# --- results -------------------------------------------------------------------------------------


def test_structured_results_must_fit_their_schema() -> None:
    schema = listed(tool(outputSchema=NUMBER))
    assert value(called(schema, text("x", structuredContent={"n": 1}))[1]) == {"n": 1}
    assert value(called(schema, text('{"n": 2}'))[1]) == {"n": 2}
    for broken in (text("x", structuredContent={"n": "1"}), text('{"n": "1"}'), text("none")):
        asked, outcome = called(schema, broken, schema)
        assert asked == ["tools/list", "tools/call", "tools/list"]
        assert "does not fit its own output schema" in str(outcome.error)


def test_a_schema_that_has_changed_is_looked_for() -> None:
    newer = listed(tool(outputSchema={"type": "string"}))
    assert value(called(listed(tool(outputSchema=NUMBER)), text("x", structuredContent="x"), newer)[1]) == "x"


def test_a_schema_that_cannot_be_used_is_said_so() -> None:
    schema = listed(tool(outputSchema={"$ref": "http://127.0.0.1:9/x"}))
    assert "cannot be used" in str(called(schema, text("x", structuredContent={"n": 1}), schema)[1].error)


def test_text_is_text_without_a_schema() -> None:
    assert value(called(listed(), text("10"))[1]) == "10"
    assert value(called(listed(), result(**COMPLETE, content=[]))[1]) is None
    assert value(called(listed(), text("10", structuredContent={"result": 10}))[1]) == {"result": 10}


def test_only_a_toolyard_of_the_older_era_wraps() -> None:
    wrapping = {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]}
    ours = {"toolyard/id": "Kit.Add"}
    for meta, said, wanted in ((ours, "10", 10), ({}, "10", {"result": 10}), (ours, '{"result":10}', {"result": 10})):
        answer = result(content=[{"type": "text", "text": said}], structuredContent={"result": 10})
        tools = result(tools=[tool(outputSchema=wrapping, _meta=meta)])
        hello = result(protocolVersion="2025-06-18")
        asked, outcome = called(refused(400, None), hello, refused(202, None), tools, answer)
        assert asked == ["tools/list", "initialize", "notifications/initialized", "tools/list", "tools/call"]
        assert value(outcome) == wanted


def test_a_failure_without_words_is_one() -> None:
    outcome = called(listed(), result(**COMPLETE, content=[], isError=True))[1]
    assert str(outcome.error) == "The tool failed"


@pytest.mark.parametrize("answer", [result(resultType="odd"), result(**COMPLETE), result(**COMPLETE, content="x")])
def test_what_is_no_result_is_said_so(answer: Answer) -> None:
    with pytest.raises(InternalError):
        called(listed(), answer)


def test_a_question_that_nobody_can_answer_is_an_error() -> None:
    asking = {"inputRequests": {"who": {"method": "elicitation/create"}}}
    with pytest.raises(RequestError, match=r"wants to know more \(who\)"):
        called(listed(), result(resultType="input_required", **asking))
    task = result(resultType="task", taskId="t", status="working", pollIntervalMs=0)
    asked: list[Any] = []
    with pytest.raises(RequestError, match=r"wants to know more \(who\)"):
        called(
            listed(),
            task,
            result(**COMPLETE, taskId="t", status="input_required", **asking),
            lambda request, id: asked.append(request.headers[b"mcp-method"]) or result(**COMPLETE)(request, id),  # type: ignore[func-returns-value]
        )
    assert asked == [b"tasks/cancel"]


# --- tasks ---------------------------------------------------------------------------------------


def task(status: str, **members: Any) -> Answer:
    return result(**COMPLETE, taskId="t", status=status, **members)


CREATED = result(resultType="task", taskId="t", status="working", pollIntervalMs=2500)


def test_a_task_is_polled_when_the_server_wants_it() -> None:
    done = task("completed", result={"content": [{"type": "text", "text": "ok"}]})
    busy = refused(429, None, headers=[(b"retry-after", b"3")])
    asked, outcome = called(listed(), CREATED, task("working", pollIntervalMs=90_000), busy, task("working"), done)
    assert asked == ["tools/list", "tools/call", 2.5, "tasks/get", 90, "tasks/get", 3, "tasks/get", 1, "tasks/get"]
    assert value(outcome) == "ok"


@pytest.mark.parametrize(
    ("end", "sentence"),
    [
        (task("failed", error={"code": -32603, "message": "It broke"}), "It broke"),
        (task("cancelled"), "The call was cancelled"),
        (task("completed", result={"isError": True, "content": [{"type": "text", "text": "Shut"}]}), "Shut"),
    ],
)
def test_a_task_that_fails_is_a_failure(end: Answer, sentence: str) -> None:
    assert str(called(listed(), CREATED, end)[1].error) == sentence


# --- lists ---------------------------------------------------------------------------------------


def test_all_pages_are_read_also_after_an_empty_cursor() -> None:
    speech = McpProtocol("http://x/mcp")
    pages = [listed(tool("a"), nextCursor=""), listed(tool("b"), nextCursor="z"), listed(tool("c"))]
    _, tools = driven(speech.list_tools(all_versions=False, for_model=False), *pages)
    assert [each["name"] for each in tools] == ["a", "b", "c"]


def test_a_list_that_does_not_end_is_given_up() -> None:
    flow = McpProtocol("http://x/mcp").list_tools(all_versions=False, for_model=False)
    with pytest.raises(InternalError, match="does not end"):
        driven(flow, *[listed(nextCursor="again")] * (MOST_PAGES + 1))


def test_a_tool_whose_headers_cannot_be_made_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "number", "x-mcp-header": "A"}}}
    bad = {"name": "bad", "inputSchema": schema}
    with pytest.raises(ToolNotFound) as missing:
        called(listed(tool(), bad), tool_id="bad")
    assert "cannot be called" in str(missing.value.developer_message)
    assert "the tool bad is left out" in caplog.text


def test_headers_that_do_not_fit_are_made_again_from_a_new_list() -> None:
    sent: list[Request] = []

    def ok(request: Request, id: Any) -> Reply:
        sent.append(request)
        return text("ok")(request, id)

    schema = {"type": "object", "properties": {"a": {"type": "integer", "x-mcp-header": "A"}}}
    asked, _ = called(listed(), refused(400, -32020), listed({"name": "add", "inputSchema": schema}), ok)
    assert asked == ["tools/list", "tools/call", "tools/list", "tools/call"]
    assert sent[0].headers[b"mcp-param-a"] == b"1"


def test_a_list_is_believed_as_long_as_it_says() -> None:
    now = [0.0]
    speech = McpProtocol("http://x/mcp", monotonic=lambda: now[0])
    called(listed(ttlMs=5000), text("1"), speech=speech)
    now[0] = 4.9
    assert called(text("1"), speech=speech)[0] == ["tools/call"]
    now[0] = 5.1
    assert called(listed(ttlMs=5000), text("1"), speech=speech)[0] == ["tools/list", "tools/call"]


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "kind", "sentence"),
    [
        (refused(400, -32602, "Unknown tool: add"), ToolNotFound, "Unknown tool"),
        (refused(400, -32602, "Invalid params"), RequestError, "Invalid params"),
        (refused(400, -32021, "This needs elicitation"), RequestError, "needs elicitation"),
        (refused(401, None), NotAuthenticated, "key or a token"),
        (refused(401, -32600, "Who?"), NotAuthenticated, "Who?"),
        (refused(403, None), RequestError, "status 403"),
        (refused(307, None, headers=[(b"location", b"/mcp/")]), RequestError, "somewhere else: /mcp/"),
        (refused(200, -32603, "Oh"), InternalError, "Oh"),
        (refused(500, None), InternalError, "status 500"),
        (refused(429, None), Busy, "status 429"),
        (refused(503, None), Busy, "status 503"),
    ],
)
def test_every_refusal_has_its_error(answer: Answer, kind: type[Exception], sentence: str) -> None:
    with pytest.raises(kind, match=sentence) as found:
        called(listed(), answer)
    assert type(found.value) is kind or kind is Busy


def test_a_busy_server_is_asked_again() -> None:
    told = {"toolyard/error": {"code": "busy", "can_retry": True, "retry_after_ms": 40}}
    full = text("Too much", isError=True, _meta=told)
    asked, outcome = called(listed(), full, refused(429, None, headers=[(b"retry-after", b"2")]), text("ok"), retries=2)
    assert asked == ["tools/list", "tools/call", 0.04, "tools/call", 2, "tools/call"]
    assert value(outcome) == "ok"
    with pytest.raises(Busy, match="Too much"):
        called(listed(), full)


def test_a_failure_that_may_pass_is_tried_again() -> None:
    told = {"toolyard/error": {"can_retry": True, "retry_after_ms": 40}}
    asked, outcome = called(listed(), *[text("Not yet", isError=True, _meta=told)] * 2, retries=1)
    assert asked == ["tools/list", "tools/call", 0.04, "tools/call"]
    assert isinstance(outcome.error, ToolError)
    assert (outcome.error.can_retry, outcome.error.retry_after_ms) == (True, 40)


# --- eras ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "first",
    [
        refused(400, None),
        refused(404, None),
        refused(405, None),
        refused(400, -32600, "Missing session ID"),
        refused(200, -32602, "Not initialized"),
        refused(400, -32022, data={"supported": ["2025-11-25"]}),
        result(tools=[tool("ambiguous")]),
    ],
)
def test_who_does_not_understand_is_greeted(first: Answer) -> None:
    asked, _ = called(first, HELLO, refused(202, None), result(tools=[tool()]), text("1"))
    assert asked == ["tools/list", "initialize", "notifications/initialized", "tools/list", "tools/call"]


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        (refused(401, None), NotAuthenticated),
        (refused(503, None), Busy),
        (refused(404, -32601), RequestError),
        (refused(400, -32020), RequestError),
        (refused(400, -32022, data={"supported": ["2099-01-01"]}), UnsupportedProtocol),
    ],
)
def test_who_refuses_for_another_reason_is_not_greeted(first: Answer, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        called(first)


def test_a_handshake_that_fails_too_says_why_the_first_request_did() -> None:
    with pytest.raises(InternalError, match="The database is gone"):
        called(refused(200, -32603, "The database is gone"), refused(400, -32600, "What?"))
    with pytest.raises(NotAuthenticated):
        called(refused(400, -32600, "What?"), refused(401, None))
    with pytest.raises(UnsupportedProtocol, match="speaks MCP 2024-11-05"):
        called(refused(400, None), result(protocolVersion="2024-11-05"))
