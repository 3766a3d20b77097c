"""Replies before the handler is done: the connection goes on at once, the handler in its own time."""

import asyncio
import signal
import subprocess
from typing import Any

import pytest

from tests.system.hardening.raw import DEADLINE_S
from toolyard.server.http.exchange import Exchange
from toolyard.wires.contract import Reply

from ..asking import Asked, run
from ..conftest import Talking
from ..talking import journal, route, said, shell

# -- to a client -----------------------------------------------------------------------------------


def test_the_connection_serves_on_while_the_handler_goes_on(talker: Talking) -> None:
    with talker.line() as line:
        line.send(talker.request("/early/on"))
        reply = line.reply()
        assert (reply.status, reply.body) == (202, b"early")
        assert not reply.is_last
        for path, method, said in (
            ("/told/on.done/now", "GET", b"no"),
            ("/told/on.go", "PUT", b"heard"),
            ("/told/on.done", "GET", b"told"),
            ("/told/on.done/now", "GET", b"yes"),
        ):
            line.send(talker.request(path, method))
            assert line.reply().body == said


def test_requests_in_the_pipeline_do_not_wait_for_the_handler(talker: Talking) -> None:
    with talker.line() as line:
        line.send(talker.request("/early/first") + talker.request("/early/second"))
        line.send(talker.request("/told/first.done/now") + talker.request("/told/second.done/now"))
        assert [line.reply().body for _ in range(4)] == [b"early", b"early", b"no", b"no"]
    talker.tell("first.go")
    talker.tell("second.go")
    talker.wait_for("first.done")
    talker.wait_for("second.done")


def test_a_stream_after_the_answer_is_closed(talker: Talking) -> None:
    with talker.line() as line:
        line.send(talker.request("/unwanted/stream") + talker.request("/told/stream.closed"))
        assert [line.reply().body for _ in range(2)] == [b"early", b"told"]


def test_only_the_first_answer_counts(talker: Talking) -> None:
    with talker.line() as line:
        line.send(talker.request("/twice") + talker.request("/told/nothing/now"))
        assert [line.reply().body for _ in range(2)] == [b"first", b"no"]


def test_an_answer_after_the_reply_is_nothing(talker: Talking) -> None:
    """It is given while another request waits for its own."""
    with talker.line() as line:
        line.send(talker.request("/late/late") + talker.request("/told/late.answered"))
        assert line.reply().body == b"in time"
        talker.tell("late.go")
        assert line.reply().body == b"told"


def test_a_callback_can_answer(talker: Talking) -> None:
    with talker.line() as line:
        line.send(talker.request("/called-back/back") + talker.request("/told/nothing/now"))
        assert [line.reply().body for _ in range(2)] == [b"early", b"no"]
    talker.tell("back.go")


def test_a_failure_after_the_answer_is_logged_and_disturbs_nobody(talker: Talking) -> None:
    with talker.line() as line:
        line.send(talker.request("/failing/it") + talker.request("/told/nothing/now"))
        assert [line.reply().body for _ in range(2)] == [b"early", b"no"]
    talker.logged("RuntimeError: it failed after its answer")


def test_an_answer_to_nobody_is_nothing(talker: Talking) -> None:
    with talker.line() as line:
        line.send(talker.request("/nobody/nobody"))
        talker.wait_for("nobody.waiting")
    talker.wait_for("nobody.answered")
    assert "without starting response" not in talker.log.read_text()


def test_a_client_that_wants_no_more_is_let_go(talker: Talking) -> None:
    with talker.line() as line:
        line.send(talker.request("/early/close").replace(b"Host", b"Connection: close\r\nHost"))
        reply = line.reply()
        assert (reply.body, reply.is_last) == (b"early", True)
        assert line.wait_until_closed() == b""
    talker.tell("close.go")
    talker.wait_for("close.done")


def test_the_end_waits_for_handlers_that_go_on(stoppable: Talking) -> None:
    with stoppable.line() as line:
        line.send(stoppable.request("/early/signal"))
        assert line.reply().body == b"early"
        stoppable.process.send_signal(signal.SIGTERM)
        assert line.wait_until_closed() == b""
    with pytest.raises(subprocess.TimeoutExpired):
        stoppable.process.wait(0.5)
    stoppable.process.send_signal(signal.SIGUSR1)
    said, _ = stoppable.process.communicate(timeout=DEADLINE_S)
    assert b"signal is done" in said


# -- through any ASGI server -----------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/early/asgi", "/called-back/asgi"])
def test_an_answer_is_sent_while_the_handler_goes_on(path: str) -> None:
    async def scenario() -> None:
        name = path[1:].replace("/", "-")
        asked = Asked(shell(), f"{path}-{name}")
        start, body = await asked.messages(2)
        assert (start["status"], body["body"]) == (202, b"early")
        assert (b"content-length", b"5") in start["headers"]
        assert not asked.task.done()
        journal.tell(f"asgi-{name}.go")
        await asked.end()
        assert len(asked.sent) == 2

    run(scenario)


def test_the_application_returns_only_when_the_answer_is_sent() -> None:
    async def scenario() -> None:
        asked = Asked(shell(), "/twice")
        await asked.end()
        assert [message.get("body") for message in asked.sent] == [None, b"first"]

    run(scenario)


def test_an_answer_is_sent_though_its_task_is_cancelled() -> None:
    async def handle(exchange: Exchange) -> Reply:
        exchange.answer(said("early"))
        try:
            await journal.told("cancelled.go")
        finally:
            journal.tell("cancelled.ended")
        return said("late")

    async def scenario() -> None:
        is_free, is_sending = asyncio.Event(), asyncio.Event()

        async def hold(message: Any) -> None:
            is_sending.set()
            await is_free.wait()

        asked = Asked(shell(route("GET", "/", handle)), "/", send=hold)
        await is_sending.wait()
        asked.task.cancel()
        await journal.told("cancelled.ended")
        assert not asked.task.done()
        is_free.set()
        with pytest.raises(asyncio.CancelledError):
            await asked.end()
        assert len(asked.sent) == 2

    run(scenario)


def test_an_answer_that_cannot_be_sent_harms_nothing() -> None:
    async def refuse(message: Any) -> None:
        raise OSError

    async def scenario() -> None:
        asked = Asked(shell(), "/twice", send=refuse)
        await asked.end()
        assert asked.sent == []

    run(scenario)
