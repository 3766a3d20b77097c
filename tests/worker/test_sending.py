"""What a worker sends when the server is away, slow, or of another opinion; with a server of ten lines."""

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from toolyard import Toolkit
from toolyard.client.transport import Unreachable
from toolyard.model.call import Outcome
from toolyard.model.caller import LOCAL
from toolyard.model.channel import QuietChannel
from toolyard.model.run import Run
from toolyard.model.worker import Claimed
from toolyard.wires.contract import Reply, Request
from toolyard.worker.definitions import definition_of
from toolyard.worker.heartbeat import HeartbeatLoop
from toolyard.worker.held_request import HeldRequest
from toolyard.worker.reachability import Reachability
from toolyard.worker.submission import Submission

kit = Toolkit("Kit", version="1.0.0", description="For tests.")


@kit.tool(idempotent=True, timeout=7, title="A tool")
def tool(name: str) -> str:
    """Does something."""
    return name


TOOL = kit.tools[0]
AWAY = Unreachable("No answer")
TAKEN = Reply(200, b"", [])


def refusal(status: int, **body: Any) -> Reply:
    return Reply(status, msgspec.json.encode(body), [])


class Script:
    """Answers with what stands in the script, at its end with its last reply, and keeps what it was sent."""

    def __init__(self, *replies: Reply | Exception) -> None:
        self._replies = list(replies)
        self.sent: list[Request] = []

    def send(self, request: Request) -> Reply:
        self.sent.append(request)
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        if isinstance(reply, Exception):
            raise reply
        return reply

    def close(self) -> None: ...


class AsyncScript(Script):
    async def send(self, request: Request) -> Reply:  # type: ignore[override]
        return super().send(request)

    async def close(self) -> None: ...  # type: ignore[override]


def registered(lease_ms: int = 30_000) -> Reply:
    return refusal(200, name="w", tools=[TOOL.reference], leaseMs=lease_ms)


def verdicts(*given: tuple[str, int, str | None]) -> Reply:
    return refusal(200, results=[{"requestId": id, "status": status, "reason": why} for id, status, why in given])


def hold(request: str = "r", lease_s: float = 30.0) -> HeldRequest:
    claimed = Claimed("direct", request, TOOL.reference, {}, 3, lease_s)
    return HeldRequest(claimed, Run(TOOL, request, LOCAL, {}, QuietChannel()))


def pulse_over(script: Script) -> HeartbeatLoop:
    return HeartbeatLoop(script, "w", [definition_of(TOOL)], Reachability("http://yard.example"))


def submitted(script: AsyncScript, beats: Script | None = None) -> None:
    """A result that is 7."""

    async def submit() -> None:
        pulse = pulse_over(beats or Script())
        if beats is not None:
            pulse.start()
            await asyncio.wrap_future(pulse.registered)
        submitting = Submission(script, "w", pulse, Reachability("http://yard.example"))
        await submitting.submit(hold(), Outcome("r", 1.0, Raw(b"7")))
        if beats is not None:
            pulse.stop()

    asyncio.run(submit())


# --- outcomes -------------------------------------------------------------------------------------


def test_an_outcome_is_sent_until_it_is_taken_and_the_same_each_time() -> None:
    script = AsyncScript(AWAY, refusal(502), refusal(429, message="later"), TAKEN)
    submitted(script)
    assert len(script.sent) == 4
    first = script.sent[0]
    assert script.sent == [first] * 4
    assert first.path == "/v1/tools/response/direct/r"
    assert first.headers[b"toolyard-attempt"] == b"3"
    assert first.headers[b"toolyard-worker"] == b"w"
    assert msgspec.json.decode(first.body) == {"response": {"state": "COMPLETE", "value": 7}}


@pytest.mark.parametrize("reason", ["completed", "stale_attempt", "cancelled"])
def test_an_outcome_that_the_server_will_not_have_is_let_go(reason: str, caplog: pytest.LogCaptureFixture) -> None:
    script = AsyncScript(AWAY, refusal(409, message="No", reason=reason))
    submitted(script)
    assert len(script.sent) == 2
    assert f"Kit.Tool@1.0.0 (call r) was done in vain: {reason}" in caplog.text


def test_a_server_that_forgot_the_worker_is_told_before_the_outcome_is_let_go() -> None:
    script, beats = AsyncScript(refusal(404), TAKEN), Script(registered(), refusal(404), registered())
    submitted(script, beats)
    assert [request.method for request in beats.sent] == ["PUT", "POST", "PUT"]
    assert len(script.sent) == 2


def test_an_outcome_of_a_request_that_is_not_there_is_let_go(caplog: pytest.LogCaptureFixture) -> None:
    script, beats = AsyncScript(refusal(404), refusal(404)), Script(registered(), TAKEN)
    submitted(script, beats)
    assert "was done in vain: the server does not know it" in caplog.text


def test_a_result_that_the_server_cannot_read_becomes_a_failure() -> None:
    script = AsyncScript(refusal(413, message="The request is too large"), AWAY, TAKEN)
    submitted(script)
    assert [request.path for request in script.sent[1:]] == ["/v1/tools/request/direct/r/heartbeat"] * 2
    said = msgspec.json.decode(script.sent[1].body)
    assert said == {"state": "ERROR", "error": {"message": "Kit.Tool failed unexpectedly", "can_retry": False}}


