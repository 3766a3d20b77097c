"""Calls as tasks, in both eras' words: they are in the ledger, and outlive their request, their client and their
server."""

import time
from typing import Any

import pytest

from .conftest import Connect
from .schemas import MODERN
from .serving import ALICE, BOB, Server, Start
from .stage import Stage
from .talking import PREFIX, TASKS, WITH_TASKS, Client, Newer, Older, accepted, connect, text_of

RELATED = PREFIX + "related-task"
FORM: dict[str, Any] = {"elicitation": {"form": {}}}
DEADLINE_S = 15.0


def created(client: Client, name: str, tool: str = "Play_Act") -> str:
    """The id of a new task of the older era."""
    result = client.act(name, tool, task={"ttl": 60_000}).result()
    assert result["task"]["status"] == "working"
    assert isinstance(result["task"]["ttl"], int)
    id: str = result["task"]["taskId"]
    return id


def until(client: Client, id: str, status: str) -> Any:
    """Looks until the task is so far."""
    deadline = time.monotonic() + DEADLINE_S
    while (task := client.result("tasks/get", {"taskId": id}))["status"] != status:
        assert time.monotonic() < deadline, task
        time.sleep(0.01)
    return task


# --- 2025-11-25 ----------------------------------------------------------------------------------


def test_a_call_that_asks_for_a_task_is_one(client: Connect, stage: Stage, name: str) -> None:
    older = client("2025-11-25")
    id = created(older, name)
    visit = stage.visit(name)
    task = older.result("tasks/get", {"taskId": id})
    assert (task["taskId"], task["status"]) == (id, "working")
    waiting = older.request("tasks/result", {"taskId": id})
    visit.ends("at last")
    result = waiting.result()
    assert text_of(result) == "at last"
    assert result["_meta"][RELATED] == {"taskId": id}
    assert older.result("tasks/get", {"taskId": id})["status"] == "completed"
    assert text_of(older.result("tasks/result", {"taskId": id})) == "at last"
    assert id in [each["taskId"] for each in older.result("tasks/list")["tasks"]]


def test_a_call_that_does_not_is_none_and_is_not_listed(client: Connect, stage: Stage, name: str) -> None:
    older = client("2025-11-25")
    exchange = older.act(name, meta={"toolyard/callId": name})
    stage.visit(name).ends()
    assert "task" not in exchange.result()
    assert name not in [each["taskId"] for each in older.result("tasks/list")["tasks"]]


def test_a_failure_of_the_tool_is_a_result(client: Connect) -> None:
    older = client("2025-11-25")
    id = older.call("Kit_Fail", task={}).result()["task"]["taskId"]
    result = older.result("tasks/result", {"taskId": id})
    assert result["isError"] is True
    assert result["_meta"][RELATED] == {"taskId": id}
    assert result["_meta"]["toolyard/error"]["retry_after_ms"] == 7
    assert older.result("tasks/get", {"taskId": id})["status"] == "completed"


def test_arguments_that_do_not_fit_are_refused_before_there_is_a_task(client: Connect) -> None:
    result = client("2025-11-25").call("Kit_Add", {"a": "one"}, task={}).result()
    assert result["isError"] is True


def test_tools_say_who_may_have_a_task(client: Connect, stage: Stage, name: str) -> None:
    older = client("2025-11-25")
    assert older.act(name, "Play_Forbidden", task={}).error()["code"] == -32601
    assert older.act(name, "Play_Required").error()["code"] == -32601
    assert stage.is_empty(name)
    id = created(older, name, "Play_Required")
    stage.visit(name).ends()
    until(older, id, "completed")


def test_a_task_is_cancelled_once(client: Connect, stage: Stage, name: str) -> None:
    older = client("2025-11-25")
    id = created(older, name)
    visit = stage.visit(name)
    assert older.result("tasks/cancel", {"taskId": id})["status"] == "cancelled"
    assert visit.hear() == "stopped"
    assert older.request("tasks/cancel", {"taskId": id}).error()["code"] == -32602
    assert "error" in older.request("tasks/result", {"taskId": id}).response()


@pytest.mark.parametrize("method", ["tasks/get", "tasks/result", "tasks/cancel"])
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_task_that_is_not_there_is_not_found(client: Connect, revision: str, method: str) -> None:
    if (revision, method) == (MODERN, "tasks/result"):
        return
    asker = client(revision, **WITH_TASKS)
    for id in ("nobody", "", "x" * 1000):
        assert asker.request(method, {"taskId": id}).error()["code"] in (-32602, -32020), id
    assert asker.request(method, {}).error()["code"] == -32602
    assert asker.request(method, {"taskId": 7}).error()["code"] == -32602


