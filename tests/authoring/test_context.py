"""What a tool may ask of the server while it runs, and how it fails on purpose."""

import asyncio
import logging
import threading
from typing import Any

import httpx2
import pytest

from toolyard import Context, ToolError
from toolyard.server.app.compose import Yard
from toolyard.server.settings.table import exactly
from toolyard.testing import call, client

from .trying import ID, ask, kit_of


def test_a_tool_knows_its_call() -> None:
    def who(ctx: Context) -> list[str | None]:
        """Tells."""
        return [ctx.call_id, ctx.trace_id, ctx.caller.tenant, ctx.caller.subject, ctx.user_id]

    kit = kit_of(who)
    assert call(kit, ID, call_id="c-1", trace_id="t-1", user_id="ada") == ["c-1", "t-1", "default", "local", "ada"]
    assert call(kit, ID)[1:] == [None, "default", "local", None]


def test_a_tool_knows_which_key_called_it() -> None:
    async def who(ctx: Context) -> str:
        """Tells."""
        return ctx.caller.subject

    key = "ty_0123456789abcdef"
    assert posted(kit_of(who), {}, {"authorization": f"Bearer {key}"}, api_keys=[f"ci:{key}"]) == "ci"


def posted(kit: Any, context: dict[str, Any], headers: dict[str, str], **settings: Any) -> Any:
    """A call as some client would send it."""

    async def send() -> Any:
        transport = httpx2.ASGITransport(app=Yard([kit], exactly(**settings)).asgi)
        async with httpx2.AsyncClient(transport=transport, base_url="http://yard.test", headers=headers) as sender:
            reply = await sender.post("/tools/call", json={"tool_id": ID, "context": context})
            return reply.json()["value"]

    return asyncio.run(send())


def test_a_tool_knows_what_the_caller_says_of_the_user() -> None:
    async def who(ctx: Context) -> dict[str, Any]:
        """Tells."""
        return {"id": ctx.user_id, "info": dict(ctx.user_info)}

    sent = {"user_id": "ada", "user_info": {"name": "Ada"}}
    assert posted(kit_of(who), sent, {}) == {"id": "ada", "info": {"name": "Ada"}}


def test_progress_may_be_told_whether_somebody_listens_or_not() -> None:
    def slow(ctx: Context) -> bool:
        """Tells how far it is."""
        ctx.progress(1)
        ctx.progress(1, 2, "half")
        return ctx.cancelled

    assert ask(slow) is False


@pytest.mark.parametrize(
    ("level", "logged"),
    [("debug", "DEBUG"), ("info", "INFO"), ("warning", "WARNING"), ("error", "ERROR"), ("?", "INFO")],
)
def test_a_tools_log_is_in_the_servers(level: str, logged: str, caplog: pytest.LogCaptureFixture) -> None:
    def talk(ctx: Context) -> None:
        """Talks."""
        ctx.log("on my way", level, name="Ada", args=[1], module="x")

    caplog.set_level(logging.DEBUG)
    call(kit_of(talk), ID, call_id="c-1")
    record = next(record for record in caplog.records if record.name == "toolyard.tool")
    assert record.levelname == logged
    assert record.getMessage().startswith("Kit.Tried c-1: on my way")
    assert "Ada" in record.getMessage()


def test_a_tool_in_a_thread_sees_that_nobody_waits_any_more() -> None:
    entered, seen = threading.Event(), threading.Event()

    def patient(ctx: Context) -> None:
        """Works until nobody waits."""
        entered.set()
        while not ctx.cancelled:
            entered.wait(0.001)
        seen.set()

    with client(kit_of(patient, timeout=0.05)) as yard:
        with pytest.raises(ToolError, match=r"took longer than 0\.05 seconds"):
            yard.call(ID)
        assert entered.is_set()
        assert seen.wait(5)


def test_a_failure_on_purpose_reaches_the_caller_whole() -> None:
    def fail() -> None:
        """Fails."""
        raise ToolError(
            "No such bell",
            developer_message="bell 7",
            can_retry=True,
            retry_after_ms=500,
            additional_prompt_content="bells: 1, 2",
        )

    with pytest.raises(ToolError) as failure:
        ask(fail)
    error = failure.value
    assert (error.message, error.developer_message, error.can_retry) == ("No such bell", "bell 7", True)
    assert (error.retry_after_ms, error.additional_prompt_content) == (500, "bells: 1, 2")


@pytest.mark.parametrize("error", [RuntimeError("hush"), KeyError("hush"), SystemExit("hush"), StopIteration("hush")])
@pytest.mark.parametrize("runs", ["inline", "thread"])
def test_what_else_is_raised_does_not_reach_the_caller(error: BaseException, runs: str) -> None:
    def crash() -> None:
        """Crashes."""
        raise error

    with client(kit_of(crash, runs=runs)) as yard:
        outcome = yard.outcome(ID)
    assert outcome.error is not None
    assert (outcome.error.message, outcome.error.developer_message) == ("Kit.Tried failed unexpectedly", None)
    assert outcome.error.can_retry is False
