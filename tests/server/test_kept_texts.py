"""Whatever text of a caller's is kept with a call has a bound, on every wire."""

from typing import Any

import pytest

from toolyard.model.caller import LOCAL

from .hostile import Asker
from .test_hostile import FAMILY, OLDER, run


def called(**more: Any) -> dict[str, Any]:
    return {"tool_id": "Bad.Say", "input": {"name": "page"}, **more}


@pytest.mark.parametrize("path", FAMILY)
@pytest.mark.parametrize(
    ("member", "longest", "given"),
    [
        ("trace_id", 256, lambda text: {"trace_id": text}),
        ("user_id", 512, lambda text: {"context": {"user_id": text}}),
    ],
)
def test_what_names_a_trace_or_a_user_is_short(path: str, member: str, longest: int, given: Any) -> None:
    async def scene(asker: Asker) -> None:
        fits, long = (called(**given("ä" * length)) for length in (longest, longest + 1))
        reply = await asker.send("POST", path, {"request": fits} if FAMILY[path] else fits)
        assert b'"success":true' in reply.body
        reply = await asker.send("POST", path, {"request": long} if FAMILY[path] else long)
        assert reply.status == 400
        assert f"{member} must have at most {longest} characters" in reply.body.decode()

    run(scene)


@pytest.mark.parametrize("revision", [OLDER, "2026-07-28"])
def test_over_mcp_too(revision: str) -> None:
    async def scene(asker: Asker) -> None:
        said = (await asker.tool(revision, "Say", {"toolyard/userId": "u" * 513}, name="page")).json
        assert said["error"]["code"] == -32602
        await asker.tool(revision, "Say", {"traceparent": f"00-{'t' * 1000}-b-01", "toolyard/callId": "k"}, name="page")
        call = await asker.yard.store.get(LOCAL.tenant, LOCAL.subject, "k")
        assert call is not None
        assert call.trace_id is None

    run(scene)


def test_a_name_of_a_tool_that_a_model_made_up_is_short() -> None:
    async def scene(asker: Asker) -> None:
        session = (await asker.send("POST", "/v1/sessions", {})).json["sessionId"]
        for length, status in ((256, 200), (257, 422)):
            use = {"type": "tool_use", "id": f"t{length}", "name": "n" * length, "input": {}}
            call = {"id": f"c{length}", "type": "function", "function": {"name": "n" * length, "arguments": "{}"}}
            for message in ({"content": [use]}, {"content": None, "tool_calls": [call]}):
                sent = {"role": "assistant", **message}
                assert (await asker.send("POST", f"/v1/sessions/{session}/messages", sent)).status == status

    run(scene)


def test_what_a_worker_says_of_a_failure_or_of_its_progress_is_short() -> None:
    async def scene(asker: Asker) -> None:
        tool = {"name": "find", "description": "Finds", "input_schema": {"type": "object"}}
        session = (await asker.send("POST", "/v1/sessions", {"tools": [tool]})).json["sessionId"]
        use = {"type": "tool_use", "id": "t", "name": "find", "input": {}}
        message = {"role": "assistant", "content": [use]}
        assert (await asker.send("POST", f"/v1/sessions/{session}/messages", message)).status == 200
        at, long = f"/v1/tools/request/{session}/t", "x" * (64 * 2**10 + 1)
        for error in (long, {"message": long}, {"message": "m", "additional_prompt_content": long}):
            failed = await asker.send("POST", f"{at}/heartbeat", {"state": "ERROR", "error": error})
            assert failed.status == 422
            assert b"Must have at most 65536 characters" in failed.body
        beat = {"sessionId": session, "requestId": "t", "attempt": 1, "progress": {"message": long}}
        assert (await asker.send("POST", "/v1/tools/heartbeats", {"heartbeats": [beat]})).status == 422
        kept = await asker.send("POST", f"{at}/heartbeat", {"state": "ERROR", "error": long[:-1]})
        assert kept.status == 200

    run(scene)
