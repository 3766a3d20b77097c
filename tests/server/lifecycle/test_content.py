"""Results that are too long for a model: the first part, and a handle for all of it that is good once it is told."""

import json
from typing import Any

import pytest

from toolyard.model.caller import LOCAL
from toolyard.store.values import MOST_BYTES as AT_ONCE
from toolyard.store.values import Filter, StoreDown
from toolyard.wires.model_text import MOST_BYTES

from ..hostile import LONG, REVISIONS, Asker, value_bytes
from ..scene import NEWER
from ..test_hostile import OLDER, run, texts_of

URI = "toolyard://calls/{}/content"
SHORT_LIMIT = 1024
SETTINGS: dict[str, Any] = {"max_output_bytes": SHORT_LIMIT}


def link_of(result: Any) -> Any:
    return next((block for block in result["content"] if block["type"] == "resource_link"), None)


@pytest.mark.parametrize("record", ["all", "keyed"])
@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("meta", [{}, {"toolyard/callId": "k"}], ids=["fast", "keyed"])
def test_a_long_result_is_a_preview_and_a_link_that_is_good_at_once(
    revision: str, meta: dict[str, Any], record: str
) -> None:
    async def scene(asker: Asker) -> None:
        reply = await asker.tool(revision, "Say", meta, name="long")
        result = reply.json["result"]
        text, told = texts_of(result)[0], result["_meta"]["toolyard/preview"]
        assert text.startswith(LONG[:MOST_BYTES] + "\n\n[")
        assert f"first {MOST_BYTES} of {len(LONG)} bytes" in text
        assert told["uri"] in text
        assert (told["bytes"], told["shown"]) == (len(LONG), MOST_BYTES)
        if revision == "2025-03-26":
            assert told["uri"] in texts_of(result)[1]
            assert len(reply.body) < 2 * MOST_BYTES
        else:
            link = link_of(result)
            assert (link["uri"], link["mimeType"], link["size"]) == (told["uri"], "text/plain", len(LONG))
            assert value_bytes(LONG) in reply.body  # structured content is whole
        read = (await asker.mcp(revision, "resources/read", {"uri": told["uri"]})).json["result"]
        assert read["contents"] == [{"uri": told["uri"], "mimeType": "text/plain", "text": LONG}]
        id = told["uri"].removeprefix("toolyard://calls/").removesuffix("/content")
        assert (await asker.send("GET", f"/v1/calls/{id}/content")).body == LONG.encode()
        calls = (await asker.send("GET", "/v1/calls")).json["calls"]
        assert [call["callId"] for call in calls] == [id]  # and it is there once

    run(scene, record=record)