def test_another_caller_sees_nothing(keyed: Server, stage: Stage, name: str) -> None:
    alice, bob = (Older(keyed.url, "2025-11-25", key).initialize() for key in (ALICE, BOB))
    id = created(alice, name)
    visit = stage.visit(name)
    for method in ("tasks/get", "tasks/result", "tasks/cancel"):
        assert bob.request(method, {"taskId": id}).error()["code"] == -32602, method
    assert id not in [each["taskId"] for each in bob.result("tasks/list")["tasks"]]
    newer = Newer(keyed.url, key=BOB, **WITH_TASKS)
    for method in ("tasks/get", "tasks/update", "tasks/cancel"):
        assert newer.request(method, {"taskId": id, "inputResponses": {}}).error()["code"] == -32602, method
    visit.ends()
    assert text_of(alice.result("tasks/result", {"taskId": id})) == "done"


def test_a_task_asks_whoever_waits_for_its_result(client: Connect, stage: Stage, name: str) -> None:
    older = client("2025-11-25", **FORM)
    assert isinstance(older, Older)
    id = created(older, name)
    visit = stage.visit(name)
    visit.tell("ask", "who")
    until(older, id, "input_required")
    waiting = older.request("tasks/result", {"taskId": id})
    question = waiting.next()
    assert question["params"]["_meta"][RELATED] == {"taskId": id}
    older.answer(question, accepted(name="Ada"))
    assert visit.hear() == "Ada"
    visit.ends()
    assert text_of(waiting.result()) == "done"


def test_a_task_tells_how_far_it_is(client: Connect, stage: Stage, name: str) -> None:
    """Under the token of the request that made it, for whoever waits for its result."""
    older = client("2025-11-25")
    result = older.act(name, task={}, meta={"progressToken": "t"}).result()
    visit = stage.visit(name)
    visit.tell("progress", 1, 2, "half way")
    visit.hear()
    deadline = time.monotonic() + DEADLINE_S
    while "statusMessage" not in (task := older.result("tasks/get", {"taskId": result["task"]["taskId"]})):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert task["statusMessage"] == "half way"
    visit.ends()


def test_a_status_that_changes_is_told_on_the_stream_of_changes(client: Connect, stage: Stage, name: str) -> None:
    older = client("2025-11-25")
    assert isinstance(older, Older)
    stream = older.get()
    assert stream.is_stream
    id = created(older, name)
    stage.visit(name).ends()
    while (told := stream.next())["params"].get("status") != "completed":
        pass
    assert (told["method"], told["params"]["taskId"]) == ("notifications/tasks/status", id)


def test_a_task_survives_its_server(start: Start, stage: Stage, name: str) -> None:
    server = start()
    older = Older(server.url, "2025-11-25", **FORM).initialize()
    id, unknown = created(older, name, "Play_Again"), created(older, f"{name}-unknown", "Play_Act")
    visit = stage.visit(name)
    stage.visit(f"{name}-unknown")
    server.restart()
    assert visit.hear() is None
    again = stage.visit(name)
    assert older.result("tasks/get", {"taskId": id})["status"] == "working"
    again.ends("survived")
    assert text_of(older.result("tasks/result", {"taskId": id})) == "survived"
    assert "not known" in until(older, unknown, "failed")["statusMessage"]
    assert "not known" in older.request("tasks/result", {"taskId": unknown}).error()["message"]


def test_tasks_are_listed_page_by_page(server: Server, client: Connect) -> None:
    older = client("2025-11-25")
    mine = {older.call("Kit_Plain", task={}).result()["task"]["taskId"] for _ in range(105)}
    seen: list[str] = []
    params: dict[str, Any] = {}
    while True:
        page = older.result("tasks/list", params)
        seen += [each["taskId"] for each in page["tasks"]]
        if "nextCursor" not in page:
            break
        params = {"cursor": page["nextCursor"]}
    assert mine <= set(seen)
    assert len(seen) == len(set(seen))
    for cursor in ("x", "!!", "-1", "é", "LTE", "MA", "MQ==", "OTk5OTk5OTk5OTk5OTk5OTk5OTk"):
        assert older.request("tasks/list", {"cursor": cursor}).error()["code"] == -32602, cursor


@pytest.mark.parametrize("task", [7, {"ttl": "long"}, {"ttl": 1.5}, []])
def test_a_task_that_is_asked_for_wrongly_is_refused(client: Connect, task: Any) -> None:
    assert client("2025-11-25").call("Kit_Plain", task=task).error()["code"] == -32602


