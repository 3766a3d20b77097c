"""While a call runs: progress, logs, signs of life, and streams that are taken up again."""

import base64
import json
import time
from typing import Any

import pytest

from .conftest import Connect
from .schemas import MODERN, OLDER, REVISIONS
from .serving import ALICE, BOB, Server, Start
from .stage import Stage, Visit
from .talking import PREFIX, Exchange, Older, connect, text_of


def told(visit: Visit, *acts: tuple[Any, ...]) -> None:
    """Has it do these things, one after another."""
    for act in acts:
        visit.tell(*act)
        assert visit.hear() == "did"


# --- progress and logs ---------------------------------------------------------------------------


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("token", ["token", 0])
def test_progress_grows_and_comes_before_the_result(
    client: Connect, stage: Stage, name: str, revision: str, token: Any
) -> None:
    exchange = client(revision).act(name, meta={"progressToken": token})
    visit = stage.visit(name)
    told(visit, ("progress", 1, 10, "one"), ("progress", 1), ("progress", 0.5), ("progress", 2.5), ("progress", 3, 10))
    visit.ends()
    *before, response = exchange.rest()
    assert exchange.is_stream
    assert [each["method"] for each in before] == ["notifications/progress"] * 3
    assert [each["params"]["progress"] for each in before] == [1, 2.5, 3]
    assert {each["params"]["progressToken"] for each in before} == {token}
    assert before[0]["params"]["total"] == 10
    assert before[0]["params"].get("message") == "one"
    assert text_of(response["result"]) == "done"


@pytest.mark.parametrize("revision", REVISIONS)
def test_without_a_token_there_is_no_progress_and_no_stream(
    client: Connect, stage: Stage, name: str, revision: str
) -> None:
    exchange = client(revision).act(name)
    visit = stage.visit(name)
    told(visit, ("progress", 1, 10), ("progress", 2, 10))
    visit.ends()
    assert text_of(exchange.result()) == "done"
    assert not exchange.is_stream


def logged(exchange: Exchange) -> list[tuple[str, Any]]:
    return [(each["params"]["level"], each["params"]["data"]) for each in exchange.rest() if "method" in each]


LOGS = [("log", "fine", "debug"), ("log", "well", "info"), ("log", "odd", "warning"), ("log", "bad", "error")]


@pytest.mark.parametrize("revision", OLDER)
def test_logs_come_from_the_level_that_a_session_sets(client: Connect, stage: Stage, name: str, revision: str) -> None:
    older = client(revision)
    for level, heard in {
        None: ["well", "odd", "bad"],
        "debug": ["fine", "well", "odd", "bad"],
        "error": ["bad"],
    }.items():
        if level is not None:
            assert older.result("logging/setLevel", {"level": level}) == {}
        exchange = older.act(name)
        visit = stage.visit(name)
        told(visit, *LOGS)
        visit.ends()
        assert [data for _, data in logged(exchange)] == heard, level
    assert older.request("logging/setLevel", {"level": "loud"}).error()["code"] == -32602


def test_logs_come_from_the_level_that_a_request_names(client: Connect, stage: Stage, name: str) -> None:
    newer = client(MODERN)
    for level, heard in {None: [], "debug": ["fine", "well", "odd", "bad"], "warning": ["odd", "bad"]}.items():
        exchange = newer.act(name, meta={PREFIX + "logLevel": level} if level else {})
        visit = stage.visit(name)
        told(visit, *LOGS)
        visit.ends()
        assert [data for _, data in logged(exchange)] == heard, level
    exchange = newer.act(name, meta={PREFIX + "logLevel": "loud"})
    assert exchange.error()["code"] == -32602


@pytest.mark.parametrize("tool", ["Kit_Steps", "Kit_StepsElsewhere"])
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_threads_and_processes_say_how_far_they_are_too(client: Connect, revision: str, tool: str) -> None:
    exchange = client(revision).call(tool, meta={"progressToken": 1, PREFIX + "logLevel": "info"})
    *before, response = exchange.rest()
    progress = [each["params"]["progress"] for each in before if each["method"] == "notifications/progress"]
    assert progress == [1, 2, 3]
    assert [data for data in (each["params"].get("data") for each in before) if data] == ["step 1", "step 2", "step 3"]
    assert text_of(response["result"]) == "done"


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-11-25", MODERN])
def test_a_call_that_takes_long_is_answered_with_a_stream(
    client: Connect, stage: Stage, name: str, revision: str
) -> None:
    begun = time.monotonic()
    exchange = client(revision).act(name)
    visit = stage.visit(name)
    assert exchange.is_stream
    assert time.monotonic() - begun > 1.5
    visit.ends()
    assert text_of(exchange.result()) == "done"


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_however_much_is_said_before_the_response_comes(client: Connect, revision: str) -> None:
    """What is too much is left out, and never the response."""
    exchange = client(revision).call("Kit_Flood", {"count": 12_000}, meta={"progressToken": 1})
    *before, response = exchange.rest()
    assert text_of(response["result"]) == "done"
    said = [each["params"]["progress"] for each in before]
    assert said == sorted(set(said))


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
@pytest.mark.parametrize("tool", ["Kit_TellsOddly", "Kit_TellsOddlyElsewhere"])
def test_what_cannot_be_told_is_left_out_or_replaced_and_fails_nobody(
    client: Connect, revision: str, tool: str
) -> None:
    exchange = client(revision).call(tool, meta={"progressToken": 1, PREFIX + "logLevel": "info"})
    *before, response = exchange.rest()
    assert text_of(response["result"]) == "done"
    progress = [each["params"] for each in before if each["method"] == "notifications/progress"]
    assert [(each["progress"], each.get("total")) for each in progress] == [(1, None), (2, None), (3, 3)]
    assert progress[-1]["message"] == "bad?.txt"
    (log,) = (each["params"]["data"] for each in before if each["method"] == "notifications/message")
    assert log == {"message": "file bad?.txt", "name": "bad?.txt", "path": "bad?.txt"}


