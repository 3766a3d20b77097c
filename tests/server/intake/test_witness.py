"""Every call, refusal and change is in the audit log, and no secret is."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from toolyard.server.app.compose import Yard
from toolyard.store.values import StoreDown

from ..scene import Answer, Scene, kit, settings

SECRET = "hunter2-the-canary"


def run(scene: Callable[[Scene], Awaitable[None]], **more: Any) -> None:
    async def play() -> None:
        async with Scene(Yard([kit], settings(audit="strict", **more))) as made:
            await scene(made)

    asyncio.run(play())


async def written(made: Scene) -> list[dict[str, Any]]:
    """What is stored now, without waiting for anything."""
    blocks = await made.yard.store.audit.blocks("main", 0, 1000)
    return [json.loads(line) for block in blocks for line in block.entries.splitlines()]


async def oxp(made: Scene, tool: str, role: str = "owner", **more: Any) -> Answer:
    return await made.send(role, "POST", "/tools/call", {"tool_id": tool, "input": {"text": "x"}, **more})


async def newer(made: Scene, tool: str, role: str = "owner") -> Answer:
    return await made.newer(role, "tools/call", {"name": tool, "arguments": {"text": "x"}}, tool)


CALL = {"tool_id": "Safe.Keep", "input": {"text": "x"}}
WAYS: dict[str, Callable[[Scene], Awaitable[Answer]]] = {
    "oxp": lambda made: oxp(made, "Safe.Keep"),
    "otc": lambda made: made.send("owner", "POST", "/otc/tools/call", {"$schema": "otc://1.0", "request": CALL}),
    "mcp": lambda made: newer(made, "Safe_Keep"),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_a_call_is_in_the_log_before_it_is_answered(way: str) -> None:
    async def scene(made: Scene) -> None:
        assert (await WAYS[way](made)).status == 200
        (entry,) = [each for each in await written(made) if each["kind"] == "call"]
        assert (entry["tenant"], entry["sub"], entry["how"]) == ("acme", "ada", "token")
        assert (entry["tool"], entry["code"], entry["from"]) == ("Safe.Keep@0.1.0", "success", "127.0.0.1")
        assert entry["rule"] == "there are no rules"
        assert len(entry["fp"]) == 64
        assert "input" not in entry

    run(scene)


def test_the_input_itself_is_there_by_setting() -> None:
    async def scene(made: Scene) -> None:
        await oxp(made, "Safe.Keep")
        assert [each["input"] for each in await written(made) if each["kind"] == "call"] == [{"text": "x"}]

    run(scene, audit_input=True)


def test_what_was_refused_is_there_with_the_rule() -> None:
    async def scene(made: Scene) -> None:
        await oxp(made, "Safe.Keep", "neighbour")
        await oxp(made, "Safe.Keep", input={"text": 7})
        await newer(made, "Safe_Keep", "anonymous")
        refused = [each for each in await written(made) if each["kind"] in ("refused", "auth")]
        assert [(each.get("sub"), each["code"]) for each in refused] == [
            ("bob", "ToolNotFound"), ("ada", "InvalidInput"), (None, "NotAuthenticated"),
        ]  # fmt: skip
        assert refused[1]["rule"] == "only ada"

    run(scene, access=[{"who": {"subject": "ada"}, "name": "only ada"}])


def test_a_models_tool_uses_and_an_operators_changes_are_there() -> None:
    async def scene(made: Scene) -> None:
        session = (await made.send("owner", "POST", "/v1/sessions", {})).json["sessionId"]
        use = {"type": "tool_use", "id": "t-1", "name": "Safe_Keep", "input": {"text": "x"}}
        await made.send("owner", "POST", f"/v1/sessions/{session}/messages", {"role": "assistant", "content": [use]})
        made.credentials["operator"] = {b"authorization": f"Bearer {made.yard.operators_token.text}".encode()}
        assert (await made.send("operator", "POST", "/v1/admin/keys", {"name": "new"})).status == 200
        found = [(each["kind"], each.get("tool")) for each in await written(made)]
        assert ("call", "Safe.Keep@0.1.0") in found
        assert ("admin", "POST /v1/admin/keys") in found

    run(scene)


def test_what_is_not_there_over_mcp_is_written_down_before_that_is_said() -> None:
    async def scene(made: Scene) -> None:
        await newer(made, "Nope")
        assert [(each["kind"], each["tool"]) for each in await written(made) if "wire" in each] == [("refused", "Nope")]

    run(scene)


def test_a_task_is_accepted_and_may_be_cancelled() -> None:
    async def scene(made: Scene) -> None:
        session = await made.opened("owner")
        about = {"name": "Safe_Ask", "arguments": {"text": "x"}, "task": {}}
        task = (await made.older("owner", "tools/call", about, session)).json["result"]["task"]["taskId"]
        await made.older("owner", "tasks/cancel", {"taskId": task}, session)
        seen = [
            (each["kind"], each.get("code"), each.get("call") or each["tool"]) for each in (await written(made))[1:]
        ]
        assert seen == [("call", "accepted", task), ("cancel", None, f"tasks/cancel {task}")]

    run(scene)


def test_what_workers_do_is_there() -> None:
    async def scene(made: Scene) -> None:
        at = "/v1/workers/one"
        tool = {"id": "Sms.Send", "version": "1.0.0", "description": "Sends.", "input_schema": {"type": "object"}}
        assert (await made.send("owner", "PUT", at, {"tools": [tool]})).status == 200
        session = (await made.send("owner", "POST", "/v1/sessions", {})).json["sessionId"]
        use = {"type": "tool_use", "id": "t-1", "name": "Sms_Send", "input": {}}
        await made.send("owner", "POST", f"/v1/sessions/{session}/messages", {"role": "assistant", "content": [use]})
        as_one = {b"toolyard-worker": b"one"}
        claimed = (await made.send("owner", "POST", "/v1/tools/claim", {"limit": 1}, as_one)).json["claims"][0]
        answer, attempt = f"/v1/tools/response/{session}/{claimed['requestId']}", str(claimed["attempt"]).encode()
        sent = {"response": {"state": "COMPLETE", "content": "done"}}
        await made.send("owner", "POST", answer, sent, {**as_one, b"toolyard-attempt": attempt})
        await made.send("owner", "DELETE", at, None, as_one)
        seen = [(each["kind"], each["tool"]) for each in (await written(made))[1:]]
        assert seen == [
            ("worker", "one offers Sms.Send"), ("call", "Sms.Send@1.0.0"), ("claim", "Sms.Send@1.0.0"),
            ("answer", f"POST {answer}"), ("worker", f"DELETE {at}"),
        ]  # fmt: skip

    run(scene)


def test_a_cancel_and_who_is_no_operator_are_there() -> None:
    async def scene(made: Scene) -> None:
        await oxp(made, "Safe.Keep", call_id="c-1")
        await made.send("owner", "POST", "/v1/calls/c-1/cancel")
        assert (await made.send("owner", "GET", "/v1/admin/keys")).status == 401
        seen = [(each["kind"], each.get("sub"), each["tool"]) for each in (await written(made))[-2:]]
        assert seen == [("cancel", "ada", "POST /v1/calls/c-1/cancel"), ("auth", None, "/v1/admin/keys")]

    run(scene)


def test_no_secret_is_in_it() -> None:
    async def scene(made: Scene) -> None:
        context = {"secrets": [{"id": "A", "value": SECRET}], "authorization": [{"id": "google", "token": SECRET}]}
        for role in made.credentials:
            await oxp(made, "Safe.Keep", role, context=context)
            await oxp(made, "Safe.Miss", role, context=context)
        blocks = await made.yard.store.audit.blocks("main", 0, 1000)
        everything = b"".join(block.entries for block in blocks)
        credentials = [each[b"authorization"][7:] for each in made.credentials.values() if each]
        secrets = [SECRET.encode(), *credentials]
        assert not [secret for secret in secrets if secret in everything]

    run(scene)


def test_a_strict_server_without_its_log_answers_nothing() -> None:
    async def scene(made: Scene) -> None:
        async def down(*_: object) -> bool:
            raise StoreDown("down", retry_after_ms=1)

        made.yard.store.audit.add = down  # type: ignore[method-assign, assignment]
        asked_again = await oxp(made, "Safe.Keep", call_id="strict")
        assert asked_again.status == 400
        assert asked_again.json["retry_after_ms"] > 0
        told = (await oxp(made, "Safe.Keep")).json
        assert (told["success"], told["error"]["can_retry"], "value" in told) == (False, False, False)
        assert (await oxp(made, "Safe.Miss")).status == 400
        del made.yard.store.audit.add

    run(scene)