def test_a_task_with_a_key_is_made_once(client: Connect, stage: Stage, name: str) -> None:
    older = client("2025-11-25")
    ids = {older.act(name, task={}, meta={"toolyard/callId": name}).result()["task"]["taskId"] for _ in range(2)}
    assert ids == {name}
    stage.visit(name).ends()
    assert text_of(older.result("tasks/result", {"taskId": name})) == "done"
    assert stage.is_empty(name)


# --- 2026-07-28, the extension -------------------------------------------------------------------


def begun(client: Client, name: str, tool: str = "Play_Preferred") -> str:
    result = client.act(name, tool).result()
    assert (result["resultType"], result["status"]) == ("task", "working")
    id: str = result["taskId"]
    return id


def test_a_tool_that_prefers_it_is_a_task_for_a_client_that_can(client: Connect, stage: Stage, name: str) -> None:
    newer = client(MODERN, **WITH_TASKS)
    id = begun(newer, name)
    visit = stage.visit(name)
    task = newer.result("tasks/get", {"taskId": id})
    assert (task["taskId"], task["status"]) == (id, "working")
    visit.ends("at last")
    task = until(newer, id, "completed")
    assert text_of(task["result"]) == "at last"


def test_a_client_that_cannot_is_answered_at_once_or_refused(client: Connect, stage: Stage, name: str) -> None:
    newer = client(MODERN)
    exchange = newer.act(name, "Play_Preferred")
    stage.visit(name).ends()
    assert text_of(exchange.result()) == "done"
    for exchange in (
        newer.act(name, "Play_Required"),
        newer.request("tasks/get", {"taskId": "x"}),
        newer.request("tasks/cancel", {"taskId": "x"}),
        newer.request("tasks/update", {"taskId": "x", "inputResponses": {}}),
        newer.request("subscriptions/listen", {"notifications": {"taskIds": ["x"]}}),
    ):
        error = exchange.error()
        assert (exchange.status, error["code"]) == (400, -32021)
        assert error["data"]["requiredCapabilities"] == {"extensions": {TASKS: {}}}


def test_what_is_forbidden_is_no_task_however_long_it_takes(small: Server, stage: Stage, name: str) -> None:
    newer = connect(small.url, MODERN, **WITH_TASKS)
    exchange = newer.act(name, "Play_Forbidden")
    visit = stage.visit(name)
    assert exchange.is_stream  # two seconds are longer than the server's patience
    visit.ends()
    assert text_of(exchange.result()) == "done"


def test_a_slow_call_becomes_a_task_for_a_client_that_can(small: Server, stage: Stage, name: str) -> None:
    newer = connect(small.url, MODERN, **WITH_TASKS)
    result = newer.act(name).result()
    assert result["resultType"] == "task"
    visit = stage.visit(name)
    visit.ends("slowly")
    assert text_of(until(newer, result["taskId"], "completed")["result"]) == "slowly"


def test_a_slow_call_with_a_key_becomes_one_too_and_is_joined(small: Server, stage: Stage, name: str) -> None:
    newer = connect(small.url, MODERN, **WITH_TASKS)
    first, second = (newer.act(name, meta={"toolyard/callId": name}).result() for _ in range(2))
    assert first["taskId"] == second["taskId"] == name
    stage.visit(name).ends("slowly")
    assert text_of(until(newer, name, "completed")["result"]) == "slowly"
    assert stage.is_empty(name)


@pytest.mark.parametrize(("revision", "keyed"), [("2025-06-18", True), ("2025-11-25", False), (MODERN, True)])
def test_a_slow_call_of_a_client_that_cannot_is_waited_for(
    small: Server, stage: Stage, name: str, revision: str, keyed: bool
) -> None:
    waiting = connect(small.url, revision)
    exchange = waiting.act(name, meta={"toolyard/callId": name} if keyed else {})
    visit = stage.visit(name)
    assert exchange.is_stream
    visit.ends("slowly")
    assert text_of(exchange.result()) == "slowly"


def test_a_task_is_cancelled_by_its_client(client: Connect, stage: Stage, name: str) -> None:
    newer = client(MODERN, **WITH_TASKS)
    id = begun(newer, name)
    visit = stage.visit(name)
    assert newer.result("tasks/cancel", {"taskId": id})["resultType"] == "complete"
    assert visit.hear() == "stopped"
    until(newer, id, "cancelled")
    assert newer.request("tasks/cancel", {"taskId": id}).status == 200


