"""A server that SIGTERM tells to stop: first it is only to be sent no more calls, then it takes none, then it is gone.
Whatever is under way at that moment goes on as if nothing were."""

from concurrent.futures import Future
from typing import Any

from ...server.mcp.talking import Newer, Older, accepted, text_of
from .conftest import Nodes
from .serving import Node, Reply, asked, meanwhile, until

WORKER = {"toolyard-worker": "w"}
FOR_EVER = "600"


def offered(node: Node, tool: str = "Away.Do", worker: str = "w") -> None:
    definition = {"id": tool, "input_schema": {}}
    assert node.ask("PUT", f"/v1/workers/{worker}", {"tools": [definition]}).status == 200


def claimed(node: Node, wait: float = 20) -> list[dict[str, Any]]:
    reply = node.ask("POST", "/v1/tools/claim", {"tools": ["Away.*"], "wait": wait}, WORKER)
    assert reply.status == 200, reply
    claims: list[dict[str, Any]] = reply.json["claims"]
    return claims


def responded(node: Node, claim: dict[str, Any]) -> int:
    attempt = {"toolyard-attempt": str(claim["attempt"])}
    response = {"response": {"state": "COMPLETE", "value": "by a worker"}}
    return node.ask("POST", f"/v1/tools/response/direct/{claim['requestId']}", response, WORKER | attempt).status


def test_while_it_drains_everything_goes_on_and_a_second_signal_ends_that(node: Nodes, store: str) -> None:
    server = node(store=store, drain_s=FOR_EVER, grace_s=FOR_EVER)
    url = f"{server.root}/mcp"
    offered(server)
    mcp = Older(url, "2025-11-25", elicitation={"form": {}}).initialize()
    with meanwhile() as start:
        # What is under way when the signal comes.
        kept = server.connection()
        assert asked(kept, "GET", "/ready").status == 200
        keyed = start(server.call, "Wait", "keyed", name="keyed")
        stream = mcp.call("Held_Wait", {"name": "stream"}, meta={"progressToken": "t"})
        assert stream.next()["params"]["progress"] == 1
        question = mcp.call("Held_Ask")
        asking = question.next()
        assert asking["method"] == "elicitation/create"
        changes = mcp.get()
        assert changes.status == 200
        by_worker = start(server.ask, "POST", "/tools/call", {"tool_id": "Away.Do", "call_id": "away", "input": {}})
        (claim,) = claimed(server)
        until(lambda: server.has_begun("keyed"))
        poll = start(server.ask, "GET", "/v1/calls/keyed?wait=60")
        waiting = start(claimed, server)

        server.tell()
        until(lambda: server.ask("GET", "/ready").status == 503)
        assert server.ask("GET", "/health").json == {"status": "draining"}
        assert server.ask("GET", "/live").status == 200

        # A connection that was kept is answered once more, and told that this was the last time.
        last = asked(kept, "POST", "/tools/call", {"tool_id": "Held.Quick", "input": {"text": "x"}})
        assert (last.json["value"], last.headers["connection"]) == ("x", "close")
        assert server.call("Quick", "new", text="y").json["value"] == "y"
        assert text_of(mcp.call("Held_Quick", {"text": "z"}).result()) == "z"
        assert text_of(Newer(url).call("Held_Quick", {"text": "z"}).result()) == "z"
        mcp.answer(asking, accepted(value="ada"))
        assert text_of(question.result()) == "ada"
        assert responded(server, claim) == 200
        assert by_worker.result().json["value"] == "by a worker"
        second = start(server.ask, "POST", "/tools/call", {"tool_id": "Away.Do", "input": {}})
        (claim,) = waiting.result()
        assert responded(server, claim) == 200
        assert second.result().json["value"] == "by a worker"
        assert not poll.done()
        for name in ("a", "b"):  # the first may have been told of before
            offered(server, f"More.{name.upper()}", name)
            assert changes.next()["method"] == "notifications/tools/list_changed"
        server.let_end("keyed")
        server.let_end("stream")
        assert text_of(stream.result()) == "stream"
        said: Reply = keyed.result()
        assert (said.json["value"], said.headers["connection"]) == ("keyed", "close")
        assert poll.result().json["state"] == "COMPLETE"

        cut: Future[Reply] = start(server.call, "Wait", "cut", name="cut")
        until(lambda: server.has_begun("cut"))
        server.tell()
        assert server.wait() == 0
        assert changes.rest() == []
        cut.exception()  # it was told something, or nothing: what it began is the next one's

    server.let_end("cut")
    server.start()
    assert server.call("Wait", "keyed", name="keyed").json["value"] == "keyed"
    assert server.has_begun("keyed") == 1, "it was known"
    assert server.ask("GET", "/v1/calls/cut?wait=20").json["attempt"] == 2
    assert text_of(mcp.call("Held_Quick", {"text": "z"}).result()) == "z", "the session goes on"


