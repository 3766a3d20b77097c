"""Hostile outputs, through every wire: what models read has nothing hidden in it, what programs read is untouched."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest

from toolyard.model.caller import LOCAL
from toolyard.server.app.compose import telling_of
from toolyard.server.settings.table import exactly
from toolyard.text.hidden import escaped, kinds_of

from .hostile import ALL, HARMLESS, HOSTILE, RAW, REVISIONS, Asker, asking, messages, value_bytes
from .scene import NEWER

OLDER = "2025-11-25"
FAMILY = {"/tools/call": "", "/oxp/tools/call": "", "/otc/tools/call": "request", "/otc/draft/call": "request"}


def run(scene: Callable[[Asker], Awaitable[None]], **settings: Any) -> None:
    async def play() -> None:
        async with asking(**settings) as asker:
            await scene(asker)

    asyncio.run(play())


def run_each(scene: Callable[[Asker, str], Awaitable[None]], names: Iterable[str], **settings: Any) -> None:
    """On one server, for each of these texts."""

    async def every(asker: Asker) -> None:
        for name in names:
            try:
                await scene(asker, name)
            except BaseException as error:
                error.add_note(f"where the text is {name!r}")
                raise

    run(every, **settings)


def texts_of(result: Any) -> list[str]:
    """Everything in a result that a model reads."""
    found = []
    for block in result["content"]:
        found += [block[name] for name in ("text", "name") if name in block]
        found += [block["resource"]["text"]] if "resource" in block else []
    return found


def is_clean(text: str) -> bool:
    text = text.replace("\U0001f469\u200d\U0001f4bb", "")  # the joiner of an emoji is seen
    return not set(text) & RAW - {"\r"} and "\r" not in text.replace("\r\n", "")


@pytest.mark.parametrize("path", FAMILY)
def test_a_value_is_untouched_byte_for_byte(path: str) -> None:
    async def scene(asker: Asker, name: str) -> None:
        call = {"tool_id": "Bad.Say", "input": {"name": name}}
        reply = await asker.send("POST", path, {"request": call} if FAMILY[path] else call)
        assert b'"value":%b' % value_bytes(ALL[name]) in reply.body

    run_each(scene, ALL)


@pytest.mark.parametrize("path", FAMILY)
def test_an_error_of_the_family_is_clean(path: str) -> None:
    async def scene(asker: Asker, name: str) -> None:
        call = {"tool_id": "Bad.Fail", "input": {"name": name}, "call_id": name}
        for _ in range(2):
            body = (await asker.send("POST", path, {"request": call} if FAMILY[path] else call)).json
            result = body.get("result", body)
            error = result["error"] if "error" in result else result["output"]["error"]
            assert error["message"] == escaped(ALL[name])
            assert error["additional_prompt_content"] == f"more: {escaped(ALL[name])}"
            assert error["developer_message"] == ALL[name]  # no model reads it
            assert is_clean(error["message"] + error["additional_prompt_content"])

    run_each(scene, ALL)


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("is_keyed", [False, True], ids=["fast", "keyed"])
def test_text_over_mcp_is_clean_and_structured_content_untouched(revision: str, is_keyed: bool) -> None:
    async def scene(asker: Asker, name: str) -> None:
        meta = {"toolyard/callId": name} if is_keyed else {}
        for _ in range(2 if is_keyed else 1):
            reply = await asker.tool(revision, "Say", meta, name=name)
            result = reply.json["result"]
            assert [block["text"] for block in result["content"]] == [escaped(ALL[name])]
            assert is_clean(texts_of(result)[0])
            assert ("toolyard/escaped" in result.get("_meta", {})) == (name in HOSTILE)
            structured = {
                "2025-03-26": b"",
                NEWER: b'"structuredContent":%b' % value_bytes(ALL[name]),
            }.get(revision, b'"structuredContent":{"result":%b}' % value_bytes(ALL[name]))
            assert structured in reply.body

    run_each(scene, ALL)


def test_json_as_text_is_clean_and_still_says_the_same() -> None:
    async def scene(asker: Asker, name: str) -> None:
        for revision in REVISIONS:
            reply = await asker.tool(revision, "Tell", name=name)
            (text,) = texts_of(reply.json["result"])
            assert is_clean(text)
            assert json.loads(text) == {"said": ALL[name]}
            if revision != "2025-03-26":
                assert b'"structuredContent":%b' % value_bytes({"said": ALL[name]}) in reply.body

    run_each(scene, ALL)


@pytest.mark.parametrize("revision", REVISIONS)
def test_blocks_and_what_they_embed_are_clean(revision: str) -> None:
    async def scene(asker: Asker, name: str) -> None:
        result = (await asker.tool(revision, "Show", name=name)).json["result"]
        texts = texts_of(result)
        assert texts[:2] == [escaped(ALL[name])] * 2
        assert texts[2].startswith(escaped(ALL[name]))
        uri = result["content"][1]["resource"]["uri"]
        read = (await asker.mcp(revision, "resources/read", {"uri": uri})).json["result"]
        assert read["contents"][0]["text"] == escaped(ALL[name])

    run_each(scene, ALL)


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_failure_over_mcp_is_clean(revision: str) -> None:
    async def scene(asker: Asker, name: str) -> None:
        result = (await asker.tool(revision, "Fail", name=name)).json["result"]
        assert result["isError"] is True
        assert texts_of(result) == [f"{escaped(ALL[name])}\nmore: {escaped(ALL[name])}"]

    run_each(scene, ALL)


@pytest.mark.parametrize("tool", ["Say", "Fail"])
def test_a_task_is_clean_however_it_is_asked_for(tool: str) -> None:
    async def scene(asker: Asker, name: str) -> None:
        params = {"name": f"Bad_{tool}", "arguments": {"name": name}, "task": {"ttl": 60000}}
        id = (await asker.mcp(OLDER, "tools/call", params)).json["result"]["task"]["taskId"]
        older = (await asker.mcp(OLDER, "tasks/result", {"taskId": id})).json["result"]
        shown = (await asker.mcp(OLDER, "tasks/get", {"taskId": id})).json["result"]
        newer = (await asker.mcp(NEWER, "tasks/get", {"taskId": id})).json["result"]
        tasks = (await asker.mcp(OLDER, "tasks/list", {})).json["result"]["tasks"]
        (listed,) = (task for task in tasks if task["taskId"] == id)
        assert texts_of(older) == texts_of(newer["result"])
        assert older["_meta"]["toolyard/escaped"] is True
        said = [*texts_of(older), *(each.get("statusMessage", "") for each in (shown, newer, listed))]
        assert is_clean("".join(said))
        if tool == "Say":
            assert older["structuredContent"] == {"result": HOSTILE[name]}
            assert newer["result"]["structuredContent"] == HOSTILE[name]
        else:
            assert shown["statusMessage"] == escaped(HOSTILE[name])

    run_each(scene, HOSTILE)


def test_progress_and_logs_are_clean() -> None:
    async def scene(asker: Asker, name: str) -> None:
        meta = {"progressToken": 1, "io.modelcontextprotocol/logLevel": "debug"}
        reply = await asker.tool(NEWER, "Report", meta, name=name)
        progress, log, _ = messages(reply)
        assert progress["params"]["message"] == escaped(ALL[name])
        assert log["params"]["data"] == {"message": escaped(ALL[name]), "field": escaped(ALL[name])}
        assert ("_meta" in progress["params"]) == ("_meta" in log["params"]) == (name in HOSTILE)

    run_each(scene, ALL)


def test_the_results_of_a_session_are_clean() -> None:
    async def scene(asker: Asker, name: str) -> None:
        text, noted = escaped(ALL[name]), {"t-1": {"escaped": True}} if name in HOSTILE else None
        said = await asker.use("Say", name=name)
        assert said["message"]["content"][0]["content"] == text
        assert said.get("notes") == noted
        failed = await asker.use("Fail", "openai", name=name)
        assert failed["messages"][0]["content"] == f"{text}\nmore: {text}"
        assert failed.get("notes") == noted

    run_each(scene, ALL)


def test_the_lifecycle_api_keeps_the_value_and_cleans_the_error() -> None:
    async def scene(asker: Asker, name: str) -> None:
        said, failed = f"said {name}", f"failed {name}"
        await asker.call("Say", said, name=name)
        await asker.call("Fail", failed, name=name)
        assert b'"value":%b' % value_bytes(ALL[name]) in (await asker.send("GET", f"/v1/calls/{said}")).body
        assert (await asker.send("GET", f"/v1/calls/{said}/content")).body == ALL[name].encode()
        for shown in (
            (await asker.send("GET", f"/v1/calls/{failed}")).json,
            (await asker.send("GET", "/v1/calls?state=ERROR")).json["calls"][0],
        ):
            assert shown["error"]["message"] == escaped(ALL[name])
        row = await asker.yard.store.get(LOCAL.tenant, LOCAL.subject, failed)
        assert row is not None
        assert value_bytes(ALL[name]) in (row.error or b"")  # the ledger has what was said

    run_each(scene, ALL)


def test_flagged_text_is_untouched_and_said_to_have_something_hidden() -> None:
    async def scene(asker: Asker, name: str) -> None:
        kinds = kinds_of(HOSTILE[name])
        for revision in REVISIONS:
            result = (await asker.tool(revision, "Say", name=name)).json["result"]
            assert texts_of(result) == [HOSTILE[name]]
            assert result["_meta"]["toolyard/hidden"] == kinds
            assert "toolyard/escaped" not in result["_meta"]
        said = await asker.use("Say", name=name)
        assert said["message"]["content"][0]["content"] == HOSTILE[name]
        assert said["notes"] == {"t-1": {"hidden": kinds}}

    run_each(scene, HOSTILE, safe_text="flag")


def test_where_it_is_off_nothing_is_done() -> None:
    async def scene(asker: Asker, name: str) -> None:
        result = (await asker.tool(OLDER, "Say", name=name)).json["result"]
        assert texts_of(result) == [ALL[name]]
        assert "_meta" not in result
        assert (await asker.call("Fail", name=name)).json["error"]["message"] == ALL[name]

    run_each(scene, ALL, safe_text="off")


@pytest.mark.parametrize("safe_text", ["escape", "off"])
def test_half_a_character_fails_the_call_and_not_the_server(safe_text: str) -> None:
    async def scene(asker: Asker) -> None:
        for error in (False, True):
            body = (await asker.call("BreakOff", error=error)).json
            assert body["success"] is False
            for revision in REVISIONS:
                result = (await asker.tool(revision, "BreakOff", error=error)).json["result"]
                assert result["isError"] is True
        assert body["error"]["message"] == "half ?"

    run(scene, safe_text=safe_text)


def test_it_is_on_wherever_the_server_listens() -> None:
    for host in ("127.0.0.1", "localhost", "::1", "0.0.0.0"):
        assert telling_of(exactly(host=host)).safe_text == "escape"
        assert telling_of(exactly(host=host, safe_text="flag")).safe_text == "flag"


def test_the_corpus_is_hostile() -> None:
    assert all(not is_clean(text) for text in HOSTILE.values())
    assert all(is_clean(text) for text in HARMLESS.values())