# --- cancellation --------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", OLDER)
def test_a_client_gives_up_a_request_of_its_session(client: Connect, stage: Stage, name: str, revision: str) -> None:
    """At once, and also once its stream is open."""
    older = client(revision)
    assert isinstance(older, Older)
    for meta in ({}, {"progressToken": 1}):
        exchange = older.act(name, meta=meta)
        visit = stage.visit(name)
        if meta:
            told(visit, ("progress", 1))
            assert exchange.next()["method"] == "notifications/progress"
        older.cancel(exchange.id)
        assert visit.hear() == "stopped"
        assert visit.hear() is None


def test_what_a_client_gives_up_is_its_own(client: Connect, stage: Stage, name: str) -> None:
    """Two sessions, and one that has none, all with the same id."""
    sent = {"name": "Play_Act", "arguments": {"name": name}}
    mine, other = client("2025-11-25"), client("2025-11-25")
    assert isinstance(other, Older)
    exchange = mine.request("tools/call", sent, 7)
    visit = stage.visit(name)
    other.cancel(7)
    bare = Older(f"http://127.0.0.1:{mine.wire.port}/mcp", "2025-11-25")
    bare.cancel(7)
    visit.ends("unharmed")
    assert text_of(exchange.result()) == "unharmed"


def test_without_a_session_the_client_that_closes_gives_up(server: Server, stage: Stage, name: str) -> None:
    bare = Older(server.url, "2025-11-25")
    exchange = bare.act(name)
    visit = stage.visit(name)
    bare.cancel(exchange.id)
    exchange.close()
    assert visit.hear() == "stopped"


@pytest.mark.parametrize("has_begun", [False, True])
def test_in_the_newer_era_who_closes_the_stream_gives_up(
    client: Connect, stage: Stage, name: str, has_begun: bool
) -> None:
    exchange = client(MODERN).act(name, meta={"progressToken": 1})
    visit = stage.visit(name)
    if has_begun:
        told(visit, ("progress", 1))
        assert exchange.next()["method"] == "notifications/progress"
    exchange.close()
    assert visit.hear() == "stopped"


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_tool_may_go_on_without_its_client(
    server: Server, client: Connect, stage: Stage, name: str, revision: str
) -> None:
    exchange = client(revision).act(name, "Play_Unmoved", meta={"toolyard/callId": name})
    visit = stage.visit(name)
    exchange.close()
    visit.ends("anyway")
    assert text_of(client(revision).act(name, "Play_Unmoved", meta={"toolyard/callId": name}).result()) == "anyway"


# --- streams that are taken up again -------------------------------------------------------------


def begun(older: Older, stage: Stage, name: str, tool: str = "Play_Again") -> tuple[Exchange, Visit, str]:
    """A call whose stream has shown progress once: where it can be taken up."""
    exchange = older.act(name, tool, meta={"progressToken": "t"})
    visit = stage.visit(name)
    told(visit, ("progress", 1))
    assert exchange.next()["params"]["progress"] == 1
    assert exchange.last_event is not None
    return exchange, visit, exchange.last_event


def rest_of(older: Older, exchange: Exchange, last: str) -> Exchange:
    return older.get(last, {"id": exchange.id, "method": "tools/call"})


@pytest.mark.parametrize("revision", OLDER)
def test_a_stream_that_was_cut_is_taken_up_where_it_was(
    client: Connect, stage: Stage, name: str, revision: str
) -> None:
    older = client(revision)
    assert isinstance(older, Older)
    exchange, visit, last = begun(older, stage, name)
    exchange.close()
    told(visit, ("progress", 2), ("progress", 3))
    rest = rest_of(older, exchange, last)
    assert rest.next()["params"]["progress"] == 2
    assert rest.next()["params"]["progress"] == 3
    rest.close()
    told(visit, ("progress", 4))
    visit.ends("whole")
    later = rest_of(older, exchange, rest.ids[0])
    *before, response = later.rest()
    assert [each["params"]["progress"] for each in before] == [3, 4]
    assert response["id"] == exchange.id
    assert text_of(response["result"]) == "whole"