CALL = {"tool_id": "Held.Quick", "input": {"text": "x"}}


def test_then_calls_are_refused_in_the_words_of_each_wire_until_what_runs_has_ended(node: Nodes, store: str) -> None:
    server = node(store=store, drain_s="0", grace_s=FOR_EVER)
    url = f"{server.root}/mcp"
    mcp, newer = Older(url, "2025-11-25").initialize(), Newer(url)
    opened = server.ask("POST", "/v1/sessions", {"tools": []}).json["sessionId"]
    offered(server)
    with meanwhile() as start:
        first = start(server.call, "Wait", "first", name="first")
        unkeyed = start(server.call, "Wait", name="unkeyed")
        stream = mcp.call("Held_Wait", {"name": "stream"}, meta={"progressToken": "t"})
        assert stream.next()["params"]["progress"] == 1
        until(lambda: server.has_begun("first") and server.has_begun("unkeyed"))
        server.tell()
        until(lambda: server.ask("GET", "/v1/tools/requests?wait=0.01").status == 429)

        use = {"type": "tool_use", "id": "a", "name": "Held_Quick", "input": {"text": "x"}}
        for refused in (
            server.ask("POST", "/tools/call", CALL),
            server.ask("POST", "/otc/tools/call", {"request": CALL}),
            server.ask("POST", "/otc/draft/call", {"request": CALL}),
            server.ask("POST", f"/v1/sessions/{opened}/messages", {"role": "assistant", "content": [use]}),
            server.ask("POST", "/v1/tools/claim", {"tools": ["Away.*"], "wait": 60}, WORKER),
            server.ask("GET", "/v1/calls/first?wait=60"),
        ):
            assert refused.status in (400, 429), refused
            assert refused.headers["retry-after"] == "1", refused
            assert refused.headers["retry-after-ms"] == "1000", refused
            assert refused.headers["connection"] == "close", refused
        for path, body in (("/tools/call", CALL), ("/otc/tools/call", {"request": CALL})):  # these have a member, too
            assert server.ask("POST", path, body).json["retry_after_ms"] == 1000
        for client in (mcp, newer):
            result = client.call("Held_Quick", {"text": "x"}).result()
            assert result["isError"], result
            assert result["_meta"]["toolyard/error"]["retry_after_ms"] == 1000, result
        changes = mcp.get()
        assert (changes.status, changes.header("retry-after")) == (503, "1")
        listening = newer.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        assert "stopping" in listening.error()["message"]
        # What only looks, and what ends calls, is still answered.
        assert server.ask("GET", "/tools").status == 200
        assert server.ask("GET", "/v1/calls/first").json["state"] == "PROCESSING"

        for name in ("first", "unkeyed", "stream"):
            server.let_end(name)
        assert first.result().json["value"] == "first"
        assert unkeyed.result().json["value"] == "unkeyed"
        assert text_of(stream.result()) == "stream"
        assert server.wait() == 0
    server.start()
    assert server.call("Wait", "first", name="first").json["value"] == "first"
    assert server.has_begun("first") == 1
