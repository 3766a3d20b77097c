"""A server that is told to stop: running calls may end within `grace_s`, also those that are answered with a stream."""

import select
from contextlib import closing

import apsw
import pytest

from .schemas import MODERN, REVISIONS
from .serving import Start
from .stage import Stage
from .talking import Newer, Older, connect, text_of
from .test_streams import begun, rest_of, told


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("is_open", [True, False])
def test_a_call_with_a_stream_is_answered_before_the_server_ends(
    start: Start, stage: Stage, name: str, revision: str, is_open: bool
) -> None:
    """Whether the stream began before it was told to stop or after."""
    server = start()
    exchange = connect(server.url, revision).act(name, meta={"progressToken": "t"})
    visit = stage.visit(name)
    if is_open:
        told(visit, ("progress", 1))
        assert exchange.next()["params"]["progress"] == 1
    server.terminate()
    told(visit, ("progress", 2))
    assert exchange.next()["params"]["progress"] == 2
    visit.ends()
    assert text_of(exchange.result()) == "done"
    assert exchange.last_event is not None or revision == MODERN
    assert server.wait() == 0


def test_without_a_session_a_stream_is_answered_too(start: Start, stage: Stage, name: str) -> None:
    server = start()
    exchange = Older(server.url, "2025-11-25").act(name)
    visit = stage.visit(name)
    assert exchange.is_stream
    server.terminate()
    visit.ends()
    assert text_of(exchange.result()) == "done"
    assert server.wait() == 0


@pytest.mark.parametrize("is_open", [True, False])
def test_what_takes_longer_is_taken_up_after_a_restart(start: Start, stage: Stage, name: str, is_open: bool) -> None:
    server = start(grace_s="1" if is_open else "3")  # in which it is still told to do something
    older = Older(server.url, "2025-11-25").initialize()
    if is_open:
        exchange, visit, _ = begun(older, stage, name)
        server.terminate()
    else:
        exchange = older.act(name, "Play_Again", meta={"progressToken": "t"})
        visit = stage.visit(name)
        server.terminate()
        told(visit, ("progress", 1))
        assert exchange.next()["params"]["progress"] == 1
    assert visit.hear() == "stopped"
    assert exchange.rest() == []
    assert exchange.last_event is not None
    assert server.wait() == 0
    server.start()
    rest = rest_of(older, exchange, exchange.last_event)
    stage.visit(name).ends("a second time")
    assert text_of(rest.result()) == "a second time"


def test_a_stream_that_begins_as_the_server_ends_has_an_event_to_come_back_with(
    start: Start, stage: Stage, name: str
) -> None:
    """However long the ledger takes to record its call."""
    server = start(grace_s="1")
    older = Older(server.url, "2025-11-25").initialize()
    exchange = older.act(name, "Play_Again", meta={"progressToken": "t"})
    visit = stage.visit(name)
    with closing(apsw.Connection(str(server.folder / "toolyard.db"))) as ledger:
        ledger.set_busy_timeout(15_000)
        ledger.execute("BEGIN IMMEDIATE")  # nobody else can write to it now
        visit.tell("progress", 1)
        assert visit.hear() == "did"
        assert exchange.is_stream
        server.terminate()
        assert visit.hear() == "stopped"
        comes, _, _ = select.select([exchange.reply], [], [], 0.5)
        assert not comes, "it was ended before its call was recorded"
        ledger.execute("ROLLBACK")
    assert exchange.next()["params"]["progress"] == 1
    assert exchange.rest() == []
    assert exchange.last_event is not None
    assert server.wait() == 0
    server.start()
    rest = rest_of(older, exchange, exchange.last_event)
    stage.visit(name).ends("a second time")
    assert text_of(rest.result()) == "a second time"


def test_the_rest_of_a_stream_is_told_to_its_end(start: Start, stage: Stage, name: str) -> None:
    server = start()
    older = Older(server.url, "2025-11-25").initialize()
    exchange, visit, last = begun(older, stage, name)
    exchange.close()
    rest = rest_of(older, exchange, last)
    assert rest.status == 200
    server.terminate()
    visit.ends()
    assert text_of(rest.result()) == "done"
    assert server.wait() == 0


def test_a_question_that_is_open_holds_nobody_up(start: Start, stage: Stage, name: str) -> None:
    server = start(grace_s="30")
    older = Older(server.url, "2025-11-25", elicitation={"form": {}}).initialize()
    exchange = older.act(name, "Play_Again")
    visit = stage.visit(name)
    visit.tell("ask", "who")
    assert exchange.next()["method"] == "elicitation/create"
    server.terminate()
    assert exchange.rest() == []
    assert exchange.last_event is not None
    assert server.wait() == 0


def test_streams_without_an_end_are_ended_at_once(start: Start, stage: Stage, name: str) -> None:
    server = start()
    older, newer = Older(server.url, "2025-11-25").initialize(), Newer(server.url)
    changes = older.get()
    assert changes.status == 200
    listening = newer.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    assert listening.next()["method"] == "notifications/subscriptions/acknowledged"
    exchange, visit, _ = begun(older, stage, name)
    server.terminate()
    assert changes.rest() == []
    assert listening.result()["resultType"] == "complete"
    visit.ends()  # only now: they did not wait for it
    assert text_of(exchange.result()) == "done"
    assert server.wait() == 0