def test_a_task_asks_and_is_answered(client: Connect, stage: Stage, name: str) -> None:
    newer = client(MODERN, **WITH_TASKS, **FORM)
    id = begun(newer, name)
    visit = stage.visit(name)
    visit.tell("together", "a", "b")
    deadline = time.monotonic() + DEADLINE_S
    while len(until(newer, id, "input_required")["inputRequests"]) < 2:
        assert time.monotonic() < deadline
    wrong = newer.request("tasks/update", {"taskId": id, "inputResponses": {"a": accepted(name=7)}})
    assert wrong.error()["code"] == -32602
    assert newer.request("tasks/update", {"taskId": id}).error()["code"] == -32602
    newer.result("tasks/update", {"taskId": id, "inputResponses": {"a": accepted(name="A"), "x": 7}})
    assert list(until(newer, id, "input_required")["inputRequests"]) == ["b"]
    newer.result("tasks/update", {"taskId": id, "inputResponses": {"b": accepted(name="B")}})
    assert visit.hear() == ["A", "B"]
    visit.ends()
    until(newer, id, "completed")


def test_a_call_asks_before_it_becomes_a_task(small: Server, stage: Stage, name: str) -> None:
    newer = connect(small.url, MODERN, **WITH_TASKS, **FORM)
    assert isinstance(newer, Newer)
    exchange = newer.act(name)
    visit = stage.visit(name)
    visit.tell("ask", "who")
    asked = exchange.result()
    second = newer.go_on("Play_Act", name, asked, {"who": accepted(name="Ada")})
    assert visit.hear() == "Ada"
    result = second.result()
    assert result["resultType"] == "task"
    visit.tell("ask", "then")
    until(newer, result["taskId"], "input_required")
    newer.result("tasks/update", {"taskId": result["taskId"], "inputResponses": {"then": accepted(name="Bea")}})
    assert visit.hear() == "Bea"
    visit.ends("both")
    assert text_of(until(newer, result["taskId"], "completed")["result"]) == "both"


def test_a_subscription_tells_of_a_task(client: Connect, stage: Stage, name: str) -> None:
    newer = client(MODERN, **WITH_TASKS, **FORM)
    id = begun(newer, name)
    visit = stage.visit(name)
    stream = newer.request("subscriptions/listen", {"notifications": {"taskIds": [id, "nobody"]}}, "s")
    assert stream.next()["method"] == "notifications/subscriptions/acknowledged"

    def told(status: str) -> Any:
        while (said := stream.next())["params"]["status"] != status:
            pass
        assert said["method"] == "notifications/tasks"
        assert said["params"]["taskId"] == id
        assert said["params"]["_meta"][PREFIX + "subscriptionId"] == "s"
        return said["params"]

    told("working")
    visit.tell("ask", "who")
    assert list(told("input_required")["inputRequests"]) == ["who"]
    newer.result("tasks/update", {"taskId": id, "inputResponses": {"who": accepted(name="Ada")}})
    assert visit.hear() == "Ada"
    visit.ends("told")
    assert text_of(told("completed")["result"]) == "told"


def test_a_subscription_tells_nobody_of_anothers_task(keyed: Server, stage: Stage, name: str) -> None:
    alice, bob = (Newer(keyed.url, key=key, **WITH_TASKS) for key in (ALICE, BOB))
    ids = [begun(alice, f"{name}-a"), begun(bob, f"{name}-b")]
    visits = [stage.visit(f"{name}-a"), stage.visit(f"{name}-b")]
    stream = bob.request("subscriptions/listen", {"notifications": {"taskIds": ids}})
    assert stream.next()["method"] == "notifications/subscriptions/acknowledged"
    assert stream.next()["params"]["taskId"] == ids[1]
    visits[0].ends()
    until(alice, ids[0], "completed")
    visits[1].ends()
    told = stream.next()["params"]
    assert (told["taskId"], told["status"]) == (ids[1], "completed")


def test_a_task_of_the_newer_era_survives_its_server(start: Start, stage: Stage, name: str) -> None:
    server = start()
    newer = Newer(server.url, **WITH_TASKS, **FORM)
    id = begun(newer, name)
    visit = stage.visit(name)
    visit.tell("ask", "first")
    until(newer, id, "input_required")
    newer.result("tasks/update", {"taskId": id, "inputResponses": {"first": accepted(name="Ada")}})
    assert visit.hear() == "Ada"
    server.restart()
    again = stage.visit(name)
    again.tell("ask", "first")
    assert again.hear() == "Ada"
    again.tell("ask", "second")
    asked = until(newer, id, "input_required")
    assert list(asked["inputRequests"]) == ["second"]
    newer.result("tasks/update", {"taskId": id, "inputResponses": {"second": accepted(name="Bea")}})
    assert again.hear() == "Bea"
    again.ends("both")
    assert text_of(until(newer, id, "completed")["result"]) == "both"