def test_what_is_told_of_is_in_the_ledger_before_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else is still to be written behind."""
    monkeypatch.setattr("toolyard.store.write_behind.FLUSH_S", 3600.0)

    async def scene(asker: Asker) -> None:
        store = asker.yard.store
        await asker.tool(OLDER, "Say", name="page")
        result = (await asker.tool(OLDER, "Say", name="long")).json["result"]
        id = result["_meta"]["toolyard/preview"]["uri"].split("/")[3]
        assert await store.get(LOCAL.tenant, LOCAL.subject, id) is not None
        assert len(await store.listed(Filter(None))) == 2

    run(scene)


def test_what_cannot_be_kept_has_no_handle(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(asker: Asker) -> None:
        async def down(*_: object) -> None:
            raise StoreDown("The server cannot record calls now", retry_after_ms=1000, developer_message="gone")

        monkeypatch.setattr(asker.yard.store, "record", down)
        monkeypatch.setattr(asker.yard.store.behind, "_write", down)
        result = (await asker.tool(OLDER, "Say", name="long")).json["result"]
        assert link_of(result) is None
        assert "uri" not in result["_meta"]["toolyard/preview"]
        assert texts_of(result)[0].endswith("The rest was not kept.]")
        assert result["structuredContent"] == {"result": LONG}
        monkeypatch.undo()

    run(scene)


@pytest.mark.parametrize("revision", [OLDER, NEWER])
def test_a_long_task_is_a_preview_too(revision: str) -> None:
    async def scene(asker: Asker) -> None:
        params = {"name": "Bad_Say", "arguments": {"name": "long"}, "task": {"ttl": 60000}}
        id = (await asker.mcp(OLDER, "tools/call", params)).json["result"]["task"]["taskId"]
        result = (await asker.mcp(OLDER, "tasks/result", {"taskId": id})).json["result"]
        if revision == NEWER:
            result = (await asker.mcp(NEWER, "tasks/get", {"taskId": id})).json["result"]["result"]
        assert link_of(result)["uri"] == URI.format(id)
        assert len(texts_of(result)[0]) < MOST_BYTES + 200
        read = await asker.mcp(revision, "resources/read", {"uri": URI.format(id)})
        assert read.json["result"]["contents"][0]["text"] == LONG

    run(scene)


@pytest.mark.parametrize("format", ["anthropic", "openai"])
def test_a_long_result_of_a_session_says_where_all_of_it_is(format: str) -> None:
    async def scene(asker: Asker) -> None:
        said = await asker.use("Say", format, name="long")
        content = (said["message"]["content"] if format == "anthropic" else said["messages"])[0]["content"]
        preview = said["notes"]["t-1"]["preview"]
        assert content.startswith(LONG[:MOST_BYTES] + "\n\n[")
        assert preview["content"] in content
        assert (preview["bytes"], preview["shown"]) == (len(LONG), MOST_BYTES)
        assert (await asker.send("GET", preview["content"])).body == LONG.encode()
        again = await asker.use("Say", format, name="page")  # another tool use of the same id
        other = await asker.send("GET", f"/v1/calls/t-1/content?session={again['session']}")
        assert other.body == b"<script>alert(1)</script><img src=x onerror=alert(1)>"
        assert (await asker.send("GET", preview["content"])).body == LONG.encode()

    run(scene)


def test_what_was_submitted_for_a_session_reaches_the_model_whole() -> None:
    """The platform passes it on as it is; only what tools of the server return is shown in part."""

    async def scene(asker: Asker) -> None:
        tool = {"name": "find", "description": "Finds", "input_schema": {"type": "object"}}
        session = (await asker.send("POST", "/v1/sessions", {"tools": [tool]})).json["sessionId"]
        use = {"type": "tool_use", "id": "t-1", "name": "find", "input": {}}
        message = {"role": "assistant", "content": [use]}
        assert (await asker.send("POST", f"/v1/sessions/{session}/messages", message)).status == 200
        result = {"rows": ["x" * 300] * 1000}
        answered = await asker.send(
            "POST", f"/v1/tools/response/{session}/t-1", {"response": {"state": "COMPLETE", **result}}
        )
        assert answered.status == 200, answered.body
        reply = (await asker.send("GET", f"/v1/sessions/{session}/results")).json
        assert json.loads(reply["message"]["content"][0]["content"]) == result
        assert "notes" not in reply

    run(scene)


@pytest.mark.parametrize("revision", REVISIONS)
def test_text_that_is_long_once_it_is_spelled_out_is_cut_and_kept(revision: str) -> None:
    async def scene(asker: Asker) -> None:
        result = (await asker.tool(revision, "Repeat", text="\u202e\x7f\x1b", times=100)).json["result"]
        preview = result["_meta"]["toolyard/preview"]
        text = texts_of(result)[0].partition("\n\n[")[0]
        assert len(text) <= SHORT_LIMIT
        assert set(text) <= set("\\u{}0123456789ABCDEF")
        assert preview["shown"] < preview["bytes"] == 500
        read = (await asker.mcp(revision, "resources/read", {"uri": preview["uri"]})).json["result"]
        assert read["contents"][0]["text"] == "\\u{202E}\\u{7F}\\u{1B}" * 100
        assert read["_meta"]["toolyard/escaped"] is True

    run(scene, **SETTINGS)


def test_a_part_ends_with_a_whole_character() -> None:
    async def scene(asker: Asker) -> None:
        result = (await asker.tool(OLDER, "Repeat", text="日本語", times=1000)).json["result"]
        preview = result["_meta"]["toolyard/preview"]
        assert preview == {"bytes": 9000, "shown": 1023, "uri": preview["uri"], "wrapped": True}
        assert texts_of(result)[0].startswith("日本語" * 113 + "日本\n\n[")

    run(scene, **SETTINGS)


def test_the_text_of_all_blocks_together_has_a_limit_and_pictures_stay() -> None:
    async def scene(asker: Asker) -> None:
        result = (await asker.tool(OLDER, "Gallery")).json["result"]
        assert [block["type"] for block in result["content"]] == ["text", "image", "text", "text", "resource_link"]
        assert [len(block["text"]) for block in result["content"][:3:2]] == [600, SHORT_LIMIT - 600]
        assert "first 1024 of 1800 bytes" in result["content"][3]["text"]
        read = await asker.mcp(OLDER, "resources/read", {"uri": link_of(result)["uri"]})
        assert read.json["result"]["contents"][0]["mimeType"] == "application/json"

    run(scene, **SETTINGS)


def test_a_long_error_is_cut_on_every_wire() -> None:
    async def scene(asker: Asker) -> None:
        message = (await asker.call("Complain", size=5000)).json["error"]["message"]
        assert message == "x" * SHORT_LIMIT + f"\n\n[These are the first {SHORT_LIMIT} of 5000 bytes.]"
        for revision in REVISIONS:
            assert texts_of((await asker.tool(revision, "Complain", size=5000)).json["result"]) == [message]
        assert (await asker.use("Complain", size=5000))["message"]["content"][0]["content"] == message

    run(scene, **SETTINGS)


def test_an_error_that_is_longer_than_a_result_may_be_says_so_instead() -> None:
    async def scene(asker: Asker) -> None:
        assert (await asker.call("Complain", size=2048)).json["error"]["message"].startswith("xxx")
        said = (await asker.call("Complain", size=2049)).json["error"]["message"]
        assert said == "Bad.Complain returned 2049 bytes, and at most 2048 can be returned; ask for less of it"

    run(scene, max_result_bytes=2048)


def test_a_result_that_is_too_large_is_a_failure_that_says_so() -> None:
    async def scene(asker: Asker) -> None:
        assert (await asker.call("Repeat", text="x", times=2046)).json["value"] == "x" * 2046
        body = (await asker.call("Repeat", text="x", times=2047)).json
        assert body["error"] == {
            "message": "Bad.Repeat returned 2049 bytes, and at most 2048 can be returned; ask for less of it",
            "developer_message": "max_result_bytes is the limit",
            "can_retry": False,
        }

    run(scene, max_result_bytes=2048)


@pytest.mark.parametrize(
    ("asked", "status", "part", "content_range"),
    [
        ("bytes=0-3", 206, "0123", "bytes 0-3/10"),
        ("bytes=8-", 206, "89", "bytes 8-9/10"),
        ("bytes=-3", 206, "789", "bytes 7-9/10"),
        ("bytes=5-99", 206, "56789", "bytes 5-9/10"),
        ("bytes=5-99999999999999999999", 206, "56789", "bytes 5-9/10"),
        ("bytes=-99999999999999999999", 206, "0123456789", "bytes 0-9/10"),
        (f"bytes=0-{'9' * 5000}", 206, "0123456789", "bytes 0-9/10"),
        (f"bytes={'0' * 5000}-3", 206, "0123", "bytes 0-3/10"),
        (f"bytes={'9' * 5000}-", 416, None, "bytes */10"),
        ("bytes=-99", 206, "0123456789", "bytes 0-9/10"),
        ("Bytes=0-0", 206, "0", "bytes 0-0/10"),
        ("bytes=10-", 416, None, "bytes */10"),
        ("bytes=-0", 416, None, "bytes */10"),
        ("bytes=3-1", 200, "0123456789", None),
        ("bytes=0-1,3-4", 200, "0123456789", None),
        ("bytes=-", 200, "0123456789", None),
        ("lines=1-2", 200, "0123456789", None),
        ("bytes=x", 200, "0123456789", None),
    ],
)
def test_a_part_of_the_content(asked: str, status: int, part: str | None, content_range: str | None) -> None:
    async def scene(asker: Asker) -> None:
        await asker.call("Repeat", "k", text="0123456789", times=1)
        reply = await asker.send("GET", "/v1/calls/k/content", headers={b"range": asked.encode()})
        assert reply.status == status
        assert part is None or reply.body == part.encode()
        assert dict(reply.headers).get(b"content-range") == (content_range.encode() if content_range else None)

    run(scene)


def test_a_part_of_what_has_changed_is_all_of_it_and_head_has_no_parts() -> None:
    async def scene(asker: Asker) -> None:
        await asker.call("Repeat", "k", text="0123456789", times=1)
        whole = await asker.send("GET", "/v1/calls/k/content")
        tag = dict(whole.headers)[b"etag"]
        for name, status in ((tag, 206), (b'"other"', 200)):
            headers = {b"range": b"bytes=0-1", b"if-range": name}
            assert (await asker.send("GET", "/v1/calls/k/content", headers=headers)).status == status
        assert (await asker.send("HEAD", "/v1/calls/k/content", headers={b"range": b"bytes=0-1"})).status == 200

    run(scene)


def test_the_contents_tag_tells_nothing_of_how_many_calls_there_are() -> None:
    async def scene(asker: Asker) -> None:
        tags = []
        for key in ("a", "b"):
            await asker.call("Repeat", key, text="0123456789", times=1)
            tags.append(dict((await asker.send("GET", f"/v1/calls/{key}/content")).headers)[b"etag"])
        assert tags[0] == tags[1]

    run(scene)


def test_the_kind_of_the_content() -> None:
    async def scene(asker: Asker) -> None:
        await asker.call("Repeat", "text", text="<b>", times=1)
        await asker.call("Tell", "object", name="page")
        text = await asker.send("GET", "/v1/calls/text/content")
        assert dict(text.headers)[b"content-type"] == b"text/plain; charset=utf-8"
        assert dict(text.headers)[b"content-disposition"].startswith(b"attachment")
        value = await asker.send("GET", "/v1/calls/object/content")
        assert dict(value.headers)[b"content-type"] == b"application/json"
        assert value.body == (await asker.send("GET", "/v1/calls/object")).body.partition(b'"value":')[2][:-1]

    run(scene)


def test_what_has_no_content_says_why() -> None:
    async def scene(asker: Asker) -> None:
        await asker.call("Fail", "failed", name="page")
        assert (await asker.send("GET", "/v1/calls/failed/content")).json == {
            "message": "The call failed, so it has no content"
        }
        none = await asker.send("GET", "/v1/calls/none/content")
        assert (none.status, none.json) == (404, {"message": "There is no such call"})
        tool = {"name": "find", "description": "Finds.", "input_schema": {"type": "object"}}
        session = (await asker.send("POST", "/v1/sessions", {"tools": [tool]})).json["sessionId"]
        use = {"type": "tool_use", "id": "t-1", "name": "find", "input": {}}
        await asker.send("POST", f"/v1/sessions/{session}/messages", {"role": "assistant", "content": [use]})
        waiting = await asker.send("GET", f"/v1/calls/t-1/content?session={session}")
        assert (waiting.status, waiting.json["reason"]) == (409, "waiting")
        read = await asker.mcp(OLDER, "resources/read", {"uri": URI.format("failed")})
        assert read.json["error"]["code"] == -32002

    run(scene)


def test_of_two_calls_with_one_id_mcp_reads_its_own() -> None:
    async def scene(asker: Asker) -> None:
        meta = {"toolyard/callId": "same"}
        result = (await asker.tool(OLDER, "Repeat", meta, text="mcp", times=1000)).json["result"]
        await asker.call("Repeat", "same", text="oxp", times=1000)
        read = await asker.mcp(OLDER, "resources/read", {"uri": link_of(result)["uri"]})
        assert read.json["result"]["contents"][0]["text"] == "mcp" * 1000

    run(scene, **SETTINGS)


@pytest.mark.parametrize("format", ["anthropic", "openai"])
def test_results_that_are_too_much_to_be_held_at_once_are_the_same(format: str) -> None:
    async def scene(asker: Asker) -> None:
        tool = {"name": "find", "description": "Finds", "input_schema": {"type": "object"}}
        session = (await asker.send("POST", "/v1/sessions", {"tools": [tool]})).json["sessionId"]
        ids = [f"t-{number}" for number in range(7)]
        uses = [{"type": "tool_use", "id": id, "name": "find", "input": {}} for id in ids]
        await asker.send("POST", f"/v1/sessions/{session}/messages", {"role": "assistant", "content": uses})
        for id in ids:
            result = {"state": "COMPLETE", "id": id, "rows": "x" * (AT_ONCE // 6) + "\u202e"}
            answered = await asker.send("POST", f"/v1/tools/response/{session}/{id}", {"response": result})
            assert answered.status == 200, answered.body
        reply = await asker.send("GET", f"/v1/sessions/{session}/results?format={format}")
        results = reply.json["message"]["content"] if format == "anthropic" else reply.json["messages"]
        assert dict(reply.headers)[b"content-type"] == b"application/json"
        assert [json.loads(each["content"])["id"] for each in results] == ids
        assert reply.json["status"] == "ready"
        assert list(reply.json["notes"]) == ids

    run(scene, safe_text="flag")