def test_every_event_that_can_be_taken_up_has_an_id_of_its_own(client: Connect, stage: Stage, name: str) -> None:
    older = client("2025-11-25")
    assert isinstance(older, Older)
    exchange, visit, _ = begun(older, stage, name)
    told(visit, ("progress", 2), ("progress", 3))
    visit.ends()
    exchange.rest()
    assert len(exchange.ids) == len(set(exchange.ids)) >= 3


def test_a_stream_is_taken_up_by_its_caller_alone(keyed: Server, stage: Stage, name: str) -> None:
    alice, bob = (Older(keyed.url, "2025-11-25", key).initialize() for key in (ALICE, BOB))
    exchange, visit, last = begun(alice, stage, name)
    assert rest_of(bob, exchange, last).status == 400
    visit.ends()
    assert text_of(rest_of(alice, exchange, last).result()) == "done"


def test_a_stream_is_taken_up_after_the_server_was_killed(start: Start, stage: Stage, name: str) -> None:
    server = start()
    older = Older(server.url, "2025-11-25").initialize()
    exchange, visit, last = begun(older, stage, name)
    server.restart()
    assert visit.hear() is None
    rest = rest_of(older, exchange, last)
    again = stage.visit(name)
    again.ends("a second time")
    assert text_of(rest.result()) == "a second time"


def test_what_may_not_be_run_again_is_said_not_to_be_known(start: Start, stage: Stage, name: str) -> None:
    server = start()
    older = Older(server.url, "2025-11-25").initialize()
    exchange, _, last = begun(older, stage, name, "Play_Act")
    server.restart()
    result = rest_of(older, exchange, last).result()
    assert result["isError"] is True
    assert "not known" in text_of(result)
    assert stage.is_empty(name)


def forged(seq: int, number: int, id: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps([seq, number, id]).encode()).decode()


@pytest.mark.parametrize(
    "last",
    [
        "x", "!!", "\xff", ".", "WzEsMl0=", forged(1, 1, 1), forged(1, 1, 1) + ".", forged(1, 1, 1) + "." + "A" * 16,
        forged(2**63, 0, 1), forged(1, 2**63, 77), forged(-1, 0, 1),
    ],
)  # fmt: skip
def test_an_event_that_never_was_gives_nobody_anything(client: Connect, last: str) -> None:
    older = client("2025-11-25")
    assert isinstance(older, Older)
    exchange = older.get(last)
    assert exchange.status == 400
    assert exchange.error()["code"] == -32600


def test_the_id_of_an_event_counts_for_its_session_and_cannot_be_changed(
    client: Connect, stage: Stage, name: str
) -> None:
    older, other = client("2025-11-25"), client("2025-11-25")
    assert isinstance(older, Older)
    assert isinstance(other, Older)
    exchange, visit, last = begun(older, stage, name)
    place, _, tag = last.partition(".")
    seq, number, id = json.loads(base64.urlsafe_b64decode(place + "=" * (-len(place) % 4)))
    for changed in ((seq, number, "other"), (seq, number + 1, id), (seq + 1, number, id)):
        assert rest_of(older, exchange, f"{forged(*changed)}.{tag}").status == 400
    assert rest_of(other, exchange, last).status == 400
    visit.ends()
    assert text_of(rest_of(older, exchange, last).result()) == "done"


@pytest.mark.parametrize("tool", ["Kit_Early", "Kit_EarlyInLine"])
def test_the_first_event_is_one_from_which_the_stream_can_be_taken_up(client: Connect, tool: str) -> None:
    """Also when the tool says something at once, and also when it had to wait for its turn."""
    older = client("2025-11-25")
    exchanges = [older.call(tool, meta={"progressToken": each}) for each in range(2)]
    for exchange in exchanges:
        assert exchange.reply.readline().startswith(b"id: ")
        assert exchange.reply.readline().startswith(b"retry: ")
        *before, response = exchange.rest()
        assert [each["params"]["progress"] for each in before] == [1, 2]
        assert len(exchange.ids) == 2
        assert text_of(response["result"]) == "done"


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_keyed_call_is_had_again_after_the_server_was_killed(
    start: Start, stage: Stage, name: str, revision: str
) -> None:
    server = start()
    first = connect(server.url, revision).act(name, "Play_Again", meta={"toolyard/callId": name})
    visit = stage.visit(name)
    server.restart()
    assert visit.hear() is None
    first.close()
    again = connect(server.url, revision).act(name, "Play_Again", meta={"toolyard/callId": name})
    stage.visit(name).ends("again")
    assert text_of(again.result()) == "again"


def test_a_request_of_a_session_that_is_ended_meanwhile_is_still_answered(
    client: Connect, stage: Stage, name: str
) -> None:
    older = client("2025-11-25")
    assert isinstance(older, Older)
    exchange = older.act(name)
    visit = stage.visit(name)
    assert older.delete().status == 204
    visit.ends()
    assert text_of(exchange.result()) == "done"