# --- signs of life --------------------------------------------------------------------------------


async def beating(script: Script, *held: HeldRequest) -> HeartbeatLoop:
    """Two beats: the one that registers, and one more."""
    pulse = pulse_over(script)
    for each in held:
        pulse.hold(each)
    pulse.start()
    await asyncio.wrap_future(pulse.registered)
    await asyncio.wrap_future(pulse.beat_now())
    pulse.stop()
    return pulse


def test_all_held_requests_are_renewed_in_one() -> None:
    async def check() -> None:
        both = verdicts(("a", 200, None), ("b", 200, None))
        script = Script(registered(), both, TAKEN, both)
        await beating(script, hold("a"), hold("b"))
        assert [(request.method, request.path) for request in script.sent] == [
            ("PUT", "/v1/workers/w"),
            ("POST", "/v1/tools/heartbeats"),
            ("POST", "/v1/workers/w/heartbeat"),
            ("POST", "/v1/tools/heartbeats"),
        ]
        said = msgspec.json.decode(script.sent[1].body)["heartbeats"]
        assert [(each["requestId"], each["attempt"]) for each in said] == [("a", 3), ("b", 3)]

    asyncio.run(check())


@pytest.mark.parametrize(("status", "reason"), [(409, "cancelled"), (409, "stale_attempt"), (404, None)])
def test_what_the_server_does_not_want_from_us_is_stopped_and_the_rest_goes_on(status: int, reason: str | None) -> None:
    async def check() -> None:
        lost, kept, ended = hold("lost"), hold("kept"), hold("ended")
        tasks = [asyncio.create_task(asyncio.Event().wait()) for _ in range(3)]
        for each, task in zip((lost, kept, ended), tasks, strict=True):
            each.begins(task)  # type: ignore[arg-type]
        ended.ends()
        first = verdicts(("lost", status, reason), ("kept", 200, None), ("ended", 409, "completed"))
        script = Script(registered(), first, TAKEN, verdicts(("kept", 200, None)))
        await beating(script, lost, kept, ended)
        await asyncio.wait((tasks[0],))
        assert [task.cancelled() for task in tasks] == [True, False, False]
        assert [each.run.channel.cancelled for each in (lost, kept)] == [True, False]
        assert lost.lost_because == (reason or "the server does not know it")
        said = msgspec.json.decode(script.sent[-1].body)["heartbeats"]
        assert [each["requestId"] for each in said] == ["kept"]
        for task in tasks:
            task.cancel()

    asyncio.run(check())


def test_a_beat_that_fails_for_whatever_reason_is_not_the_last(caplog: pytest.LogCaptureFixture) -> None:
    script = Script(AWAY, registered(lease_ms=3), RuntimeError("a defect"), TAKEN)
    asyncio.run(beating(script))
    assert "a defect" in caplog.text
    assert len(script.sent) >= 4


@pytest.mark.parametrize("again", [refusal(401, message="No"), Reply(200, b"<html>", [])])
def test_a_server_that_will_not_have_the_worker_any_more(again: Reply) -> None:
    async def check() -> None:
        pulse = pulse_over(Script(registered(lease_ms=3), refusal(404), again))
        pulse.start()
        error = await asyncio.wrap_future(pulse.refused)
        assert error.message in ("No", "http://yard.example does not take workers; is it a toolyard server?")
        await asyncio.wrap_future(pulse.beat_now())

    asyncio.run(check())


# --- what is told ---------------------------------------------------------------------------------


def test_progress_is_told_once_and_again_if_it_was_not_heard() -> None:
    async def check() -> None:
        held = hold()
        assert held.renewal().progress is None
        held.run.progress(1, 2, "half")
        assert held.renewal().progress == held.renewal().progress == {"done": 1, "total": 2, "message": "half"}
        held.renewed()
        assert held.renewal().progress is None
        held.run.progress(2, 2, None)
        assert held.renewal().progress == {"done": 2, "total": 2}

    asyncio.run(check())


@pytest.mark.parametrize("done", [float("nan"), float("inf"), "half", None, object(), 10**400])
def test_progress_that_is_no_number_does_not_keep_the_heartbeat_from_being_sent(done: Any) -> None:
    async def check() -> None:
        held = hold()
        held.run.progress(done, 2, "on the way")
        assert held.renewal().progress is None

    asyncio.run(check())


def test_a_definition_says_what_others_need_to_know_of_a_tool() -> None:
    made = definition_of(TOOL)
    assert (made.id, made.version, made.wire_name, made.title) == ("Kit.Tool", "1.0.0", "Kit_Tool", "A tool")
    assert (made.description, made.toolkit_description) == ("Does something.", "For tests.")
    assert (made.on_lost, made.timeout, made.idempotent, made.read_only) == ("rerun", 7, True, False)
    assert made.input_schema["required"] == ["name"]
    assert made.output_schema == {"type": "string"}
